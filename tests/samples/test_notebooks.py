"""The notebooks run from the wheel, without the repository; their exercises are unsolved, and the solutions solve them.

`python -m tests.samples.notebooks` rewrites what they print.
"""

import ast
import json
import re
import subprocess
import sys
from itertools import pairwise

import pytest

from tests import forks
from tests.samples import notebooks as books
from tests.samples.notebooks import DATA, FOLDER, NOTEBOOKS, ROOT, executed, output_of, printed, programs, tagged

PARTS = ("*The question:*", "## Your prediction", "## The run", "teaching.", "## Exercises", "## On your own card")
OUTPUT = re.compile(r"^# ```text\n(.*?)^# ```$", re.DOTALL | re.MULTILINE)
OWN_CARD = re.compile(r"^# ```python\n(.*?)^# ```$", re.DOTALL | re.MULTILINE)

for_each_notebook = pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
run_each_notebook = pytest.mark.parametrize(
    "notebook",
    [
        pytest.param(each, marks=pytest.mark.skipif(bool(books.trouble(each)), reason=books.trouble(each)))
        for each in NOTEBOOKS
    ],
    ids=lambda notebook: notebook.stem,
)


@for_each_notebook
def test_a_notebook_asks_lets_predict_runs_draws_sets_exercises_and_ends_on_a_card(notebook):
    text = notebook.read_text(encoding="utf-8")
    places = [text.find(part, text.find("## The run") if part == "teaching." else 0) for part in PARTS]
    assert all(place >= 0 for place in places), f"of {PARTS}, some are not in it: {places}"
    assert all(one < other for one, other in pairwise(places))
    assert "teaching.predict" in text
    assert "teaching.findings(" in text, "it shows a race"


@for_each_notebook
def test_a_notebook_has_three_exercises_whose_solutions_are_elsewhere_and_so_are_guesses_for_its_predictions(notebook):
    solutions = FOLDER / "solutions" / notebook.name
    tags, others = [
        re.findall(r'^# %%.* tags=\["(\w+)"\]', file.read_text(encoding="utf-8"), re.MULTILINE)
        for file in (notebook, solutions)
    ]
    predictions = tags.count("prediction")
    assert predictions >= 1
    assert [tag for tag in tags if tag != "prediction"] == ["exercise"] * 3
    assert others == ["guess"] * predictions + ["solution"] * 3


@for_each_notebook
def test_a_guess_answers_each_question_of_its_prediction_and_nothing_else(notebook):
    blanks, guesses = (
        re.findall(rf'^# %% tags=\["{tag}"\]\n((?:(?!# %%|\n).*\n)+)', file.read_text(encoding="utf-8"), re.MULTILINE)
        for file, tag in ((notebook, "prediction"), (FOLDER / "solutions" / notebook.name, "guess"))
    )
    for blank, guess in zip(blanks, guesses, strict=True):
        assert "..." in blank or "?" in blank
        assert "..." not in guess
        assert re.search(r"[?]", guess) is None
        asked, answered = (re.findall(r"(\w+|\"[^\"]+\"): ", text) for text in (blank, guess))
        assert asked == answered


