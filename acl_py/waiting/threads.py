"""Which threads could still act, when a thread waits for something that only another thread can do.

Every other thread counts as able to act unless it certainly is not. It is not if it is an idle worker of a pool, it
joins a thread that cannot act, or all of them sleep at locks, conditions and idle event loops at the same moment.
hang.py says why a doubtful thread counts as able.
"""

import asyncio
import os
import platform
import signal
import threading
import time
from collections import deque
from collections.abc import Collection, Sequence
from concurrent.futures import thread as pool
from functools import partial
from operator import attrgetter
from pathlib import Path
from queue import SimpleQueue
from types import CodeType, FrameType
from typing import NamedTuple
from weakref import WeakSet

from acl_py.sites import PACKAGE
from acl_py.waiting.frames import current_frames
from acl_py.waiting.loops import is_idle

Thread = threading.Thread

# Linux: the number of the system call in which a thread waits for a lock, and the bits of its second argument.
_FUTEX = {"x86_64": 202, "aarch64": 98}.get(platform.machine())
_WAITS, _COMMAND, _PRIVATE = (0, 9), 0x7F, 0x80
_TASKS = Path("/proc/self/task")
_ON_SIGINT = getattr(asyncio.Runner, "_on_sigint", None)
_WORKER = pool._worker.__code__
_CODE_OF = attrgetter("f_code")
# The queues of the pools, by weak references to their threads; to go through the mapping itself is slow.
_QUEUES: dict[object, SimpleQueue[object]] = pool._threads_queues.data  # type: ignore[attr-defined]
_STEP = getattr(getattr(asyncio.BaseEventLoop, "_run_once", None), "__code__", None)  # of an event loop

# Real seconds until an idle pool thread has picked up its job, or until a polling thread is looked at again.
GRACE_S = 0.1


_SAMPLES, _SAMPLE_S = 256, 0.001  # how many looks at the system are kept, and real seconds between two


class Company:
    """The threads of the process, without the daemon threads that already ran: those wake no thread of the program.

    *everybody*: with them.
    """

    def __init__(self, *, everybody: bool = False) -> None:
        daemons = [] if everybody else [thread for thread in threading.enumerate() if thread.daemon]
        self._daemons = WeakSet(daemons)

    def admit(self, thread: Thread) -> None:
        """Count *thread* as one of the program, even if it is a daemon thread that ran before."""
        self._daemons.discard(thread)

    def are_others_idle(self) -> bool:
        """Whether every thread but the calling one is an idle worker of a pool: the quick answer to the usual case."""
        # No variable holds the frames: one of them is this one, and a cycle would be left for the garbage collector.
        codes = [*map(_CODE_OF, current_frames().values())]
        return codes.count(_WORKER) == len(codes) - 1 and not any(map(SimpleQueue.qsize, _QUEUES.values()))

    def could_act(self, blocked: Collection[Thread]) -> list[str]:
        """Return, in words, the threads that could act while those in *blocked* cannot."""
        able = self._able(blocked)
        if not able:
            return []
        alarms = _alarms(able)
        # The threads are looked at one after the other. All of them sleep at one moment only if a second look finds the
        # same threads in the same sleeps.
        if None not in alarms and self._able(blocked) == able and _alarms(able) == alarms:
            return []
        return [f"thread {thread.name!r}" for thread in able]

    def _able(self, blocked: Collection[Thread]) -> list[Thread]:
        before = threading.enumerate()
        out = {thread for thread in before if thread in blocked or thread in self._daemons or _is_out(thread, blocked)}
        # The list comes again: a thread that was about to join a blocked one may have begun others meanwhile.
        return [thread for thread in threading.enumerate() if thread not in out]


class Fair:
    """Real time, without the time in which a thread of this process was ready and got no processor. On a busy machine
    a thread that is about to act may take long. Where the system does not say, it is real time.
    """

    def __init__(self) -> None:
        self._kept: dict[str, int] = {}  # nanoseconds for which each thread was kept waiting so far
        self._samples: deque[tuple[float, float]] = deque([(0.0, 0.0)], _SAMPLES)  # when, and seconds of all threads

    def elapsed(self, since_s: float) -> float:
        """Return the seconds since `time.monotonic()` was *since_s*; a little less if the last call was long ago."""
        now = time.monotonic()
        latest, kept = self._samples[-1]
        if now >= latest + _SAMPLE_S:
            kept += self._more() / 1e9
            self._samples.append((now, kept))
        before = next((each for at, each in reversed(self._samples) if at <= since_s), self._samples[0][1])
        return max(0.0, now - since_s - (kept - before))

    def _more(self) -> int:
        """Return for how many nanoseconds threads were kept waiting since the last question."""
        more = 0
        for number in _numbers() or ():
            try:
                kept = int((_TASKS / number / "schedstat").read_text().split()[1])
            except (OSError, IndexError):  # the thread is gone, or the system does not say
                continue
            more += kept - self._kept.get(number, kept)
            self._kept[number] = kept
        return more


class Strangers:
    """Threads that Python's `threading` does not list, such as those of a C library, without those that already ran."""

    def __init__(self) -> None:
        self._before = _numbers()

    def could_act(self) -> bool:
        """Whether one of them may be awake: True, too, where the system does not list threads."""
        if self._before is None:
            return True
        known = {_task(thread) for thread in threading.enumerate()}
        new = (_numbers() or frozenset()) - self._before - known
        return any(_sleep(number) is None for number in sorted(new))


