"""`%load_ext acl_py`: the module `acl` and the driver of CUDA in a notebook, before the first import of a package.

`%acl_summary` prints the summary so far, and `%acl_timeline` shows the timeline. `%unload_ext acl_py` prints the
summary and ends the session. Options are those of the environment variable ACL_PY_RUN: see acl/processes.py.
"""

from typing import Any

from acl_py.causes.pages import explained
from acl_py.compat.acl import install, processes, uninstall
from acl_py.compat.acl.face.session import current_session
from acl_py.compat.acl.report import report
from acl_py.compat.cuda import switching
from acl_py.trace.page import Page, Run


def load(shell: Any) -> None:
    """Put `acl` and the driver in place, and give the *shell* of IPython the two magics.

    Raises:
        ValueError: ACL_PY_RUN is not what it must be.
    """
    options = processes.options_of_environment()
    options.pop("register", None)
    install(replace=True, **options)
    switching.begin_if_possible()
    shell.register_magic_function(_summary, "line", "acl_summary")
    shell.register_magic_function(_timeline, "line", "acl_timeline")


def unload(_: Any) -> None:
    """Print the summary, and end the session. The driver answers from then on that it is not initialized."""
    _summary("")
    switching.uninstall()
    uninstall()


def _summary(_: str) -> None:
    """Print the summary of the session so far."""
    session = current_session()
    print("no call has been made" if session is None else report(session))


def _timeline(_: str) -> Page | None:
    """Return the timeline of the session so far; the notebook shows it."""
    session = current_session()
    if session is None or session.trace is None:
        print("no call has been made")
        return None
    return explained(Page([Run("Timeline", session.trace.timeline())]))
