"""`acl-py notebooks` writes the notebooks for Jupyter, and keeps what a reader wrote into them."""

import json
import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from acl_py import teaching
from acl_py.cli import app
from acl_py.teaching import files

NAMES = [
    "1_streams_in_ten_minutes", "2_who_waits_for_whom", "3_pageable_memory", "4_reading_too_early_and_measuring",
    "5_the_hidden_waits", "6_the_host_is_the_bottleneck", "7_asyncio_and_devices", "8_the_same_under_acl",
    "9_inside_a_core", "10_attention_and_experts", "11_cuda_without_a_card",
    "12_why_everybody_waits", "13_from_card_to_card", "14_follow_the_advice",
    "15_one_product_in_six_steps",
]  # fmt: skip
OPEN = "To open them: pip install jupyterlab, then jupyter lab course"


@pytest.fixture
def course(tmp_path, monkeypatch):
    """Runs `acl-py notebooks` with arguments, in an empty folder."""
    pytest.importorskip("jupytext", reason="pip install -e '.[notebooks]'")
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(app, ["notebooks", *arguments])


@pytest.fixture
def two(monkeypatch):
    """A course of two notebooks, which is written faster."""
    monkeypatch.setattr(files, "texts", lambda texts=files.texts: texts()[:2])


def test_it_lists_what_it_wrote_and_says_how_to_open_it(course):
    done = course("course")
    written = [f"course/{name}.ipynb" for name in NAMES] + [f"course/solutions/{name}.ipynb" for name in NAMES]
    assert done.stdout.splitlines() == [*written, OPEN]
    assert all(json.loads(Path(file).read_text("utf-8"))["nbformat"] == 4 for file in written)


def test_a_teacher_may_keep_the_solutions(course, two):
    done = course("course", "--no-solutions")
    assert done.stdout.splitlines() == [*(f"course/{name}.ipynb" for name in NAMES[:2]), OPEN]
    assert not Path("course", "solutions").exists()


def test_a_notebook_has_the_cells_of_its_text_and_two_copies_are_the_same(course, two):
    course("course")
    course("another")
    book = Path("course", f"{NAMES[0]}.ipynb")
    assert book.read_bytes() == Path("another", book.name).read_bytes()
    text = files.texts()[0].read_text(encoding="utf-8")
    cells = ["".join(cell["source"]) for cell in json.loads(book.read_text("utf-8"))["cells"]]
    assert len(cells) == len(re.findall("^# %%", text, re.MULTILINE))
    assert all(cell in text for cell in cells if cell.startswith("import"))


def test_a_notebook_that_was_run_is_kept(course, two):
    course("course")
    (book := Path("course", f"{NAMES[0]}.ipynb")).write_text(with_outputs(book.read_text("utf-8")), encoding="utf-8")
    before = book.read_text("utf-8")
    done = course("course")
    assert done.stdout.splitlines() == ["All of them are in course already.", OPEN]
    assert book.read_text("utf-8") == before


def with_outputs(text):
    """The notebook *text* after its cells of code have printed something."""
    book = json.loads(text)
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            cell |= {"execution_count": 1, "outputs": [{"output_type": "stream", "name": "stdout", "text": "right\n"}]}
    return json.dumps(book)


@pytest.mark.parametrize("text", ["{}", "not a notebook", '{"cells": [], "nbformat": 4, "nbformat_minor": 5}'])
def test_a_file_that_differs_is_named_and_nothing_is_written(course, two, text):
    Path("course").mkdir()
    (book := Path("course", f"{NAMES[1]}.ipynb")).write_text(text, encoding="utf-8")
    done = course("course")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"{book}: not what this version of acl_py would write. Nothing was written.")
    assert list(Path("course").iterdir()) == [book]
    assert book.read_text("utf-8") == text


def test_a_folder_that_cannot_be_written_is_a_sentence(course, two):
    Path("course").write_text("", encoding="utf-8")
    done = course("course/inside")
    assert (done.exit_code, done.stderr) == (1, "course/inside: cannot be written: Not a directory\n")


def test_without_the_extra_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jupytext", None)
    done = CliRunner().invoke(app, ["notebooks", str(tmp_path / "course")])
    assert (done.exit_code, done.stderr) == (1, "Notebooks need jupytext: pip install 'acl-py[notebooks]'\n")
    assert not (tmp_path / "course").exists()


def test_assignments_of_nbgrader_have_a_part_for_the_student_and_a_locked_check(course):
    """All cells together are those of the course. nbgrader empties a cell that is marked as a solution, so the part
    for the student, with the code to begin with, has no mark.
    """
    course("plain", "--no-solutions")
    assert course("graded", "--no-solutions", "--nbgrader").exit_code == 0
    for name in NAMES:
        plain, graded = (json.loads(Path(each, f"{name}.ipynb").read_text("utf-8")) for each in ("plain", "graded"))
        checks = [number for number, each in enumerate(graded["cells"]) if "nbgrader" in each["metadata"]]
        for number, place in enumerate(checks, 1):
            student, check = graded["cells"][place - 1 : place + 1]
            assert student["metadata"]["tags"] == ["exercise"]
            assert "teaching.exercise(" not in "".join(student["source"])
            assert "".join(check["source"]).endswith("\n\nassert teaching.is_solved()")
            mark = check["metadata"]["nbgrader"]
            assert (mark["grade_id"], mark["grade"], mark["solution"], mark["locked"], mark["points"]) == (
                f"check_{number}", True, False, True, 1,
            )  # fmt: skip
        assert len(checks) == 3
        joined = "".join("".join(each["source"]) for each in graded["cells"])
        whole = "".join("".join(each["source"]) for each in plain["cells"])
        assert "".join(joined.replace("assert teaching.is_solved()", "").split()) == "".join(whole.split())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # nbgrader's own, of its database
def test_nbgrader_gives_points_for_what_is_solved(course, tmp_path, monkeypatch):
    """Whole: an assignment with one notebook, a student who changes nothing, and one who solves exercise 3."""
    pytest.importorskip("nbgrader")
    from nbgrader.api import Gradebook
    from nbgrader.apps import NbGraderAPI
    from traitlets.config import Config

    monkeypatch.chdir(tmp_path)
    course("all", "--no-solutions", "--nbgrader")
    [notebook] = Path("all").glob("1_*.ipynb")
    Path("source/first").mkdir(parents=True)
    notebook.rename(Path("source/first/first.ipynb"))
    api = NbGraderAPI(config=Config(CourseDirectory={"root": str(tmp_path)}))
    assert api.generate_assignment("first")["success"]
    released = Path("release/first/first.ipynb").read_text("utf-8")
    assert "async def mine_1(" in released
    for student, text in {"idle": released, "busy": released.replace("{3: 0, 8: 0}", "{3: 2600, 8: 2600}")}.items():
        Path(f"submitted/{student}/first").mkdir(parents=True)
        Path(f"submitted/{student}/first/first.ipynb").write_text(text, "utf-8")
        assert api.autograde("first", student)["success"]
    with Gradebook(f"sqlite:///{tmp_path}/gradebook.db") as gradebook:
        submissions = gradebook.assignment_submissions("first")
        points = {
            each.student.id: [grade.score for book in each.notebooks for grade in book.grades] for each in submissions
        }
    assert points == {"idle": [0, 0, 0], "busy": [0, 0, 1]}


def test_an_assignment_asks_for_the_verdict_of_the_last_exercise():
    verdicts = [teaching.is_solved()]
    for solved in (True, False):
        teaching.exercise(solved, "10 us")
        verdicts.append(teaching.is_solved())
    assert verdicts == [False, True, False]
