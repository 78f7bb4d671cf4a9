"""The site that `make docs` has built: complete, and whole in a browser that opens it from disk."""

import inspect
import os
import re
import subprocess
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

import acl_py
from tests.test_public_names import PACKAGES, names_of

ROOT = Path(__file__).parent.parent
SITE = ROOT / "build" / "site"
PAGES = ("docs/index", "README", "docs/timeline", "docs/problems", "docs/built/gallery", "docs/built/waits",
         "docs/built/acl_py", "docs/built/acl_py/stream", "docs/semantics", "docs/howto/race", "docs/teaching",
         "docs/notebooks/1_streams_in_ten_minutes", "docs/notebooks/13_from_card_to_card", "docs/built/acl_py.cta",
         "docs/semantics/copies", "docs/errors/memory", "search")  # fmt: skip
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site():
    """The folder of the site that `make docs` has built, where warnings are errors."""
    if not (SITE / "objects.inv").exists():
        pytest.skip("there is no site yet: make docs")
    return SITE


def inventory(site):
    """The objects that the site documents."""
    lines = zlib.decompress((site / "objects.inv").read_bytes().split(b"\n", 4)[4]).decode().splitlines()
    return {line.split()[0] for line in lines if " py:" in line}


@pytest.mark.parametrize(
    "package",
    [package for package in PACKAGES if package.startswith("acl_py")],
)
def test_every_public_name_is_in_the_reference(site, package):
    assert {f"{package}.{name}" for name in names_of(package)} <= inventory(site)


