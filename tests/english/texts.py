"""The texts of the project: pages, cells of notebooks, docstrings, and whole files."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.measures.sources import PACKAGES, ROOT, docstrings, files


@dataclass(frozen=True)
class Text:
    """A text and its place: the file, the line in which it begins, and its kind: "page", "notebook" or "docstring"."""

    kind: str
    file: str
    line: int
    text: str


def pages(root: Path = ROOT) -> list[Path]:
    """Return the pages that people write or print, but for those of notebooks and of the site."""
    docs = sorted(page for page in (root / "docs").rglob("*.md") if not {"notebooks", "built"} & set(page.parts))
    return [root / "README.md", root / "CONTRIBUTING.md", root / "CHANGELOG.md", *docs]


def notebook_pages(root: Path = ROOT) -> list[Path]:
    """Return the pages of the notebooks."""
    return sorted((root / "docs" / "notebooks").glob("*.md"))


def words(page: Path) -> int:
    """How many words a reader of *page* sees, with its code and without the texts that stand in for pictures."""
    return len(re.sub(r"!\[[^\]]*\]\([^)]*\)", "", page.read_text(encoding="utf-8")).split())


def notebooks() -> list[Path]:
    """Return the notebooks and their solutions."""
    return sorted((ROOT / "samples" / "notebooks").rglob("*.py"))


def code() -> list[Path]:
    """Return the files of the packages, and the plug-in of pytest."""
    return [*files(*PACKAGES), ROOT / "acl_py_pytest.py"]


def name_of(file: Path) -> str:
    """Return the path of *file* in the repository."""
    return file.relative_to(ROOT).as_posix()


def of_pages() -> Iterator[Text]:
    """Yield the pages and the cells of Markdown of the notebooks."""
    for page in pages():
        yield Text("page", name_of(page), 1, page.read_text(encoding="utf-8"))
    for notebook in notebooks():
        yield from cells(name_of(notebook), notebook.read_text(encoding="utf-8"))


def of_docstrings() -> Iterator[Text]:
    """Yield the docstrings of the packages."""
    for file in code():
        nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        yield from (Text("docstring", name_of(file), node.lineno, node.value) for node in docstrings(nodes))


def cells(name: str, source: str) -> Iterator[Text]:
    """Yield the cells of Markdown of a notebook."""
    cell, begin = list[str](), 0
    for number, line in enumerate([*source.splitlines(), "# %%"], 1):
        if line.startswith("# %%"):
            if cell:
                yield Text("notebook", name, begin, "\n".join(cell))
            cell, begin = [], number + 1 if "[markdown]" in line else 0
        elif begin and line.startswith("#"):
            cell.append(line[2:])


def whole() -> Iterator[Text]:
    """Yield each page, notebook and file of code as it is, with its docstrings, comments and messages."""
    for file in [*pages(), *notebooks(), *code()]:
        yield Text("page" if file.suffix == ".md" else "code", name_of(file), 1, file.read_text(encoding="utf-8"))


def flat(text: Text) -> str:
    """Return *text* in one line: where a comment, a string or a quotation goes on in the next line, it goes on."""
    return re.sub(r'(?:["\'])?\s*\n\s*(?:#|>|f?["\'](?!["\']))?\s*', " ", text.text)
