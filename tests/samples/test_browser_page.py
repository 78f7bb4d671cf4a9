"""The page that runs notebooks in a browser: they print there what they print in Jupyter, and so do samples.

It needs Chromium and Playwright (apt-get install chromium; pip install -e '.[browser]'), and Pyodide, which pip fetches
once: see docs/make/browser/build.py.
"""

import re
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import util

import pytest

from acl_py.teaching import files
from tests.samples.notebooks import ROOT, solutions_of, tagged

pytestmark = pytest.mark.slow
BUILDER = ROOT / "docs" / "make" / "browser" / "build.py"
SAMPLES = ROOT / "samples"
NOT_RUN = {"8_the_same_under_acl": [8]}  # cells that need threads, by their numbers
# Not 10, which starts a thread, and not 18, whose roles need greenlet.
NUMBERED = [path for path in sorted(SAMPLES.glob("[0-9]*_*.py")) if path.name[:2] not in ("10", "18")]
# The outputs of each cell as text: those of the two streams in their order, the text of a picture or page, or a note.
OUTPUTS = """[...document.querySelectorAll(".cell")].map((cell) => {
    const text = (kind) => [...cell.querySelectorAll(`.outputs > .${kind}`)].map((each) => each.textContent).join("");
    const pictures = [...cell.querySelectorAll("figure")].map(
        (each) => `${each.querySelector("img").alt}\\n${each.querySelector("figcaption").innerText}`.trim() + "\\n");
    const pages = [...cell.querySelectorAll(".html > iframe")].map((each) => `<Page '${each.title}'>\\n`);
    return { number: Number(cell.querySelector(".number").textContent.slice(1, -1)), errors: text("error"),
             note: text("note"), printed: text("stdout") + text("stderr") + text("value") +
             [...pictures, ...pages].join("") };
})"""
PROGRAM = """import pathlib, runpy, sys
sys.argv = [{name!r}]
pathlib.Path({name!r}).write_text({text!r})
runpy.run_path({name!r}, run_name="__main__")
None"""


