"""Handovers: what tasks hand on to one another although nobody sleeps.

A task that waits for an event which is set already, takes a free lock or an item that is in the queue, or awaits a task
that is done, goes on at once. Nothing of this goes through the event loop, where hosts.py looks. So while tasks are
watched, methods of asyncio's locks, events, queues and tasks are wrapped: who sets, releases, puts or ends leaves
behind what it knows, and who finds it set, free, there or done takes it up.

A semaphore is not among them: who finds a place free need not be behind those who have left theirs.
"""

import asyncio
import sys
from collections.abc import Callable, Generator
from functools import wraps
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from acl_py.sites import is_foreign


class Watcher(Protocol):
    """What hears of handovers."""

    def leave(self, thing: object, item: object = None) -> None:
        """The running code leaves behind what it knows, with *thing*, or with this *item* in it."""

    def take_up(self, thing: object, item: object = None) -> None:
        """The running task finds what was left with *thing*."""


# The watchers of each event loop.
watchers: WeakKeyDictionary[asyncio.AbstractEventLoop, list[Any]] = WeakKeyDictionary()
_originals: list[tuple[type, str, Any]] = []


def _running() -> list[Any]:
    loop = asyncio._get_running_loop()
    return [] if loop is None else watchers.get(loop, [])


def _leaves(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def method(self: Any, *args: Any) -> Any:
        for watcher in _running():
            watcher.leave(self)
        return function(self, *args)

    return method


def _takes_up(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    async def method(self: Any, *args: Any) -> Any:
        result = await function(self, *args)
        for watcher in _running():
            watcher.take_up(self)
        return result

    return method


def _puts(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def method(self: Any, item: Any) -> None:
        function(self, item)  # it may be full
        for watcher in _running():
            watcher.leave(self, id(item))

    return method


def _gets(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def method(self: Any) -> Any:
        item = function(self)
        for watcher in _running():
            watcher.take_up(self, id(item))
        return item

    return method


def _looks(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def method(self: Any) -> Any:
        result = function(self)
        if result:
            for watcher in _running():
                watcher.take_up(self)
        return result

    return method


_WRAPPERS: tuple[tuple[type, str, Callable[[Callable[..., Any]], Callable[..., Any]]], ...] = (
    (asyncio.Event, "set", _leaves),
    (asyncio.Event, "is_set", _looks),
    (asyncio.Event, "wait", _takes_up),
    (asyncio.Lock, "release", _leaves),
    (asyncio.Lock, "acquire", _takes_up),
    (asyncio.Queue, "put_nowait", _puts),
    (asyncio.Queue, "get_nowait", _gets),
    (asyncio.Queue, "task_done", _leaves),
    (asyncio.Queue, "join", _takes_up),
    (asyncio.TaskGroup, "__aexit__", _takes_up),
)


class WatchedTask(asyncio.Task[Any]):
    """A task that hands on what it knew at its end to those who find it done."""

    def __await__(self) -> Generator[Any, None, Any]:
        try:
            return (yield from super().__await__())
        finally:
            self._hand_on()

    __iter__ = __await__

    def done(self) -> bool:
        """Return whether the task has ended."""
        is_done = super().done()
        if is_done and not is_foreign(sys._getframe(1).f_code):  # libraries ask for purposes of their own
            self._hand_on()
        return is_done

    def result(self) -> Any:
        """Return what the task has returned, or raise what it has raised."""
        self._hand_on()
        return super().result()

    def exception(self) -> BaseException | None:
        """Return what the task has raised."""
        self._hand_on()
        return super().exception()

    def _hand_on(self) -> None:
        if super().done():
            for watcher in _running():
                watcher.take_up(self)


def watch() -> None:
    """Wrap the methods of asyncio."""
    for owner, name, wrapper in _WRAPPERS:
        original = getattr(owner, name)
        _originals.append((owner, name, owner.__dict__.get(name)))
        setattr(owner, name, wrapper(original))


def end() -> None:
    """Give asyncio its own methods back."""
    for owner, name, original in _originals:
        if original is None:  # it was inherited
            delattr(owner, name)
        else:
            setattr(owner, name, original)
    _originals.clear()
