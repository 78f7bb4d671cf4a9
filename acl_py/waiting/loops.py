"""Event loops from inside: their timers, the descriptors they listen to, and whether only a thread can wake one.

An idle loop has no timer and listens to one descriptor, the pipe through which other threads wake it.
"""

import asyncio
import gc
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextvars import Context
from typing import Any
from weakref import WeakValueDictionary

CLOCK = "_acl_py_clock"  # the attribute of a loop whose time is simulated
_FAR_AWAY_S = 3600.0


def call_in_real_time(
    loop: asyncio.AbstractEventLoop, delay_s: float, callback: Callable[[], object], context: Context | None = None
) -> asyncio.TimerHandle:
    """Do what loop.call_later does, in real time also where the time of *loop* is simulated (clock.py)."""
    if not hasattr(loop, CLOCK):
        return loop.call_later(delay_s, callback, context=context)
    if isinstance(loop, asyncio.BaseEventLoop):
        return asyncio.BaseEventLoop.call_at(loop, time.monotonic() + delay_s, callback, context=context)
    return type(loop).call_later(loop, delay_s, callback, context=context)


def holder(loop: asyncio.AbstractEventLoop, attribute: str, handle: asyncio.Handle) -> Collection[Any] | None:
    """Cancel *handle* and return the container in which *loop* kept it; None if there is none.

    asyncio keeps handles in its *attribute*; uvloop in a container that only the garbage collector shows. The handle
    is searched there, so that an attribute whose meaning changes in a later release is noticed.
    """
    candidates = (getattr(loop, attribute, None), *gc.get_referents(loop))
    try:
        for candidate in candidates:
            if isinstance(candidate, (deque, list, set)) and any(item is handle for item in candidate):
                return candidate
        return None
    finally:
        handle.cancel()


def live_timers(loop: asyncio.AbstractEventLoop, own: asyncio.TimerHandle | None) -> Iterator[str]:
    """Say in words that *loop* has a live timer other than the caller's *own*; yield nothing if it has none."""
    # The container is searched each time, because asyncio replaces its list now and then. Timers from before the
    # simulation count too: one may be the `asyncio.timeout` around it.
    timers = timers_of(loop)
    if timers is None:
        yield "an event loop that does not show its timers"
    elif any(timer is not own and not timer.cancelled() for timer in timers):
        yield "a timer of the event loop"


def is_idle(names: Mapping[str, Any]) -> bool:
    """Whether an event loop waits without a limit, and only another thread can wake it.

    *names* are the local variables of the loop's step. A thread puts a callback into the loop's queue before it writes
    to the pipe that wakes the loop, so an empty queue means that no thread has called yet.
    """
    loop = names["self"]
    return names.get("timeout", 0) is None and not loop._ready and _hears_threads_only(loop)


def _hears_threads_only(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether *loop* listens to its own pipe alone. False for a loop that does not show its selector."""
    descriptors = _descriptors_of(loop)
    return descriptors is not None and len(descriptors) <= 1


def _descriptors_of(loop: asyncio.AbstractEventLoop) -> Collection[Any] | None:
    """Return the descriptors of the selector of *loop*, which change with it; None if the loop does not show it."""
    selector: Any = getattr(loop, "_selector", None)
    if not hasattr(selector, "get_map"):
        return None
    # The mapping is slow to go through: that of the standard library has a dictionary behind it.
    descriptors: Collection[Any] | None = getattr(selector, "_fd_to_key", None) or selector.get_map()
    return descriptors


def outside_of(loop: asyncio.AbstractEventLoop) -> Iterator[str]:
    """Say in words what can wake a running *loop*: its timers, and descriptors besides its own pipe."""
    yield from live_timers(loop, None)
    if not _hears_threads_only(loop):
        yield "a socket, pipe or child process"


def shows_all(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether whatever *loop* may hear of is in its timers, its queue and its selector: True for asyncio's own loops.

    uvloop has handles that it does not list, such as one for the look-up of a name.
    """
    return getattr(type(loop), "_run_once", None) is _RUN_ONCE and _descriptors_of(loop) is not None


_RUN_ONCE = getattr(asyncio.BaseEventLoop, "_run_once", None)


class Listening:
    """What a loop listens to at one moment: its descriptors, or the sizes of its containers (uvloop, Windows)."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._map = _descriptors_of(loop)
        self._descriptors = frozenset(self._map or ())
        self._timers = timers_of(loop) if self._map is None else None  # uvloop keeps this container
        self._sizes = {} if self._map is not None else self._sizes_of(loop)

    def has_grown(self, loop: asyncio.AbstractEventLoop, *, signals: bool = True) -> bool:
        """Whether *loop* listens to something more by now; *signals*: whether their handlers count, where they show."""
        if self._map is not None:
            return not self._descriptors.issuperset(self._map)
        sizes = self._sizes_of(loop, signals=signals)
        return sizes != self._sizes and any(size > self._sizes.get(key, 0) for key, size in sizes.items())

    def is_empty(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether *loop* listens to its own pipe alone, also by what was there at that moment."""
        if self._map is not None:
            return len(self._map) <= 1
        return all(len(each) <= isinstance(each, dict) for each in self._containers(loop, signals=False))

    def _sizes_of(self, loop: asyncio.AbstractEventLoop, *, signals: bool = True) -> dict[int, int]:
        return {id(container): len(container) for container in self._containers(loop, signals=signals)}

    def _containers(self, loop: asyncio.AbstractEventLoop, *, signals: bool) -> Iterator[Collection[Any]]:
        return (
            container
            for container in gc.get_referents(loop)
            if isinstance(container, (set, dict, WeakValueDictionary)) and container is not self._timers
            if container is not getattr(loop, "__dict__", None)  # its attributes, which this package sets, too
            if signals or not _has_handlers(container)
        )


def _has_handlers(container: Collection[Any]) -> bool:
    """Whether *container* is the dictionary in which uvloop keeps the callback of each signal."""
    return isinstance(container, dict) and any(type(each).__name__ == "Handle" for each in container.values())


def timers_of(loop: asyncio.AbstractEventLoop) -> Collection[Any] | None:
    """Return the container of the timers of *loop* at this moment; None if the loop does not show it."""
    return holder(loop, "_scheduled", call_in_real_time(loop, _FAR_AWAY_S, int))
