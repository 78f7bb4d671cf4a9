"""acl.util: threads that a script starts."""

import signal
import sys
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from sys import _getframe
from typing import Any

from acl_py.compat.acl.face.binding import takes
from acl_py.compat.acl.face.failed_calls import Failures
from acl_py.compat.acl.face.session import INVALID_PARAM, SUCCESS, GuestSession, session
from acl_py.compat.acl.face.tracebacks import traceback_text
from acl_py.sites import site_of


class _Thread:
    """A thread that a script started, and what its function raised. It ends with the process, if not before.

    What it raises is printed at once, because most scripts never stop their threads; it goes to *failures*, too.
    """

    def __init__(self, function: Callable[..., Any], args: Any, context: Context, failures: Failures) -> None:
        self.error = ""
        self._failures = failures
        self._started = site_of(_getframe(1))
        call = (function,) if args is None else (function, args)
        self._thread = threading.Thread(
            target=context.run, args=(self._run, *call), name="acl.util.start_thread", daemon=True
        )
        self._thread.start()  # returns when the thread is there, and has a number

    @property
    def number(self) -> int:
        """What threading.get_ident() gives in it."""
        assert self._thread.ident is not None, "it has started"
        return self._thread.ident

    def join(self) -> None:
        """Wait for its end."""
        self._thread.join()

    def _run(self, function: Callable[..., Any], *args: Any) -> None:
        try:
            function(*args)
        except BaseException as error:
            self.error = traceback_text(error)
            if not isinstance(error, SystemExit):  # ends a thread without a word
                name = getattr(function, "__qualname__", repr(function))
                what = f"Exception in thread acl.util.start_thread ({name}), started at {self._started}:"
                print(f"{what}\n{self.error}\n", end="", file=sys.stderr, flush=True)
                self._failures.add_thread(self._started, error)


# By number. The system may reuse the number of a thread that has ended; stop_thread() then means the oldest one.
_threads: dict[int, list[_Thread]] = {}


@takes("OO", bare=True)
def start_thread(function: Any, args: Any) -> tuple[int, int]:
    """Start a thread that calls *function* with *args*, or without if that is None; SIGINT ends the process again."""
    if not callable(function):
        raise TypeError("parameter must be callable")
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # A thread begins without a context. In a simulation it needs the context variables that lead to the simulation.
    here = session()
    context = copy_context() if isinstance(here, GuestSession) else Context()
    thread = _Thread(function, args, context, here.failures)
    _threads.setdefault(thread.number, []).append(thread)
    return thread.number, SUCCESS


@takes("k")
def stop_thread(number: int) -> int:
    """Wait for the end of a thread of start_thread; RuntimeError with its traceback if its function raised."""
    started = _threads.get(number)
    if not started:
        return session().refuse(
            INVALID_PARAM,
            f"no thread {number} of start_thread is running: it was never started, or was stopped already",
        )
    thread = started.pop(0)
    if not started:
        del _threads[number]
    thread.join()
    if thread.error:
        raise RuntimeError(thread.error)
    return SUCCESS