@for_each_notebook
def test_a_notebook_is_python_that_may_await_anywhere(notebook):
    compile(notebook.read_text(encoding="utf-8"), notebook.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def plain(block):
    """The text of *block*, which is Markdown in a cell."""
    return "".join(line.removeprefix("#").removeprefix(" ") for line in block.splitlines(keepends=True))


@for_each_notebook
def test_the_program_for_an_own_card_is_short_and_python(notebook):
    (block,) = OWN_CARD.findall(notebook.read_text(encoding="utf-8"))
    compile(plain(block), notebook.name, "exec")
    assert len([line for line in plain(block).splitlines() if line.strip()]) <= 26


@pytest.mark.slow
def test_the_program_for_an_ascend_card_prints_here_what_its_notebook_says(tmp_path):
    (notebook,) = FOLDER.glob("8_*.py")
    text = notebook.read_text(encoding="utf-8")
    (program,), (says,) = OWN_CARD.findall(text), OUTPUT.findall(text)
    (tmp_path / "own.py").write_text(plain(program), encoding="utf-8")
    done = forks.run("-m", "acl_py", "run", "--device", "ascend910b2", "own.py", cwd=tmp_path)
    assert done.stdout == plain(says), done.stderr


@pytest.mark.slow
def test_the_package_has_exactly_the_measured_programs_that_notebooks_name():
    assert json.loads(DATA.read_text(encoding="utf-8")) == programs()


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A folder with what the wheel installs, and nothing of the repository."""
    for module in ("jupytext", "nbclient", "ipykernel", "matplotlib", "hatchling"):
        pytest.importorskip(module, reason="pip install -e '.[dev,notebooks]'")
    folder = tmp_path_factory.mktemp("package")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT], check=True, timeout=120
    )
    (wheel,) = folder.glob("*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--no-index", "--target", folder, wheel], check=True, timeout=120)
    return folder


@pytest.mark.slow
@run_each_notebook
def test_a_notebook_prints_what_the_file_beside_it_says_and_its_pictures_have_texts(notebook, package):
    book = executed(notebook, package, guessed=True)
    assert output_of(book) == notebook.with_suffix(".out").read_text(encoding="utf-8")
    exercises = [printed(cell) for cell in tagged(book, "exercise")]
    assert [text for text in exercises if not text.startswith("not yet")] == []
    values = [out.get("data", {}) for cell in book.cells for out in cell.get("outputs", ())]
    pages = [data["text/html"] for data in values if "text/html" in data]
    pictures = [page for page in pages if not page.startswith("<iframe srcdoc=")]
    assert len(pictures) >= 1
    image = r'<img alt="[^"]{20,}" src="data:image/png;base64,[\w+/=]{1000,}"'
    assert [page for page in pictures if not re.search(image, page)] == []
    assert len([page for page in pages if "<iframe srcdoc=" in page]) >= ("teaching.show(" in book_text(book))


def book_text(book):
    return "\n".join(cell.source for cell in book.cells)


@pytest.mark.slow
@run_each_notebook
def test_the_solutions_of_a_notebook_solve_its_exercises(notebook, package):
    """With blank predictions, as a reader may leave them."""
    book = executed(notebook, package, solved=True)
    assert [printed(cell) for cell in tagged(book, "solution") if not printed(cell).startswith("solved")] == []
    assert all("still empty" in printed(cell) for cell in tagged(book, "prediction"))


@pytest.mark.slow
def test_the_kernel_of_a_notebook_has_the_installed_package(package, tmp_path):
    notebook = tmp_path / "where.py"
    notebook.write_text("# %%\nimport acl_py\nprint(acl_py.__file__)\n", encoding="utf-8")
    (cell,) = executed(notebook, package).cells
    assert printed(cell) == f"{package / 'acl_py' / '__init__.py'}\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("await batch(3)", "There is no 'batch' yet (cell 2, line 1): run the cells above first"),
        ("def f():\n    return chunk\n\n\nf()", "There is no 'chunk' yet (cell 2, line 2)"),
        ("teaching.predict({1: 'much'})", "1: write a number of us, such as 250, in place of 'much'."),
    ],
)
def test_a_mistake_in_a_cell_is_a_sentence(tmp_path, cell, says):
    nbclient = pytest.importorskip("nbclient", reason="pip install -e '.[notebooks]'")
    pytest.importorskip("jupytext", reason="pip install -e '.[notebooks]'")
    notebook = tmp_path / "mistake.py"
    notebook.write_text(f"# %%\nfrom acl_py import teaching\n\nteaching.begin()\n\n# %%\n{cell}\n", encoding="utf-8")
    with pytest.raises(nbclient.exceptions.CellExecutionError) as caught:
        executed(notebook, tmp_path)
    *_, shown = caught.value.traceback.rstrip().rpartition("------------------\n")
    assert shown.strip().startswith(says)
    assert len(shown.strip().splitlines()) == 1, "a sentence, no traceback"


@pytest.mark.slow
def test_a_line_of_a_notebook_is_named_by_its_cell(tmp_path):
    pytest.importorskip("jupytext", reason="pip install -e '.[notebooks]'")
    notebook = tmp_path / "site.py"
    program = "sim = acl_py.open(device='tiny')\nprint(await acl_py.CreateEvent())\nawait sim.close()"
    notebook.write_text(
        f"# %%\nimport acl_py\nfrom acl_py import teaching\n\nteaching.begin()\n\n# %%\n{program}\n"
        "# %%\nprint(sim.trace.calls[0].file)",
        encoding="utf-8",
    )
    assert printed(executed(notebook, tmp_path).cells[-1]) == "cell 2\n"


RACING = """
import sys
import acl_py
from acl_py import teaching

teaching.begin()

@acl_py.kernel(cost=acl_py.Cost(us=1))
def write(x: acl_py.Out):
    x[:] = 1

async def race():
    sim = acl_py.open(device="tiny", sanitize="device")
    x = await acl_py.Malloc(64)
    for _ in range(2):
        await write[1, await acl_py.CreateStream()](x)
    await acl_py.SynchronizeDevice()
    await sim.close()
    return sim

# %%
teaching.findings(await race())

# %%
print("raced:", len((await race()).findings), flush=True)
"""


@pytest.mark.slow
def test_teaching_findings_prints_once_in_a_notebook(tmp_path):
    pytest.importorskip("jupytext", reason="pip install -e '.[notebooks]'")
    notebook = tmp_path / "race.py"
    notebook.write_text(f"# %%\n{RACING}", encoding="utf-8")
    _, shown, silent = (printed(cell) for cell in executed(notebook, tmp_path).cells)
    [race] = [line for line in shown.splitlines() if line.startswith("race: kernel 'write' on stream 1")]
    assert "missing: " in shown
    assert silent == f"raced: 1\n{race.rpartition(' [race-')[0]}\n"


def test_a_finding_that_the_program_has_printed_is_not_told_at_the_end_of_its_cell():
    """What Jupyter does, without it: findings are held in a cell, and released behind it."""
    program = RACING.split("# %%")[0] + (
        "from asyncio import run\nfrom acl_py.findings import hold, release\nhold()\n"
        "teaching.findings(run(race()))\nrelease()\nprint('---', file=sys.stderr)\nrun(race())\nrelease()\n"
    )
    done = forks.run("-c", program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("race: kernel 'write'") == 1
    before, _, behind = done.stderr.partition("---\n")
    assert before == ""
    assert behind.count("race: kernel 'write'") == 1
