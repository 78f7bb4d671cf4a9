"""The Python side of the page: it runs the cells of one notebook in Pyodide, one after the other.

All cells share their names and one event loop, whose time is simulated. A cell that awaits runs in this loop. Any other
cell runs outside of it, so a whole script that ends in `acl_py.run(main)` can be a cell.
"""

import ast
import asyncio
import importlib
import io
import linecache
import logging
import sys
import traceback
from collections.abc import Callable, Iterator
from inspect import CO_COROUTINE
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import matplotlib as mpl

import acl_py
import device_model
from acl_py.findings import release
from acl_py.teaching.mistakes import NotebookError, out_of_order

Send = Callable[[str, str], object]  # the kind of an output, and its text

FLAGS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
HOW_TO_RUN_ALL = "press Run all"
# What a cell names if it needs something that a browser does not give.
MISSING = {
    "to_thread": "threads",
    "run_in_executor": "threads",
    "threading": "threads",
    "ThreadPoolExecutor": "threads",
    "socket": "sockets",
    "subprocess": "processes",
    "multiprocessing": "processes",
}
_OWN = (__file__, *(str(Path(package.__file__ or "").parent) for package in (acl_py, device_model, asyncio)))


class Lines(io.TextIOBase):
    """A stream of text that sends whole lines, as outputs of one kind."""

    def __init__(self, kind: str, send: Send) -> None:
        self._kind, self._send, self._rest = kind, send, ""

    def write(self, text: str) -> int:
        """Send the lines of *text* that are complete."""
        lines, newline, self._rest = (self._rest + text).rpartition("\n")
        if newline:
            self._send(self._kind, lines + newline)
        return len(text)

    def flush(self) -> None:
        """Send what has no end of a line yet."""
        if self._rest:
            self._send(self._kind, self._rest)
            self._rest = ""


class NotRunError(Exception):
    """A cell needs something that a browser does not give. The cells below it may run all the same."""


class Kernel:
    """The names and the loop of a notebook. *send* gets each output: its kind, and its text."""

    def __init__(self, send: Send) -> None:
        prepare_matplotlib()
        self.number = 0  # of the cell that ran last
        self._send = send
        self._main = ModuleType("__main__")
        sys.modules["__main__"] = self._main
        self._loop = acl_py.new_event_loop()
        sys.stdout, sys.stderr = Lines("stdout", send), Lines("stderr", send)

    def run(self, source: str) -> int:
        """Run the cell *source*, send its outputs, and return its number. Errors become outputs."""
        self.number += 1
        name = f"cell {self.number}"
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        try:
            value = None
            for code in _codes(source, name):
                value = self._run(code)
            self._show(value)
        except NotRunError as error:
            self._send("note", f"{error}\n")
        except BaseException as error:  # the page goes on after SystemExit and KeyboardInterrupt, too
            _flush()
            self._send("error", _text_of(error))
        release()  # what teaching.begin() lets wait
        _flush()
        return self.number

    def _run(self, code: CodeType) -> Any:
        value = eval(code, vars(self._main))
        return self._loop.run_until_complete(value) if code.co_flags & CO_COROUTINE else value

    def _show(self, value: Any) -> None:
        """Send the value of a cell, as Jupyter would show it."""
        if value is None:
            return
        _flush()
        as_html = getattr(value, "_repr_html_", None)
        if as_html is None:
            self._send("value", f"{value!r}\n")
        else:
            self._send("html", as_html())


def prepare_matplotlib() -> None:
    """Draw without a display, and look for fonts before the first picture, without the message that says so."""
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    mpl.use("agg")
    importlib.import_module("matplotlib.font_manager")


def _codes(source: str, name: str) -> Iterator[CodeType]:
    """Yield the code of the cell *source*; that of its last line comes apart, if this is an expression.

    Raises:
        NotRunError: the cell needs something that a browser does not give.
    """
    tree = compile(source, name, "exec", FLAGS | ast.PyCF_ONLY_AST)
    _check(tree)
    *before, last = tree.body or [ast.Pass(lineno=1, col_offset=0)]
    if not isinstance(last, ast.Expr):
        yield compile(tree, name, "exec", FLAGS)
        return
    yield compile(ast.Module(before, []), name, "exec", FLAGS)
    yield compile(ast.Expression(last.value), name, "eval", FLAGS)


def _check(tree: ast.AST) -> None:
    """Refuse a cell that needs something that a browser does not give, before it does half of its work."""
    for name in _names(tree):
        if name in MISSING:
            raise NotRunError(
                f"This cell was not run: it needs {MISSING[name]} (`{name}`), and a browser has none for Python. "
                "Run it in Jupyter: pip install 'acl-py[notebooks]'."
            )


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                yield name
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                yield from (part for each in names for part in each.name.split("."))
                if isinstance(node, ast.ImportFrom):
                    yield from (node.module or "").split(".")


def _text_of(error: BaseException) -> str:
    """Return what the page shows of *error*: a sentence where there is one, else the traceback of the reader's code."""
    if isinstance(error, NotebookError):
        return f"{error}\n"
    if isinstance(error, NameError) and error.name is not None:
        return f"{out_of_order(error, HOW_TO_RUN_ALL)}\n"
    shown = traceback.TracebackException.from_exception(error)
    _drop_own_frames(shown)
    return "".join(shown.format())


def _drop_own_frames(shown: traceback.TracebackException) -> None:
    """Leave out the frames of the page, of acl_py and of asyncio: the reader looks for a line of a cell."""
    frames = [frame for frame in shown.stack if not frame.filename.startswith(_OWN)]
    shown.stack = traceback.StackSummary.from_list(frames)
    for cause in (shown.__cause__, shown.__context__):
        if cause is not None:
            _drop_own_frames(cause)


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