def _numbers() -> frozenset[str] | None:
    """Return the numbers that the system has given to the threads of this process; None if it does not list them."""
    try:
        return frozenset(os.listdir(_TASKS))
    except OSError:
        return None


def is_hopeless(helpers: list[str], stuck_s: float) -> bool:
    """Whether nothing can end a wait that has lasted *stuck_s* real seconds with nothing scheduled.

    A pool thread that looks idle may be about to pick up a job, so the answer is no for the first `GRACE_S`.
    """
    if helpers:
        return False
    return stuck_s >= GRACE_S or not any(map(_is_idle_worker, threading.enumerate()))


def _is_out(thread: Thread, blocked: Collection[Thread]) -> bool:
    """Whether *thread* is an idle worker of a pool, or joins, without a limit, a thread that is one or is blocked."""
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
    """One sleep of a thread: the address of its lock, and how often the system had switched away from the thread."""

    futex: str
    switches: str


def _alarms(threads: Sequence[Thread]) -> list[object]:
    """Return what will wake each of *threads*; None for a thread that may be awake.

    The holder of a system lock is unknown. So if a thread sleeps at one, threads that Python does not know are listed
    too, behind the others.
    """
    alarms = [_alarm(thread) for thread in threads]
    if any(isinstance(alarm, _Sleep) for alarm in alarms):
        known = {_task(thread) for thread in threading.enumerate()}
        alarms += [_sleep(each.name) for each in sorted(_TASKS.iterdir()) if each.name not in known]
    return alarms


def _alarm(thread: Thread) -> object:
    """Return what will wake *thread* if it waits without a limit for another thread; otherwise None.

    It may wait at an event, a condition, a queue, a future or a lock, or in an event loop. The main thread counts as
    awake if the program has a handler for a signal, which may wake it.
    """
    frame = _frame(thread)
    if frame is None or (thread is threading.main_thread() and has_signal_handlers()):
        return None
    if frame.f_code is threading.Condition.wait.__code__:
        return _bell(frame)
    if frame.f_back is not None and frame.f_back.f_code is _STEP:
        return frame if is_idle(frame.f_back.f_locals) else None
    if frame.f_code.co_filename.startswith(PACKAGE):
        return None  # it is about to make a call, and waits for the lock that this thread holds
    return _sleep(_task(thread))


def _task(thread: Thread) -> str:
    """Return the number that the system has given to *thread*.

    That of the main thread is the number of the process. After a fork, `native_id` is still its number in the parent
    process (Python 3.11 to 3.13).
    """
    return str(os.getpid() if thread is threading.main_thread() else thread.native_id)


def _sleep(task: str) -> _Sleep | None:
    """Return the sleep of the thread with this number, at a lock of this process and without a limit.

    None if the thread may be awake, or if the system does not say.
    """
    before = _switches(task)
    try:
        call = (_TASKS / task / "syscall").read_text().split()  # "running", or a number and its arguments
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
    """Return the lock that will wake a thread in Condition.wait().

    None if the wait has a limit, if the thread is being woken, or if it is not yet asleep. It still holds the
    condition's own lock then, for which a thread that is about to wake it may wait.
    """
    names = frame.f_locals
    alarm = names.get("waiter")
    try:
        may_act = "gotit" not in names or names.get("timeout") is not None or alarm not in names["self"]._waiters
    except RuntimeError:  # another thread changes the waiters at this moment
        return None
    return None if may_act else alarm


def has_signal_handlers() -> bool:
    """Whether the program has a handler for a signal, besides those of Python and of asyncio for Ctrl-C."""
    return any(map(_has_handler, signal.valid_signals()))


def _has_handler(number: int) -> bool:
    handler = signal.getsignal(number)
    if isinstance(handler, partial) and getattr(handler.func, "__func__", None) is _ON_SIGINT:
        return False  # set by asyncio.run to stop the program on Ctrl-C, as Python's own handler does
    code = getattr(handler, "__code__", None)
    if isinstance(code, CodeType) and code.co_filename.startswith(PACKAGE):
        return False  # that of `acl-py run` for SIGTERM, which ends the process
    if getattr(handler, "__module__", None) == "pytest_timeout":
        return False  # it fails the test, and wakes no task
    return callable(handler) and handler is not signal.default_int_handler


def _is_idle_worker(thread: Thread) -> bool:
    if thread in getattr(thread, "idle_workers", ()):  # anyio lists its idle threads
        return True
    jobs = pool._threads_queues.get(thread)
    if jobs is None or not jobs.empty():
        return False
    frame = _frame(thread)
    return frame is not None and _is_idle(frame)


def _is_idle(frame: FrameType) -> bool:
    """Whether *frame*, the innermost of a thread, is that of an idle pool worker: a job would be frames above it.

    A worker of a pool that is shut down is about to end, and a thread may join it.
    """
    if frame.f_code is not _WORKER:
        return False
    names = frame.f_locals
    executor = names["executor_reference"]()
    return executor is not None and not executor._shutdown and bool(names["work_queue"].empty())


def _joined(thread: Thread) -> Thread | None:
    """Return the thread that *thread* joins without a limit; None if it joins none."""
    frame = _frame(thread)
    while frame is not None and frame.f_globals.get("__name__") == "threading":
        if frame.f_code is Thread.join.__code__ and frame.f_locals.get("timeout") is None:
            joined: Thread = frame.f_locals["self"]
            return joined if joined.is_alive() else None
        frame = frame.f_back
    return None


def _frame(thread: Thread) -> FrameType | None:
    return current_frames().get(thread.ident or 0)
