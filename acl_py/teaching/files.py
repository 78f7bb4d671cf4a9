"""The files of the notebooks: their texts in the package, and what Jupyter opens.

A notebook is stored as text, in the percent format of jupytext. Beside it lies a file `.out` with what its cells print,
and in the folder `solutions` the solutions of its exercises.
"""

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


def write(target: Path, *, solutions: bool = True) -> list[Path]:
    """Write the notebooks into the folder *target* as `.ipynb`, with *solutions* in a folder of their own.

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
    books = {file: _book(text) for file, text in sources.items()}
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


def _book(text: Path) -> Any:
    """Return the notebook that *text* is; it does not ask Jupyter to keep a text beside it."""
    book = _jupytext().read(text)
    book.metadata.pop("jupytext", None)
    for number, cell in enumerate(book.cells, 1):
        cell["id"] = f"cell-{number}"  # by default random, and so different in each copy
    return book


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
