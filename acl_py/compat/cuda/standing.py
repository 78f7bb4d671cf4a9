"""Loops of a script that make no call while work is queued: simulated time stands, so what they wait for never comes.

On a card a kernel may write to memory of the host, and a loop that reads it sees that. Here the device works only
during calls. Every few seconds a signal interrupts the script for a look. If the host has made no call since the last
two looks, is in the same function, and of its variables only counters have changed, a warning names the line, once.

The timer is one of the kernel's for this process: neither a child nor another program in its place has it.
"""

import ctypes
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from acl_py.compat.acl.face.current import current_session
from acl_py.sites import is_installed

_EVERY_S = 2  # of real time
_LOOKS = 3  # that see the same
_SIGNAL = getattr(signal, "SIGVTALRM", None)
_MONOTONIC = 1  # the clock


class Standing:
    """What the last looks have seen of the host."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._seen: Any = None
        self._count = 0

    def look(self, frame: FrameType | None) -> None:
        """Look once at *frame*, and tell the line of a loop of the script that makes no call."""
        session = current_session()
        if session is None or frame is None or session.runtime.scheduler.is_empty:
            self._seen = None
            return
        if is_installed(frame.f_code.co_filename):  # of this package or of another one
            self._seen = None
            return
        variables = {name: id(value) for name, value in frame.f_locals.items() if type(value) is not int}
        seen = session.runtime.host_ns, frame.f_code, variables
        self._count = self._count + 1 if seen == self._seen else 1
        self._seen = seen
        if self._count == _LOOKS:
            self._tell(
                f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} makes no call while the device has work, so "
                "simulated time stands: if this loop waits for memory to change, let it call cuStreamQuery() or "
                "synchronize"
            )


@contextmanager
def watching() -> Iterator[None]:
    """Look every few seconds while the block runs, if the script leaves the signal to us."""
    if _SIGNAL is None or not sys.platform.startswith("linux") or signal.getsignal(_SIGNAL) is not signal.SIG_DFL:
        yield
        return
    watch = Standing(lambda text: print(f"acl-py: {text}", file=sys.stderr, flush=True))
    signal.signal(_SIGNAL, lambda _, frame: watch.look(frame))
    signal.siginterrupt(_SIGNAL, False)
    try:
        with _timer(_SIGNAL):
            yield
    finally:
        signal.signal(_SIGNAL, signal.SIG_IGN)  # one may be on its way


@contextmanager
def _timer(number: int) -> Iterator[None]:
    """Let the system send the signal *number* to this process every few seconds; never with a C library without it."""
    libc = ctypes.CDLL(None)
    event = (ctypes.c_int * 16)(0, 0, number, 0)  # sigevent: a value of 8 bytes, the signal, how: by a signal
    timer = ctypes.c_void_p()
    times = (ctypes.c_long * 4)(_EVERY_S, 0, _EVERY_S, 0)
    if not hasattr(libc, "timer_create") or libc.timer_create(_MONOTONIC, event, ctypes.byref(timer)) != 0:
        yield
        return
    libc.timer_settime(timer, 0, times, None)
    try:
        yield
    finally:
        libc.timer_delete(timer)
