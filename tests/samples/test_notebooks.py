"""The notebooks run from a clean kernel; exercises are unsolved as they are given, and the solutions solve them."""

import ast
import re
import sys
from itertools import pairwise
from pathlib import Path

import pytest

import acl_py

FOLDER = Path(__file__).parent.parent.parent / "samples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("[0-9]_*.py"))
PARTS = ("*The question:*", "## Your prediction", "## The run", "timeline.show(", "## Exercises")

for_each_notebook = pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)


@for_each_notebook
def test_a_notebook_asks_lets_predict_runs_draws_and_sets_exercises(notebook):
    text = notebook.read_text(encoding="utf-8")
    places = [text.find(part) for part in PARTS]
    assert all(place >= 0 for place in places), f"of {PARTS}, some are not in it: {places}"
    assert all(one < other for one, other in pairwise(places))


@for_each_notebook
def test_every_exercise_of_a_notebook_has_a_folded_solution(notebook):
    cells = re.findall(r"^# %%(.*)$", notebook.read_text(encoding="utf-8"), flags=re.MULTILINE)
    kinds = [kind for cell in cells for kind in re.findall(r'tags=\["(exercise|solution)"\]', cell)]
    assert kinds == ["exercise", "solution"] * (len(kinds) // 2)
    assert all('"source_hidden": true' in cell for cell in cells if '"solution"' in cell)


@for_each_notebook
def test_a_notebook_is_python_that_may_await_anywhere(notebook):
    compile(notebook.read_text(encoding="utf-8"), notebook.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_a_picture_has_a_row_for_the_host_and_one_for_each_stream(monkeypatch):
    pytest.importorskip("matplotlib").use("agg")
    monkeypatch.syspath_prepend(FOLDER)
    import timeline

    async def program():
        second, first = await acl_py.CreateStream(name="second"), await acl_py.CreateStream()
        for stream in (second, first, None):
            await acl_py.LaunchHostFunc(stream, lambda: None)
        await acl_py.SynchronizeDevice()
        return acl_py.current_simulation().trace

    trace = acl_py.run(program, device="tiny")
    figure = timeline.draw({"all": trace.timeline()}, rows="both")
    rows = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert rows == ["host", "legacy", "stream 2", "stream 'second'", "host thread"]
    timeline.plt.close(figure)


@pytest.mark.slow
@for_each_notebook
def test_a_notebook_runs_from_a_clean_kernel_and_its_solutions_solve_the_exercises(notebook, tmp_path, monkeypatch):
    for variable in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "MPLCONFIGDIR"):  # nobody's own settings
        monkeypatch.setenv(variable, str(tmp_path))
    cells = executed(notebook).cells
    said = [(tag, printed(cell)) for cell in cells for tag in cell.metadata.get("tags", ())]
    assert [text for tag, text in said if tag == "exercise" and not text.startswith("not yet")] == []
    assert [text for tag, text in said if tag == "solution" and not text.startswith("solved")] == []
    pictures = [output for cell in cells for output in cell.get("outputs", ()) if "image/png" in output.get("data", ())]
    assert len(pictures) >= 2


def executed(notebook):
    """*notebook* after all of its cells were run in a kernel of their own, in its folder, as in Jupyter."""
    jupytext = pytest.importorskip("jupytext", reason="pip install -e '.[notebooks]'")
    nbclient = pytest.importorskip("nbclient", reason="pip install -e '.[notebooks]'")
    pytest.importorskip("ipykernel", reason="pip install -e '.[notebooks]'")
    cells = jupytext.read(notebook)
    nbclient.NotebookClient(
        cells, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(FOLDER)}}
    ).execute()
    return cells


def printed(cell):
    return "".join(output.text for output in cell.outputs if output.output_type == "stream")


@pytest.fixture
def timeline(monkeypatch):
    pytest.importorskip("matplotlib", reason="pip install -e '.[notebooks]'").use("agg")
    monkeypatch.syspath_prepend(FOLDER)
    yield pytest.importorskip("timeline")
    sys.modules.pop("timeline")


def test_a_prediction_counts_where_it_says_something(timeline):
    table = """
             legacy   blocking
    legacy     w         ?
    blocking   -         -
    """
    assert timeline._guesses(["legacy", "blocking"], table) == {
        ("legacy", "legacy"): True,
        ("blocking", "legacy"): False,
        ("blocking", "blocking"): False,
    }
