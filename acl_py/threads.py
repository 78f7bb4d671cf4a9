"""Which threads could still do something, for those who wait for what only another thread can bring.

As in hang.py a mistake costs differently in the two directions: whoever is not certainly out of action counts as able
to act.
"""

import signal
import sys
import threading
from collections.abc import Collection
from concurrent.futures import thread as pool
from types import FrameType
from weakref import WeakSet

Thread = threading.Thread

GRACE_S = 0.1  # until a thread that looked idle has picked up its job, until a spinner is looked at again


class Company:
    """The threads of the process, but for the daemons that were there when this was made: they wake nobody of ours."""

    def __init__(self) -> None:
        self._daemons = WeakSet(thread for thread in threading.enumerate() if thread.daemon)

    def admit(self, thread: Thread) -> None:
        """*thread* is one of ours, even if it is a daemon that was there before."""
        self._daemons.discard(thread)

    def could_act(self, blocked: Collection[Thread]) -> list[str]:
        """The threads that could do something while those in *blocked* cannot, in words."""
        able = self._able(blocked)
        alarms = [_alarm(thread) for thread in able]
        # They are looked at one after the other. That all sleep at one moment, with nobody else there, is certain only
        # if all of them sleep at the same alarms when they are looked at again.
        if None not in alarms and self._able(blocked) == able and [_alarm(thread) for thread in able] == alarms:
            return []
        return [f"thread {thread.name!r}" for thread in able]

    def _able(self, blocked: Collection[Thread]) -> list[Thread]:
        return [
            thread
            for thread in threading.enumerate()
            if not (thread in blocked or thread in self._daemons or _is_out(thread, blocked))
        ]


def is_hopeless(helpers: list[str], stuck_s: float) -> bool:
    """Will nothing end a wait that has lasted *stuck_s* real seconds with nothing scheduled?

    A pool thread that looks idle may be about to pick up a job: time will tell.
    """
    if helpers:
        return False
    return stuck_s >= GRACE_S or not any(map(_is_idle_worker, threading.enumerate()))


def _is_out(thread: Thread, blocked: Collection[Thread]) -> bool:
    """Is it an idle worker of a pool, or does it wait, for ever, for the end of one that is out or blocked?"""
    chain: list[Thread] = []
    while thread not in blocked and thread not in chain:
        if _is_idle_worker(thread):
            return True
        chain.append(thread)
        joined = _joined(thread)
        if joined is None:
            return False
        thread = joined
    return True


def _alarm(thread: Thread) -> object:
    """What will wake it, if it waits without a limit for another thread to do that: at an event, a condition, a queue
    or a future; else None. A signal may wake the main thread, too, if the program has a handler for one.
    """
    frame = _frame(thread)
    if frame is None or frame.f_code is not threading.Condition.wait.__code__:
        return None
    if thread is threading.main_thread() and any(map(_has_handler, signal.valid_signals())):
        return None
    names = frame.f_locals
    alarm = names.get("waiter")
    try:
        rings = names.get("timeout") is not None or alarm not in names["self"]._waiters
    except RuntimeError:  # somebody wakes one of them just now
        return None
    return None if rings else alarm


def _has_handler(number: int) -> bool:
    handler = signal.getsignal(number)
    return callable(handler) and handler is not signal.default_int_handler


def _is_idle_worker(thread: Thread) -> bool:
    if thread in getattr(thread, "idle_workers", ()):  # anyio's say so themselves
        return True
    jobs = pool._threads_queues.get(thread)
    if jobs is None or not jobs.empty():
        return False
    frame = _frame(thread)
    return frame is not None and frame.f_code is pool._worker.__code__  # a job would be a frame, or two, above


def _joined(thread: Thread) -> Thread | None:
    """The thread for whose end *thread* waits without a limit, if that is what it does."""
    frame = _frame(thread)
    while frame is not None and frame.f_globals.get("__name__") == "threading":
        if frame.f_code is Thread.join.__code__ and frame.f_locals.get("timeout") is None:
            joined: Thread = frame.f_locals["self"]
            return joined if joined.is_alive() else None
        frame = frame.f_back
    return None


def _frame(thread: Thread) -> FrameType | None:
    return sys._current_frames().get(thread.ident or 0)
