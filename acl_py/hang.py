"""Could anything outside still wake the program? If not, a wait with nothing scheduled is a hang, and certain.

Outside is what neither the device nor a task of the program decides: a timer of the loop, a socket, pipe or child
process, another thread. What was there before the simulation began (the sockets of a notebook's kernel, its daemon
threads and tasks) wakes nobody of ours; so an `Outside` is made when a simulation begins and compares.

A mistake here costs differently in the two directions. Taking something harmless for the outside delays a report and
makes it a warning; missing something raises an error in a program that is well. So whatever is not understood counts as
outside.
"""

import asyncio
import gc
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from contextvars import Context
from pathlib import Path
from types import CoroutineType, FrameType
from typing import Any, Protocol
from weakref import WeakSet, WeakValueDictionary

from acl_py.sites import is_foreign
from acl_py.threads import GRACE_S, Company, is_hopeless

# Code in which a task waits for another task of the program; in `asyncio.tasks` it depends on what is waited for.
_MEETING_PLACES = frozenset({"asyncio.locks", "asyncio.queues", "asyncio.taskgroups"})
_ANYIO = "anyio._backends._asyncio"
_ANYIO_MEETINGS = frozenset(
    {"__aexit__", "acquire"}
)  # a task group's end, a lock, a semaphore; its events are asyncio's
_POLLING = ("acl_py.bridge", "breathe")
_FAR_AWAY_S = 3600.0

LOOK_S = 1.0  # between looks while only the outside can help; then it is time for a warning, too
HELD_PATIENCE_S = 10.0  # a hold says that the outside may take its time: no warning so early

Future = asyncio.Future[Any]
Task = asyncio.Task[Any]


def holder(loop: asyncio.AbstractEventLoop, attribute: str, handle: asyncio.Handle) -> Collection[Any] | None:
    """The container in which *loop* keeps *handle*, else None; the handle is cancelled.

    asyncio has it as *attribute*, uvloop among what the garbage collector sees of it. An experiment, so that a name
    which comes to mean something else in a later release is noticed.
    """
    candidates = (getattr(loop, attribute, None), *gc.get_referents(loop))
    try:
        for candidate in candidates:
            if isinstance(candidate, (deque, list, set)) and any(item is handle for item in candidate):
                return candidate
        return None
    finally:
        handle.cancel()


