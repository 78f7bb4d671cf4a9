"""Handovers: what tasks hand on to one another although no task sleeps.

A task that waits for an event which is set already, takes a free lock or an item that is in the queue, or awaits a task
or a future that is done, goes on at once. Nothing of this goes through the event loop, where hosts.py looks. So while
tasks are watched, methods of asyncio's locks, events, queues, tasks and futures and of anyio's streams are wrapped. A
task that sets, releases, puts or ends something leaves behind what it knows. A task that finds it set, free, there or
done takes that up.

Who takes the last free place of a semaphore is behind all who have left theirs: without one of them, there would have
been no place. Who takes another place need not be behind anybody.
"""

import asyncio
import importlib
import sys
from collections.abc import Callable, Generator, Iterable
from functools import wraps
from inspect import iscoroutinefunction
from types import FrameType
from typing import Any, Protocol, TypeAlias
from weakref import WeakKeyDictionary

from acl_py.sites import PACKAGE, is_foreign


class Watcher(Protocol):
    """What hears of handovers."""

    def leave(self, thing: object, item: object = None) -> None:
        """The running code leaves behind what it knows, with *thing*, or with this *item* in it."""

    def take_up(self, thing: object, item: object = None) -> None:
        """The running task finds what was left with *thing*."""


_WAITING = f"{PACKAGE}waiting"
_TIMER = "_set_result_unless_cancelled"  # of asyncio.sleep
_Wrap: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]
_Wrapper: TypeAlias = tuple[type, str, _Wrap]

# The watchers of each event loop.
watchers: WeakKeyDictionary[asyncio.AbstractEventLoop, list[Any]] = WeakKeyDictionary()
_originals: list[tuple[type, str, Any]] = []


def hands_on(frame: FrameType) -> bool:
    """Whether the code in *frame*, which wakes somebody or ends a future, hands on what it knows.

    The simulator does not, which wakes tasks while another one lets simulated time pass, and neither does a timer.
    """
    if frame.f_code.co_filename == __file__ and frame.f_back is not None:  # a WatchedFuture
        frame = frame.f_back
    return not frame.f_code.co_filename.startswith(_WAITING) and frame.f_code.co_name != _TIMER


def _running() -> list[Any]:
    loop = asyncio._get_running_loop()
    return [] if loop is None else watchers.get(loop, [])


def _leave(thing: object, item: object = None) -> None:
    for watcher in _running():
        watcher.leave(thing, item)


def _take_up(thing: object, item: object = None) -> None:
    for watcher in _running():
        watcher.take_up(thing, item)