@pytest.fixture(scope="module")
def built(browser, tmp_path_factory):
    """The folder with the page; it is built only where there is a browser."""
    pytest.importorskip("jupytext", reason="pip install -e '.[notebooks]'")
    spec = util.spec_from_file_location("browser_page", BUILDER)
    builder = util.module_from_spec(spec)
    spec.loader.exec_module(builder)
    try:
        builder.find_pyodide()
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        said = str(error.stderr)
        assert "HASHES" not in said, said
        pytest.skip(f"Pyodide cannot be fetched from PyPI: {said.strip()[-200:]}")
    folder = tmp_path_factory.mktemp("page")
    builder.main(folder)
    return folder


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Leave the terminal alone."""


@pytest.fixture(scope="module")
def address(built):
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=built)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture
def opened(browser):
    """Open pages. Nothing may fail in them, and nothing may be asked of another address."""
    mistakes, pages = [], []

    def open_page(address, **options):
        page = browser.new_page(**options)
        pages.append(page)
        origin = address.rpartition("/")[0]
        page.on("console", lambda message: mistakes.append(message.text))
        page.on("pageerror", lambda error: mistakes.append(str(error)))
        page.on("requestfailed", lambda request: mistakes.append(request.url))
        page.on("request", lambda request: request.url.startswith(origin) or mistakes.append(request.url))
        page.goto(address)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert mistakes == []


def wait(page):
    """Wait until all cells have run, or the page says why they cannot."""
    page.wait_for_function(
        "status.textContent === 'Ready' || status.matches('.bad')".replace("status", "byId('status')"), timeout=120_000
    )
    assert page.inner_text("#status") == "Ready"


def run_cell(page, number, source=None):
    """Run the cell at the place *number*, with *source* as its code, and return its outputs."""
    cell = page.locator(".cell").nth(number)
    if source is not None:
        cell.locator("textarea").fill(source)
    cell.locator("button").click()
    wait(page)
    return page.evaluate(OUTPUTS)[number]


@pytest.mark.parametrize(
    "notebook", [*files.texts()[:8], files.texts()[11], files.texts()[13]], ids=lambda notebook: notebook.stem
)
def test_a_notebook_prints_in_a_browser_what_it_prints_in_jupyter(notebook, address, opened):
    import jupytext

    page = opened(f"{address}#{notebook.stem}")
    guesses = iter(tagged(solutions_of(notebook), "guess"))
    for number, cell in enumerate(cell for cell in jupytext.read(notebook).cells if cell.cell_type == "code"):
        if "prediction" in cell.metadata.get("tags", ()):
            page.locator(".cell").nth(number).locator("textarea").fill(next(guesses).source)
    page.click("#run-all")
    wait(page)
    cells = page.evaluate(OUTPUTS)
    assert [cell["errors"] for cell in cells if cell["errors"]] == []
    notes = {cell["number"]: cell["note"] for cell in cells if cell["note"]}
    assert list(notes) == NOT_RUN.get(notebook.stem, [])
    assert all(note.startswith("This cell was not run: it needs threads (`to_thread`)") for note in notes.values())
    wanted = notebook.with_suffix(".out").read_text(encoding="utf-8")
    for number in notes:
        wanted = re.sub(rf"^\[{number}\]\n.*?^(?=\[)", "", wanted, flags=re.DOTALL | re.MULTILINE)
    assert "\n".join(f"[{cell['number']}]\n{cell['printed']}" for cell in cells if cell["printed"]) == wanted


def test_samples_print_in_a_browser_what_the_files_beside_them_say(address, opened):
    page = opened(f"{address}#own")
    for sample in NUMBERED:
        text = sample.read_text(encoding="utf-8")
        cell = run_cell(page, 0, PROGRAM.format(name=sample.name, text=text))
        assert cell["errors"] == "", sample.name
        shown = page.evaluate("byId('main').querySelector('.outputs').textContent")
        assert shown == sample.with_suffix(".out").read_text(encoding="utf-8"), sample.name


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_fits_a_desk_and_a_phone(width, address, opened):
    page = opened(address, viewport={"width": width, "height": 800})
    links = page.locator("main a").all_inner_texts()
    assert links[0] == "1 Streams in ten minutes"
    assert links[-1] == "A program of your own"
    assert len(links) == 11  # notebooks 1 to 8, 12 and 14
    page.click("main a >> nth=0")
    run_cell(page, 0)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("[...document.images].filter(i => !i.alt || !i.naturalWidth).map(i => i.src)") == []


def test_keys_run_cells_and_indent_lines(address, opened):
    page = opened(f"{address}#own")
    page.focus("textarea")
    page.keyboard.type("for number in range(2):\nprint(number)")
    page.keyboard.press("Shift+Enter")
    wait(page)
    assert page.evaluate(OUTPUTS)[0]["printed"] == "0\n1\n"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") != "TEXTAREA"


def test_a_mistake_is_a_sentence_or_the_readers_own_lines(address, opened):
    page = opened(f"{address}#1_streams_in_ten_minutes")
    assert run_cell(page, 2)["errors"] == (
        "There is no 'queue_chunk' yet (cell 1, line 1): run the cells above first, from the top (press Run all), or "
        "correct the one that failed. If no cell above defines it, the name is misspelt.\n"
    )
    page.click("#home")
    page.click("text=A program of your own")
    assert run_cell(page, 0, "import acl_py\nacl_py.open(device='moon')")["errors"].splitlines()[:3] == [
        "Traceback (most recent call last):",
        '  File "cell 1", line 2, in <module>',
        "    acl_py.open(device='moon')",
    ]
    stuck = "import asyncio, acl_py\nsim = acl_py.open()\nawait asyncio.Event().wait()"
    assert "DeadlockError: no task or thread can run" in run_cell(page, 0, stuck)["errors"]
    assert run_cell(page, 0, "1 + 1")["printed"] == "2\n"


def test_restart_forgets_the_names_and_stops_what_runs(address, opened):
    page = opened(f"{address}#own")
    run_cell(page, 0, "x = 1")
    page.locator("textarea").fill("while True: pass")
    page.locator(".cell button").click()
    page.click("#restart")
    assert page.inner_text("#status") == "Stopped: all names are forgotten. Run the cells from the top."
    assert run_cell(page, 0, "x")["errors"].startswith("There is no 'x' yet (cell 1, line 1)")


def test_a_page_opened_from_disk_says_what_to_do(built, opened):
    page = opened(f"{built.as_uri()}/index.html#1_streams_in_ten_minutes")
    page.click("#run-all")
    assert "Run `python -m http.server` in its folder, and open http://localhost:8000." in page.inner_text("#status")


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        ("pyodide/pyodide.js", "The folder pyodide beside this page is missing or incomplete."),
        ("packages.zip", "The file packages.zip beside this page is missing."),
        ("worker.js", "its file worker.js is missing."),
    ],
)
def test_a_missing_file_is_named(missing, says, address, browser):
    page = browser.new_page()
    page.route(f"**/{missing}", lambda route: route.fulfill(status=404))
    page.goto(f"{address}#own")
    page.click("#run-all")
    page.wait_for_selector("#status.bad:not(:empty)")
    assert says in page.inner_text("#status")
    page.close()


def test_an_old_browser_is_told_so(address, browser):
    page = browser.new_page()
    page.add_init_script("delete window.WebAssembly")
    page.goto(f"{address}#own")
    assert "this browser has no workers or no WebAssembly" in page.inner_text("#status")
    page.close()