class Outside:
    """The world around a loop when the simulation began; it holds the loop and its tasks weakly."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._descriptors = _descriptors(loop)
        self._company = Company()
        self._tasks = WeakSet(asyncio.all_tasks(loop))

    def could_wake(
        self, loop: asyncio.AbstractEventLoop, waits: Container[Future], own_timer: asyncio.TimerHandle | None
    ) -> list[str]:
        """What could still wake the program, in words; empty if nothing can.

        *waits* are the futures of those who wait for a device; *own_timer* is the caller's and does not count, nor does
        the task that asks.
        """
        return [
            *_live_timers(loop, own_timer),
            *self._new_descriptors(loop),
            *self._company.could_act([threading.current_thread()]),
            *sorted(self._tasks_on_their_own(loop, waits)),  # all_tasks() is a set: no order of its own
        ]

    def _new_descriptors(self, loop: asyncio.AbstractEventLoop) -> Iterator[str]:
        if any(count > self._descriptors.get(key, 0) for key, count in _descriptors(loop).items()):
            yield "a socket, pipe or child process"

    def _tasks_on_their_own(self, loop: asyncio.AbstractEventLoop, waits: Container[Future]) -> Iterator[str]:
        asking = asyncio.current_task(loop)
        for task in asyncio.all_tasks(loop):
            if task is not asking and task not in self._tasks and not _waits_inside(task, waits):
                yield f"task {task.get_name()!r}"


class Waiters(Protocol):
    """Those of one runtime who wait."""

    @property
    def patience_s(self) -> float:
        """How many real seconds these waits may last while only the outside can end them."""

    def describe(self) -> str:
        """Who waits for what."""

    def give_up(self, circumstances: str) -> None:
        """Nobody can end these waits: an error of its own for each waiter."""


class Vigil:
    """Kept while nothing is scheduled, or time is held: report a hang, or *look_again* a while later."""

    def __init__(self, loop: asyncio.AbstractEventLoop, look_again: Callable[[], None], context: Context) -> None:
        self._look_again = look_again
        self._context = context
        self._since: float | None = None
        self._warned = False
        self._timer: asyncio.TimerHandle | None = None
        self.begin(loop)

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """A simulation begins: what is around now is what was there before."""
        self._outside = Outside(loop)

    def end(self) -> None:
        """Somebody called, or time went on."""
        self._since = None

    def rest(self) -> None:
        """Nobody waits any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def helpers(self, loop: asyncio.AbstractEventLoop, waits: Container[Future]) -> list[str]:
        """What outside could still wake the program, in words."""
        return self._outside.could_wake(loop, waits, self._timer)

    def keep(
        self,
        loop: asyncio.AbstractEventLoop,
        waiting: Collection[Waiters],
        holders: Collection[Task | None],
        helpers: list[str],
        look_s: float,
    ) -> None:
        """Nobody went on: tell those who wait if nobody will, else come back in *look_s*; no busy loop meanwhile."""
        now = time.monotonic()
        if self._since is None:
            self._since, self._warned = now, False
        stuck_s = now - self._since
        hopeless = is_hopeless(helpers, stuck_s)
        circumstances = "\n".join(_circumstances(holders, helpers))
        patient = []
        for each in waiting:
            if hopeless or stuck_s >= each.patience_s:
                each.give_up(circumstances)
            else:
                patient.append(each)
        if not patient:
            return
        self.rest()
        delay_s = min(look_s if helpers else GRACE_S, *(each.patience_s - stuck_s for each in patient))
        self._timer = loop.call_later(delay_s, self._come_back, context=self._context)
        if stuck_s >= (HELD_PATIENCE_S if holders else LOOK_S) and not self._warned:
            self._warned = True
            report = "\n".join(each.describe() for each in patient)
            warnings.warn(f"{report}\n{circumstances}", RuntimeWarning, stacklevel=1)

    def _come_back(self) -> None:
        self._timer = None
        self._look_again()


def _circumstances(holders: Iterable[Task | None], helpers: list[str]) -> Iterator[str]:
    for task in holders:
        yield f"simulated time is held by {'no task' if task is None else f'task {task.get_name()!r}'}"
    if helpers:
        yield f"what might still wake it: {', '.join(helpers)}"


def _live_timers(loop: asyncio.AbstractEventLoop, own: asyncio.TimerHandle | None) -> Iterator[str]:
    # Looked for each time: asyncio replaces its list now and then. And there is no "before": a timer that was there
    # when the simulation began may be the `asyncio.timeout` around it.
    timers = holder(loop, "_scheduled", loop.call_later(_FAR_AWAY_S, int))
    if timers is None:
        yield "an event loop that does not show its timers"
    elif any(timer is not own and not timer.cancelled() for timer in timers):
        yield "a timer of the event loop"


def is_idle(names: Mapping[str, Any]) -> bool:
    """Does an event loop, with these *names* in its step, wait without a limit for another thread to hand it something?

    That would be in its queue before the loop's own alarm, a pipe, wakes it.
    """
    loop = names["self"]
    return names.get("timeout", 0) is None and not loop._ready and _listens_to_nobody(loop)


def _listens_to_nobody(loop: asyncio.AbstractEventLoop) -> bool:
    """Is the *loop*'s own alarm all that it listens to? One that does not show it counts as if it listened to more."""
    get_map = getattr(getattr(loop, "_selector", None), "get_map", None)
    return get_map is not None and len(get_map()) <= 1


def outside_of(loop: asyncio.AbstractEventLoop) -> Iterator[str]:
    """What may come into a running *loop*, in words: its timers, and what it listens to besides its own alarm."""
    yield from _live_timers(loop, None)
    if not _listens_to_nobody(loop):
        yield "a socket, pipe or child process"


