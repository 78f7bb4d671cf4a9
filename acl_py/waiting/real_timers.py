"""Short timers in real time beside waits in simulated time: a warning for a program that may have mixed up the two.

In a loop with real time, `asyncio.timeout(1)` around a wait of 60 simulated seconds never strikes. So a simulation
whose program did not say which clock it means warns once, when a task waits for a device while a timer of less than a
minute is set.

A timer counts if a task of the program sets it. Timers of callbacks do not count: the looks of this package and
transports set such timers. Neither do those of tasks from before the simulation, such as the machinery of a notebook,
nor those that are set while a task holds simulated time.
"""

import asyncio
import sys
import warnings
from collections.abc import Callable, Collection, Sized
from contextvars import Context
from typing import Any, NamedTuple, Protocol
from weakref import WeakSet

from acl_py.callers import described
from acl_py.sites import Site, site_of
from acl_py.waiting.loops import CLOCK

SHORT_S = 60.0
_ROOM = 100  # timers, from which on those that are over are dropped


class Waiters(Protocol):
    """The waits of one simulation."""

    warns_of_timers: bool

    @property
    def are_waiting(self) -> bool:
        """Whether a task waits for a device."""


class ShortTimer(NamedTuple):
    """A timer of less than a minute, and who set it."""

    handle: asyncio.TimerHandle
    end_s: float  # loop.time() when it rings
    delay_s: float
    who: str
    site: Site


class TimerWatch:
    """What stands in for the method that sets the timers of a loop, as long as one of *simulations* is to warn.

    No timer counts while there are *holders* of simulated time.
    """

    def __init__(self, simulations: Collection[Waiters], holders: Sized) -> None:
        self.timers: list[ShortTimer] = []  # those that may still ring, and some that are over
        self._simulations = simulations
        self._holders = holders
        self._room = _ROOM
        self._loop: asyncio.AbstractEventLoop | None = None
        self._before: WeakSet[asyncio.Task[Any]] = WeakSet()

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Watch *loop*, if a simulation is to warn and the time of the loop is real."""
        if self._loop is None and self._is_wanted and not hasattr(loop, CLOCK) and hasattr(loop, "__dict__"):
            self._begin(loop)

    def end(self) -> None:
        """Watch no longer, unless a simulation is still to warn."""
        if self._loop is not None and not self._is_wanted:
            self._end(self._loop)

    @property
    def _is_wanted(self) -> bool:
        return any(each.warns_of_timers for each in self._simulations)

    def check(self, simulation: Waiters) -> None:
        """Warn if a timer may ring while the calling task waits for a device of *simulation*."""
        self._drop_old()
        if self.timers:
            self._warn(simulation, self.timers[0], site_of(sys._getframe(1)))

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._before = WeakSet(asyncio.all_tasks(loop) - {asyncio.current_task(loop)})
        # All timers of asyncio's loops go through call_at, all those of uvloop through call_later.
        self._name = "call_at" if isinstance(loop, asyncio.BaseEventLoop) else "call_later"
        self._previous = vars(loop).get(self._name)
        self._set: Callable[..., asyncio.TimerHandle] = getattr(loop, self._name)
        vars(loop)[self._name] = self._call

    def _end(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = None
        self.timers.clear()
        if vars(loop).get(self._name) != self._call:
            return  # another library has put its own method over this one, which now only calls the loop's
        if self._previous is None:
            del vars(loop)[self._name]
        else:
            vars(loop)[self._name] = self._previous

    def _call(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = self._set(when, callback, *args, context=context)
        loop = self._loop
        if loop is not None:
            now = loop.time()
            delay_s = when - now if self._name == "call_at" else when
            if 0 < delay_s < SHORT_S and not self._holders:
                self._note(loop, handle, now, delay_s)
        return handle

    def _note(self, loop: asyncio.AbstractEventLoop, handle: asyncio.TimerHandle, now: float, delay_s: float) -> None:
        task = asyncio.current_task(loop)
        if task is None or task in self._before:
            return
        site = site_of(sys._getframe(2))
        timer = ShortTimer(handle, now + delay_s, delay_s, described(task), site)
        self.timers.append(timer)
        if len(self.timers) > self._room:
            self._drop_old()
            self._room = _ROOM + 2 * len(self.timers)
        try:
            for simulation in list(self._simulations):
                if simulation.are_waiting:
                    self._warn(simulation, timer, site)
        except Warning:  # one that was made an error: the caller gets no handle
            handle.cancel()
            raise

    def _drop_old(self) -> None:
        assert self._loop is not None, f"{self!r} watches no loop"
        now = self._loop.time()
        self.timers[:] = [each for each in self.timers if each.end_s > now and not each.handle.cancelled()]

    def _warn(self, simulation: Waiters, timer: ShortTimer, site: Site) -> None:
        if simulation.warns_of_timers:
            simulation.warns_of_timers = False
            self.end()
            warnings.warn_explicit(_text(timer), RuntimeWarning, site.file, site.line)


def _text(timer: ShortTimer) -> str:
    return (
        f"a timer of {timer.delay_s:.2g} s, set by {timer.who} at {timer.site}, counts real time, while waits for "
        "devices take simulated time; to let both count simulated time, run the program with acl_py.run(), or begin "
        "the simulation with clock='simulated'; if real time is meant, begin it with clock='real'"
    )
