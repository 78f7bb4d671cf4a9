"""The frames of all threads, taken so that Python 3.11 does not hang."""

import gc
import os
import sys
import threading
from types import FrameType

_LOOKING = threading.RLock()  # no thread may turn the collector on again while another one looks
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_LOOKING._at_fork_reinit)  # type: ignore[attr-defined]


def current_frames() -> dict[int, FrameType]:
    """Return the innermost frame of each thread, by the thread's number. The garbage collector pauses meanwhile.

    `sys._current_frames` holds the lock of the list of threads, which a thread needs to begin or to end. If the
    collector ran inside, Python 3.11 would hang: what the collector frees lets such a thread run, which waits for the
    lock and holds the interpreter (https://github.com/python/cpython/issues/106883).
    """
    with _LOOKING:
        is_enabled = gc.isenabled()
        try:
            gc.disable()
            return sys._current_frames()
        finally:
            if is_enabled:
                gc.enable()
