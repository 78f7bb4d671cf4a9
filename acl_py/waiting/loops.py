"""Event loops from inside: their timers, what they listen to, and whether one waits for nothing but other threads."""

import asyncio
import gc
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from typing import Any
from weakref import WeakValueDictionary

_FAR_AWAY_S = 3600.0


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


def live_timers(loop: asyncio.AbstractEventLoop, own: asyncio.TimerHandle | None) -> Iterator[str]:
    """The timers of *loop*, in words, if one is alive besides the caller's *own*."""
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
    yield from live_timers(loop, None)
    if not _listens_to_nobody(loop):
        yield "a socket, pipe or child process"


def descriptors(loop: asyncio.AbstractEventLoop) -> dict[int, int]:
    """How much the loop listens to: a one for each descriptor, or the size of whatever holds some (uvloop, Windows)."""
    get_map = getattr(getattr(loop, "_selector", None), "get_map", None)
    if get_map is not None:
        return dict.fromkeys(get_map(), 1)
    timers = holder(loop, "_scheduled", loop.call_later(_FAR_AWAY_S, int))
    return {
        id(container): len(container)
        for container in gc.get_referents(loop)
        if isinstance(container, (set, dict, WeakValueDictionary)) and container is not timers
    }
