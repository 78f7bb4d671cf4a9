"""Which threads could still act, for a thread that waits for something only another thread can bring.

As in hang.py a mistake costs differently in the two directions: a thread counts as able to act unless it certainly is
not.
"""

import asyncio
import platform
import signal
import sys
import threading
from collections.abc import Collection, Sequence
from concurrent.futures import thread as pool
from functools import partial
from pathlib import Path
from types import FrameType
from typing import NamedTuple
from weakref import WeakSet

from acl_py.sites import PACKAGE
from acl_py.waiting.loops import is_idle

Thread = threading.Thread

# Linux: the number of the system call in which a thread waits for a lock, and what its second argument says of it.
_FUTEX = {"x86_64": 202, "aarch64": 98}.get(platform.machine())
_WAITS, _COMMAND, _PRIVATE = (0, 9), 0x7F, 0x80
_TASKS = Path("/proc/self/task")
_ON_SIGINT = getattr(asyncio.Runner, "_on_sigint", None)
_STEP = getattr(getattr(asyncio.BaseEventLoop, "_run_once", None), "__code__", None)  # of an event loop

GRACE_S = 0.1  # until a thread that looked idle has picked up its job, until a spinner is looked at again


class Company:
    """The threads of the process, without the daemons that ran when this was made: they wake no thread of ours."""

    def __init__(self) -> None:
        self._daemons = WeakSet(thread for thread in threading.enumerate() if thread.daemon)

    def admit(self, thread: Thread) -> None:
        """*thread* is one of ours, even if it is a daemon that was there before."""
        self._daemons.discard(thread)

    def could_act(self, blocked: Collection[Thread]) -> list[str]:
        """The threads that could do something while those in *blocked* cannot, in words."""
        able = self._able(blocked)
        alarms = _alarms(able)
        # They are looked at one after the other. That all sleep at one moment, with nobody else there, is certain only
        # if all of them sleep at the same alarms when they are looked at again.
        if None not in alarms and self._able(blocked) == able and _alarms(able) == alarms:
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


class _Sleep(NamedTuple):
    """One time that the system let a thread sleep: where, and how often it has been switched from before."""

    futex: str
    switches: str


def _alarms(threads: Sequence[Thread]) -> list[object]:
    """What will wake each of *threads*. If one sleeps at a lock, of which nobody knows who has it, those of the threads
    that Python does not know come behind.
    """
    alarms = [_alarm(thread) for thread in threads]
    if any(isinstance(alarm, _Sleep) for alarm in alarms):
        known = {str(thread.native_id) for thread in threading.enumerate()}
        alarms += [_sleep(each.name) for each in sorted(_TASKS.iterdir()) if each.name not in known]
    return alarms


def _alarm(thread: Thread) -> object:
    """What will wake it, if it waits without a limit for another thread to do that: at an event, a condition, a queue,
    a future, a lock or in an event loop; else None. A signal may wake the main thread, too, if the program has a
    handler for one.
    """
    frame = _frame(thread)
    if frame is None or (thread is threading.main_thread() and any(map(_has_handler, signal.valid_signals()))):
        return None
    if frame.f_code is threading.Condition.wait.__code__:
        return _bell(frame)
    if frame.f_back is not None and frame.f_back.f_code is _STEP:
        return frame if is_idle(frame.f_back.f_locals) else None
    if frame.f_code.co_filename.startswith(PACKAGE):
        return None  # it wants to make a call, and waits for the lock that the looker has
    return _sleep(str(thread.native_id))


def _sleep(task: str) -> _Sleep | None:
    """The sleep of a thread, by its number, at a lock of this process without a limit; None if it may be awake, or the
    system does not say.
    """
    before = _switches(task)
    try:
        call = (_TASKS / task / "syscall").read_text().split()  # "running", or a number and what it was called with
    except OSError:
        return None
    if before is None or len(call) < 5 or int(call[0]) != _FUTEX or int(call[4], 16) or _switches(task) != before:
        return None
    operation = int(call[2], 16)
    return _Sleep(call[1], before) if operation & _COMMAND in _WAITS and operation & _PRIVATE else None


def _switches(task: str) -> str | None:
    try:
        status = (_TASKS / task / "status").read_text()
    except OSError:
        return None
    return status[status.index("voluntary_ctxt_switches") :]


def _bell(frame: FrameType) -> object:
    """What will wake a thread that is in Condition.wait(), if it has no limit and is not being woken."""
    names = frame.f_locals
    alarm = names.get("waiter")
    try:
        rings = names.get("timeout") is not None or alarm not in names["self"]._waiters
    except RuntimeError:  # somebody wakes one of them just now
        return None
    return None if rings else alarm


def _has_handler(number: int) -> bool:
    handler = signal.getsignal(number)
    if isinstance(handler, partial) and getattr(handler.func, "__func__", None) is _ON_SIGINT:
        return False  # asyncio.run's own, for what default_int_handler does
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