def test_every_verb_has_its_row_in_the_table_of_waits(site):
    rows = re.findall(
        r"^\| \{py:func\}`(\w+)", (ROOT / "docs/built/waits.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert rows == sorted(name for name, verb in vars(acl_py.public).items() if inspect.iscoroutinefunction(verb))


def test_every_sample_is_in_the_gallery_and_every_picture_has_a_text(site):
    page = (ROOT / "docs/built/gallery.md").read_text(encoding="utf-8")
    outputs = [path.relative_to(ROOT / "samples").with_suffix("") for path in (ROOT / "samples").rglob("*.out")]
    samples = sorted(path.as_posix() for path in outputs if path.parent.name not in ("cuda", "notebooks"))
    assert sorted(re.findall(r"^### (.*)$", page, re.MULTILINE)) == samples
    assert page.count("![") == len(re.findall(r"^!\[The timeline of \S+: \S", page, re.MULTILINE)) > 40


class Page(HTMLParser):
    """The places of a page that a link can lead to, and where its links and pictures lead."""

    def __init__(self, file):
        super().__init__()
        self.places, self.targets = {""}, set()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id":
                self.places.add(value)
            elif name in ("href", "src") and value and not re.match(r"[a-z]+:", value):
                self.targets.add(value)


def test_every_link_leads_to_a_place_of_the_site(site):
    pages = {file: Page(file) for file in site.rglob("*.html")}
    broken = [
        f"{file.relative_to(site)}: {target}"
        for file, page in pages.items()
        for target in page.targets
        if not leads_somewhere(file, unquote(target), pages)
    ]
    assert broken == []
    assert len(pages) > 40


def test_the_readme_leads_to_each_page_that_it_names(site):
    """Also to one that has a folder of its name: a folder has no page."""
    named = re.findall(r"\]\((docs/[^)]*?\.md)", (ROOT / "README.md").read_text(encoding="utf-8"))
    _, _, article = (site / "README.html").read_text(encoding="utf-8").partition("<article")
    targets = set(re.findall(r'href="(docs/[^"#]*)', article.partition("</article>")[0]))
    assert targets == {name.replace(".md", ".html") for name in named}
    assert "docs/acl.html" in targets


@pytest.mark.parametrize("page", ["docs/index", "docs/timeline", "docs/sweeps"])
def test_the_text_of_a_picture_keeps_the_spaces_between_its_lines(site, page):
    text = (ROOT / f"{page}.md").read_text(encoding="utf-8")
    texts = [" ".join(each.split()) for each in re.findall(r"!\[([^]]*)\]\(", text)]
    shown = re.findall(r'<img alt="([^"]*)"', (site / f"{page}.html").read_text(encoding="utf-8"))
    assert set(texts) <= set(shown)
    assert texts


def leads_somewhere(file, target, pages):
    path, _, place = target.partition("#")
    end = (file.parent / path.partition("?")[0]).resolve() if path else file
    return end in pages and place in pages[end].places if place else end.is_file()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole_on_a_desk_and_on_a_phone(site, browser, name):
    for width in (1280, 390):
        page = browser.new_page(viewport={"width": width, "height": 800})
        said = []
        page.on("console", lambda message, said=said: said.append(message.text))
        page.on("pageerror", lambda error, said=said: said.append(str(error)))
        page.on("requestfailed", lambda request, said=said: said.append(request.url))
        page.goto((site / f"{name}.html").as_uri())
        pictures = "[...document.images].filter(i => !i.alt || !i.naturalWidth).map(i => i.src)"
        assert page.evaluate(pictures) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert said == []
        page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_keeps_nothing_from_readers_who_cannot_see_it_well(site, browser, name, scheme):
    """Contrasts, headings, texts of pictures and names of buttons, as axe-core checks them."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install -e '.[browser]'").Axe()
    for width in (1280, 390):
        page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        page.goto((site / f"{name}.html").as_uri())
        found = axe.run(page).response["violations"]
        page.close()
        assert [f"{width}: {each['id']}: {node['html'][:120]}" for each in found for node in each["nodes"]] == []


def test_the_front_page_has_the_demo_in_it_and_copies_commands_without_prompts(site, browser):
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto((site / "docs" / "index.html").as_uri())
    demo = page.frame_locator("iframe.demo")
    demo.locator("#title").wait_for()
    assert demo.locator("#title").inner_text() != ""
    page.locator("label", has_text="cuda.core").first.click()
    block = page.locator("div.highlight-console", has_text="acl-py run core.py").first
    block.hover()
    block.locator("button.copybtn").click()
    page.wait_for_selector("button.copybtn.success")
    assert page.evaluate("navigator.clipboard.readText()") == "acl-py run core.py"
    context.close()


def test_the_search_finds_a_verb(site, browser):
    page = browser.new_page()
    page.goto((site / "search.html").as_uri() + "?q=StreamWaitEvent")
    page.wait_for_selector("#search-results li a")
    assert any("acl_py" in link for link in page.locator("#search-results li a").all_inner_texts())


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_terminal_shows_how_many_pages_are_read_and_written(tmp_path, jobs):
    pytest.importorskip("sphinx")
    names = ["one", "two", "three"]
    (tmp_path / "conf.py").write_text(
        f"import sys\nsys.path.insert(0, {str(ROOT / 'docs' / 'make')!r})\nimport counting\nsetup = counting.Pages\n"
    )
    (tmp_path / "index.rst").write_text("Title\n=====\n\n.. toctree::\n\n   " + "\n   ".join(names))
    for name in names:
        (tmp_path / f"{name}.rst").write_text(f"{name}\n=====\n")
    shown = {
        terminal: subprocess.run(
            [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--jobs", jobs, ".", f"out{terminal}"],
            cwd=tmp_path,
            check=True,
            capture_output=True,
            text=True,
            env=os.environ | {"FORCE_COLOR": terminal, "COLUMNS": "100"},
        ).stderr
        for terminal in ("", "1")
    }
    assert shown[""] == ""
    text = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", shown["1"])
    for phase in ("pages read", "pages written"):
        counts = re.findall(rf"{phase} \S+ *(\d)/4", text)
        assert list(dict.fromkeys(counts)) == ["0", "1", "2", "3", "4"]
