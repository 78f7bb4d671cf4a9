"""The files of the product as syntax trees and tokens."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ("acl_py", "device_model")
_HAVE_DOCSTRINGS = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def files(*packages: str, root: Path = ROOT) -> list[Path]:
    """The Python files of *packages*, in order."""
    return [file for package in packages for file in sorted((root / package).rglob("*.py"))]


def docstrings(nodes: Iterable[ast.AST]) -> Iterator[ast.Constant]:
    """The docstrings of those of *nodes* that are modules, classes or functions."""
    for node in nodes:
        if isinstance(node, _HAVE_DOCSTRINGS) and ast.get_docstring(node, clean=False) is not None:
            yield node.body[0].value
