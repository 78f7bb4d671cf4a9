"""The files of the notebooks: their texts in the package, and what Jupyter opens.

A notebook is stored as text, in the percent format of jupytext. Beside it lies a file `.out` with what its cells print,
and in the folder `solutions` the solutions of its exercises.
"""

import ast
import copy
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from acl_py.teaching.mistakes import NotebookError
from acl_py.whole_files import write_text

_NO_JUPYTEXT = "Notebooks need jupytext: pip install 'acl-py[notebooks]'"


def folder() -> Path:
    """Return the folder with the texts of the notebooks: part of an installed package, or samples/notebooks."""
    here = Path(__file__).parent
    installed = here / "data" / "notebooks"
    return installed if installed.is_dir() else here.parent.parent / "samples" / "notebooks"


def texts() -> list[Path]:
    """Return the texts of the notebooks, in the order of the course."""
    return sorted(folder().glob("[0-9]*_*.py"), key=lambda file: int(file.name.partition("_")[0]))


def write(target: Path, *, solutions: bool = True, graded: bool = False) -> list[Path]:
    """Write the notebooks into the folder *target* as `.ipynb`, with *solutions* in a folder of their own. If *graded*,
    they are assignments of nbgrader, as `with_grades` makes them.

    A file that is there already, with the same cells, stays as it is: it may have outputs. Return what was written.

    Raises:
        NotebookError: jupytext is missing, or a cell of a file that is there differs. Nothing has been written.
        OSError: a file cannot be written.
    """
    if find_spec("jupytext") is None:
        raise NotebookError(_NO_JUPYTEXT)
    sources = {target / f"{text.stem}.ipynb": text for text in texts()}
    if solutions:
        of_solutions = {file.parent / "solutions" / file.name: text for file, text in sources.items()}
        sources |= {file: text.parent / "solutions" / text.name for file, text in of_solutions.items()}
    books = {file: _book(text, graded=graded) for file, text in sources.items()}
    there = [file for file in books if file.exists()]
    changed = [str(file) for file in there if not _has_cells_of(file, books[file])]
    if changed:
        raise NotebookError(
            f"{', '.join(changed)}: not what this version of acl_py would write. Nothing was written. Move the file "
            "away, or name another folder."
        )
    written = [file for file in books if file not in there]
    for file in written:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, _jupytext().writes(books[file], fmt="ipynb").removesuffix("\n") + "\n")
    return written


def _book(text: Path, *, graded: bool) -> Any:
    """Return the notebook that *text* is; it does not ask Jupyter to keep a text beside it."""
    book = _jupytext().read(text)
    book.metadata.pop("jupytext", None)
    if graded:
        book.cells = [part for cell in book.cells for part in with_grades(cell)]
        for number, cell in enumerate((each for each in book.cells if "nbgrader" in each.metadata), 1):
            cell.metadata["nbgrader"]["grade_id"] += f"_{number}"
    for number, cell in enumerate(book.cells, 1):
        cell["id"] = f"cell-{number}"  # by default random, and so different in each copy
    return book


def with_grades(cell: Any) -> list[Any]:
    """Return what nbgrader makes an assignment of. For a *cell* with an exercise these are a cell that a student
    changes, and a locked one that checks it, for a point. Other cells stay as they are.

    The student's part ends with the function, or the value, whose name begins with "mine" or "my_". It is no solution
    cell of nbgrader, which would empty it: the student begins with what is there.
    """
    if "exercise" not in cell.metadata.get("tags", ()):
        return [cell]
    lines = cell.source.splitlines(keepends=True)
    tree = compile(cell.source, "exercise", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    end = max(each.end_lineno for each in tree.body if _name_of(each).startswith(("mine", "my_")))
    student, check = copy.deepcopy(cell), copy.deepcopy(cell)
    student.source = "".join(lines[:end]).strip("\n")
    check.source = "".join(lines[end:]).strip("\n") + "\n\nassert teaching.is_solved()"
    check.metadata["nbgrader"] = {
        "grade": True, "solution": False, "locked": True, "task": False, "points": 1,
        "grade_id": "check", "schema_version": 3, "cell_type": "code",
    }  # fmt: skip
    return [student, check]


def _name_of(statement: ast.stmt) -> str:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.Assign(targets=[ast.Name(id=name)]):
            return name
    return ""


def _has_cells_of(file: Path, book: Any) -> bool:
    """Return whether *file* is a notebook with the cells of *book*, whatever their outputs are."""
    try:
        cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
        there = [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
    except (ValueError, KeyError, TypeError):  # not JSON, or JSON of something else
        return False
    return there == [(cell.cell_type, cell.source) for cell in book.cells]


def _jupytext() -> Any:
    import jupytext

    return jupytext
