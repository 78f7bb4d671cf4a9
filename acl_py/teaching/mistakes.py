"""Mistakes of a reader, each of which a notebook answers with a sentence in place of a traceback."""

import sys
from importlib.util import find_spec
from types import TracebackType
from typing import Any

from acl_py.findings import hold, release
from acl_py.waiting.browser import IN_BROWSER

NO_EXTRA = "Pictures need matplotlib: pip install 'acl-py[notebooks]', then restart the kernel."

_OUT_OF_ORDER = (
    "run the cells above first, from the top ({how}), or correct the one that failed. "
    "If no cell above defines it, the name is misspelt."
)
_IN_JUPYTER = "Run > Run All Above Selected Cell"


class NotebookError(ValueError):
    """Something that the reader wrote, or has not installed. A notebook shows its sentence without a traceback."""

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows of it."""
        return [str(self)]


def begin() -> None:
    """Prepare the kernel of a notebook, in its first cell. Without IPython, and outside a browser, this does nothing.

    A NameError becomes a sentence, because most of them come from a cell that ran before the cells above it. Lines of
    the notebook are called "cell 5:12" in messages of acl_py, where Jupyter would give the name of a temporary file. So
    Jupyter's debugger does not stop in later cells. What the sanitizer finds is shown behind each cell, without what
    the cell has printed with `findings`.
    """
    shell = _shell()
    if shell is not None:
        shell.compile.get_code_name = _name_of_cell
        shell.set_custom_exc((NameError,), _say_out_of_order)
        hold()
        shell.events.register("post_run_cell", _release)
    elif IN_BROWSER:  # the kernel of the page does the rest
        hold()


def need(*modules: str, install: str) -> None:
    """Check that the *modules* are installed; *install* is what pip is asked for.

    Raises:
        NotebookError: One of them is not.
    """
    missing = [name for name in modules if not _is_installed(name)]
    if missing:
        raise NotebookError(
            f"This notebook needs {' and '.join(missing)}: pip install {install}, then restart the kernel."
        )


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # of a package around it
        return False


def _shell() -> Any:
    """Return IPython's shell; None if this is no notebook."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()


def _release(_: object) -> None:
    release()


def _name_of_cell(raw_code: str, transformed_code: str, number: int) -> str:  # noqa: ARG001 - IPython's signature
    return f"cell {number}"


def _say_out_of_order(
    shell: Any,
    kind: type[BaseException],  # noqa: ARG001 - IPython's signature
    error: NameError,
    traceback: TracebackType | None,
    tb_offset: int | None = None,  # noqa: ARG001
) -> None:
    """Show a sentence in place of *error*, a name that nothing has defined yet."""
    shell.showtraceback((NotebookError, out_of_order(error, _IN_JUPYTER), traceback))


def out_of_order(error: NameError, how: str) -> NotebookError:
    """Return the sentence for *error*, a name that nothing has defined yet; *how* says how to run the cells above."""
    innermost = error.__traceback__
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    line = "" if innermost is None else f" ({innermost.tb_frame.f_code.co_filename}, line {innermost.tb_lineno})"
    return NotebookError(f"There is no {error.name!r} yet{line}: {_OUT_OF_ORDER.format(how=how)}")