def _leaves(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def method(self: Any, *args: Any, **options: Any) -> Any:
        _leave(self)
        return function(self, *args, **options)

    return method


def _behind(note: Callable[..., None]) -> _Wrap:
    """Return what wraps methods and coroutines: *note* is called behind them, with the object, the result, and the
    arguments.
    """

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def method(self: Any, *args: Any, **options: Any) -> Any:
            result = function(self, *args, **options)
            note(self, result, *args, **options)
            return result

        @wraps(function)
        async def coroutine(self: Any, *args: Any, **options: Any) -> Any:
            result = await function(self, *args, **options)
            note(self, result, *args, **options)
            return result

        return coroutine if iscoroutinefunction(function) else method

    return wrap


def _takes_up_if(is_there: Callable[[Any, Any], bool]) -> _Wrap:
    """Return what wraps methods that find something if *is_there*, asked with the object and the result, says so."""

    def note(self: Any, result: Any, *_: Any, **__: Any) -> None:
        if is_there(self, result):
            _take_up(self)

    return _behind(note)


def _takes_place_of_anyio(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    async def method(self: Any, *args: Any, **options: Any) -> Any:
        free = _free(self)
        if free == 1:  # the last one; it is taken at once, and others run before the call returns
            _take_up(self)
        result = await function(self, *args, **options)
        if free == 0 == _free(self):  # the task has slept until a place was left
            _take_up(self)
        return result

    return method


def _free(places: Any) -> float:
    """Return how many places are free in *places*, a semaphore or a capacity limiter of anyio."""
    free: float = places.value if hasattr(places, "value") else places.available_tokens
    return free


def _shared(end: Any) -> Any:
    """Return what has the items that come out at *end*: what both ends of a stream share, or the queue itself."""
    return end if isinstance(end, asyncio.Queue) else end._state


def _sends(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    async def method(self: Any, item: Any) -> None:
        # Before it sleeps, if the stream is full: a receiver takes the item, and then wakes it.
        _leave(_shared(self), id(item))
        await function(self, item)

    return method


_takes_up = _takes_up_if(lambda *_: True)
_looks = _takes_up_if(lambda _, is_set: bool(is_set))
_takes_place = _takes_up_if(lambda self, _: bool(self.locked()))  # the last one
_takes_free_place = _takes_up_if(lambda self, _: _free(self) == 0)  # the last one
_puts = _behind(lambda self, _, item: _leave(_shared(self), id(item)))  # behind it: the queue may be full
_gets = _behind(lambda self, item: _take_up(_shared(self), id(item)))

_OF_ASYNCIO: tuple[_Wrapper, ...] = (
    (asyncio.Event, "set", _leaves),
    (asyncio.Event, "is_set", _looks),
    (asyncio.Event, "wait", _takes_up),
    (asyncio.Lock, "release", _leaves),
    (asyncio.Lock, "acquire", _takes_up),
    (asyncio.Semaphore, "release", _leaves),
    (asyncio.Semaphore, "acquire", _takes_place),
    (asyncio.Queue, "put_nowait", _puts),
    (asyncio.Queue, "get_nowait", _gets),
    (asyncio.Queue, "task_done", _leaves),
    (asyncio.Queue, "join", _takes_up),
    (asyncio.TaskGroup, "__aexit__", _takes_up),
)


# Classes of anyio's backend for asyncio, by name: they are not public.
_OF_ANYIO: tuple[tuple[str, str, _Wrap], ...] = (
    ("Lock", "release", _leaves),
    ("Lock", "acquire", _takes_up),
    ("Lock", "acquire_nowait", _takes_up),
    ("Semaphore", "release", _leaves),
    ("Semaphore", "acquire", _takes_place_of_anyio),
    ("Semaphore", "acquire_nowait", _takes_free_place),
    ("CapacityLimiter", "release_on_behalf_of", _leaves),
    ("CapacityLimiter", "acquire_on_behalf_of", _takes_place_of_anyio),
    ("CapacityLimiter", "acquire_on_behalf_of_nowait", _takes_free_place),
    ("TaskGroup", "__aexit__", _takes_up),
)


def _wrappers() -> Iterable[_Wrapper]:
    # Not at the top: pytest must see the import of anyio, which is one of its plugins, before this package does it.
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

    yield from _OF_ASYNCIO
    yield MemoryObjectSendStream, "send", _sends
    yield MemoryObjectSendStream, "send_nowait", _puts
    yield MemoryObjectReceiveStream, "receive", _gets
    yield MemoryObjectReceiveStream, "receive_nowait", _gets
    backend = _backend()
    for owner, name, wrapper in _OF_ANYIO:
        if hasattr(getattr(backend, owner, None), name):
            yield getattr(backend, owner), name, wrapper


def _backend() -> object:
    """Return anyio's backend for asyncio; None in a version of anyio that has it elsewhere."""
    try:
        return importlib.import_module("anyio._backends._asyncio")
    except ImportError:
        return None


class _Watched(asyncio.Future[Any]):
    """A task or a future that those take up who find it done."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, Any]:
        try:
            return (yield from super().__await__())
        finally:
            self._hand_on()

    __iter__ = __await__

    def done(self) -> bool:
        """Return whether it has ended."""
        is_done = super().done()
        if is_done and not is_foreign(sys._getframe(1).f_code):  # libraries ask for purposes of their own
            self._hand_on()
        return is_done

    def result(self) -> Any:
        """Return its result, or raise its exception."""
        self._hand_on()
        return super().result()

    def exception(self) -> BaseException | None:
        """Return its exception, if it ended with one."""
        self._hand_on()
        return super().exception()

    def _hand_on(self) -> None:
        if super().done():
            _take_up(self)


class WatchedTask(_Watched, asyncio.Task[Any]):
    """A task that hands on what it knew at its end to those who find it done."""


class WatchedFuture(_Watched):
    """A future that hands on what those knew who gave it its result."""

    def set_result(self, result: Any) -> None:
        """End the future with *result*."""
        super().set_result(result)
        self._leave(sys._getframe(1))

    def set_exception(self, exception: BaseException | type[BaseException]) -> None:
        """End the future with *exception*."""
        super().set_exception(exception)
        self._leave(sys._getframe(1))

    def _leave(self, by: FrameType) -> None:
        if hands_on(by):
            _leave(self)


def watch() -> list[str]:
    """Wrap the methods of asyncio and anyio. Return the names of those that this version of anyio does not have."""
    for owner, name, wrapper in _wrappers():
        original = getattr(owner, name)
        _originals.append((owner, name, owner.__dict__.get(name)))
        setattr(owner, name, wrapper(original))
    backend = _backend()
    return [f"{owner}.{name}" for owner, name, _ in _OF_ANYIO if not hasattr(getattr(backend, owner, None), name)]


def end() -> None:
    """Give asyncio and anyio their own methods back."""
    for owner, name, original in _originals:
        if original is None:  # it was inherited
            delattr(owner, name)
        else:
            setattr(owner, name, original)
    _originals.clear()
