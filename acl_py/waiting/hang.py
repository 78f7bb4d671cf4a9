"""Could anything outside still wake the program? If not, a wait with nothing scheduled is a hang, and certain.

Outside is what neither the device nor a task of the program decides: a timer of the loop, a socket, pipe or child
process, another thread. What was there before the simulation began (the sockets of a notebook's kernel, its daemon
threads and tasks) wakes nobody of ours; so an `Outside` is made when a simulation begins and compares.

A mistake here costs differently in the two directions. Taking something harmless for the outside delays a report and
makes it a warning; missing something raises an error in a program that is well. So whatever is not understood counts as
outside.
"""

import asyncio
import threading
import time
import warnings
from collections.abc import Callable, Collection, Container, Iterable, Iterator
from contextvars import Context
from typing import Protocol
from weakref import WeakSet

from acl_py.waiting.loops import descriptors, live_timers
from acl_py.waiting.tasks import Future, Task, waits_inside
from acl_py.waiting.threads import GRACE_S, Company, is_hopeless

LOOK_S = 1.0  # between looks while only the outside can help; then it is time for a warning, too
HELD_PATIENCE_S = 10.0  # a hold says that the outside may take its time: no warning so early


class Outside:
    """The world around a loop when the simulation began; it holds the loop and its tasks weakly."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._descriptors = descriptors(loop)
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
            *live_timers(loop, own_timer),
            *self._new_descriptors(loop),
            *self._company.could_act([threading.current_thread()]),
            *sorted(self._tasks_on_their_own(loop, waits)),  # all_tasks() is a set: no order of its own
        ]

    def _new_descriptors(self, loop: asyncio.AbstractEventLoop) -> Iterator[str]:
        if any(count > self._descriptors.get(key, 0) for key, count in descriptors(loop).items()):
            yield "a socket, pipe or child process"

    def _tasks_on_their_own(self, loop: asyncio.AbstractEventLoop, waits: Container[Future]) -> Iterator[str]:
        asking = asyncio.current_task(loop)
        for task in asyncio.all_tasks(loop):
            if task is not asking and task not in self._tasks and not waits_inside(task, waits):
                yield f"task {task.get_name()!r}"


class Waiters(Protocol):
    """The waits of one runtime."""

    @property
    def patience_s(self) -> float:
        """How many real seconds these waits may last while only the outside can end them."""

    def describe(self) -> str:
        """Say what each waiter waits for."""

    def give_up(self, circumstances: str) -> None:
        """End all waits, each with a new error that gets *circumstances* as a note."""


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