def _descriptors(loop: asyncio.AbstractEventLoop) -> dict[int, int]:
    """How much the loop listens to: a one for each descriptor, or the size of whatever holds some (uvloop, Windows)."""
    get_map = getattr(getattr(loop, "_selector", None), "get_map", None)
    if get_map is not None:
        return dict.fromkeys(get_map(), 1)
    timers = holder(loop, "_scheduled", loop.call_later(_FAR_AWAY_S, int))
    return {
        id(found): len(found)
        for found in gc.get_referents(loop)
        if isinstance(found, (set, dict, WeakValueDictionary)) and found is not timers
    }


def _waits_inside(task: asyncio.Task[Any], waits: Container[Future]) -> bool:
    """Does *task* wait for the device or for another task? False also if it can run, or if nobody knows."""
    waiter: Future | None = task._fut_waiter  # type: ignore[attr-defined]
    if waiter is not None and (waiter.done() or _is_inside(waiter, waits)):
        return not waiter.done()
    frame = _innermost_frame(task)
    if frame is None:
        return False
    module, function = frame.f_globals.get("__name__"), frame.f_code.co_name
    if waiter is None:  # it can run; in a poll that yields it does no more than look again
        return (module, function) == _POLLING
    if module in _MEETING_PLACES or (module == _ANYIO and function in _ANYIO_MEETINGS):
        return True
    if module != "asyncio.tasks":
        return False
    # asyncio.wait and asyncio.wait_for have a future of their own between us and what they wait for; sleep has neither.
    awaited = frame.f_locals.get("fs") or {frame.f_locals.get("fut")}
    return all(future is not None and _is_inside(future, waits) for future in awaited)


def meetings(waits: Container[Future]) -> Iterator[str]:
    """The tasks of the running loop that wait for one another, with the line where they do."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return
    for task in sorted(asyncio.all_tasks(loop), key=_natural):
        waiter: Future | None = task._fut_waiter  # type: ignore[attr-defined]
        if waiter is None or waiter.done() or waiter in waits:
            continue
        frames = list(_frames(task))
        ours = next((each for each in reversed(frames) if not is_foreign(each.f_code)), None)
        if ours is not None:
            where = f"{Path(ours.f_code.co_filename).name}:{ours.f_lineno}"
            how = frames[-1].f_code.co_qualname
            yield f"task {task.get_name()}: in {how} at {where}, for {_whom(waiter, frames[-1])}"


def _natural(task: Task) -> tuple[int, str]:
    name = task.get_name()
    return len(name), name


def _whom(waiter: Future, frame: FrameType) -> str:
    """Whom a task waits for in *frame*, as far as one can tell: nobody knows who will set an event."""
    group = getattr(frame.f_locals.get("self"), "_tasks", None)
    tasks = group if isinstance(group, set) else getattr(waiter, "_children", [waiter])
    names = sorted(_natural(task) for task in tasks if hasattr(task, "get_name") and not task.done())
    return ", ".join(f"task {name}" for _, name in names) or "another task"


def _is_inside(future: Future, waits: Container[Future]) -> bool:
    if future in waits or hasattr(future, "get_coro"):  # a task; isinstance would miss the pure-Python ones
        return True
    children = getattr(future, "_children", None)  # gather
    return children is not None and all(child.done() or _is_inside(child, waits) for child in children)


def _innermost_frame(task: asyncio.Task[Any]) -> FrameType | None:
    frame: FrameType | None = None
    for frame in _frames(task):  # noqa: B007 - the last one
        pass
    return frame


def _frames(task: asyncio.Task[Any]) -> Iterator[FrameType]:
    """From the task's first frame to its innermost."""
    coroutine: object = task.get_coro()
    while isinstance(coroutine, CoroutineType):
        if coroutine.cr_frame is not None:
            yield coroutine.cr_frame
        coroutine = coroutine.cr_await
