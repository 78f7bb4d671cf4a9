"""How tasks wait for a card: the loop asks it, and completes what is done.

While something ends every now and then, the loop asks at each of its turns; other tasks run in between. When nothing
has ended for a while, it asks once in a millisecond, so that a wait for a second of work costs the processor little.
"""

import asyncio
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from time import monotonic
from typing import TYPE_CHECKING, Any

from acl_py.card.events import Reached
from acl_py.card.streams import CardStream
from acl_py.runtime.runtime import Limited
from acl_py.waiting.deadlocks import Waiting
from acl_py.waiting.loops import holder
from device_model.completions import Completion, Nanoseconds

if TYPE_CHECKING:
    from acl_py.card.runtime import CardRuntime

_NEAR_S = 0.001  # so long the loop asks at each turn
_PAUSE_S = 0.001
_MOMENT_S = 0.0001  # so long the loop does not turn if one task waits alone


class _Wake:
    """Wakes the task that waits with *future* in *loop*."""

    __slots__ = ("_future", "_loop")

    def __init__(self, future: "asyncio.Future[None]", loop: asyncio.AbstractEventLoop) -> None:
        self._future = future
        self._loop = loop

    def release(self, by: Completion) -> None:  # noqa: ARG002 - that it is done is all
        """Wake it, unless it waits no more."""
        if not self._future.done() and not self._loop.is_closed():
            self._future.set_result(None)


class CardBridge:
    """The bridge of the tasks of one event loop to cards."""

    def __init__(self, runtime: "CardRuntime") -> None:
        self.runtime = runtime
        self._waits: dict[asyncio.Future[None], Callable[[], Waiting]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready: Collection[Any] | None = None
        self._turned_s = 0.0  # when the loop turned last
        self._ended_s = 0.0  # when something was done last, or a wait began
        self._looking: asyncio.AbstractEventLoop | None = None  # the loop that has the next look in its queue

    def close(self) -> None:
        """Wake the tasks that wait: nothing else would."""
        for future in list(self._waits):
            if not future.done() and not future.get_loop().is_closed():
                future.set_result(None)

    def reach(self, cost: Nanoseconds) -> Nanoseconds:
        """Return the host time after a call."""
        return self.runtime.host_ns + cost

    def arm(self) -> None:
        """Do nothing: the loop looks while tasks wait."""

    def hold(self) -> AbstractContextManager[None]:
        """Return a block without an effect: a card's time is that of the real world."""
        return nullcontext()

    async def wait(self, completion: Completion, waiting: Callable[[], Waiting]) -> None:
        """Suspend until *completion* is done.

        Raises:
            DeadlockError: It is not done after the runtime's `hang_after`.
        """
        awaited = completion.awaited if isinstance(completion, Limited) else completion
        if isinstance(awaited, Reached):
            awaited.ask()
        elif isinstance(awaited.stream, CardStream):
            awaited.stream.ask(awaited)
        loop = asyncio.get_running_loop()
        if completion.done or (not self._waits and self._is_done_soon(completion, loop)):
            await self.breathe()
            return
        future: asyncio.Future[None] = loop.create_future()
        completion.add_waiter(_Wake(future, loop))
        self._waits[future] = waiting
        self._arm(loop)
        try:
            await future
        finally:
            self._waits.pop(future, None)

    def _is_done_soon(self, completion: Completion, loop: asyncio.AbstractEventLoop) -> bool:
        """Ask the card for a moment while nothing else can run; return whether *completion* is done."""
        ready = self._ready_of(loop)
        if ready is None:
            return False
        until_s = monotonic() + _MOMENT_S
        while not completion.done and not ready and monotonic() < until_s:
            self.runtime.look()
        return completion.done

    def _sees_something(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Ask the card once, or for a moment while nothing else can run; return whether anything is done."""
        ready, until_s = self._ready_of(loop), monotonic() + _MOMENT_S
        while not (is_new := self.runtime.look()):
            if ready is None or ready or monotonic() > until_s:
                break
        return is_new

    def _ready_of(self, loop: asyncio.AbstractEventLoop) -> Collection[Any] | None:
        """Return the queue of what *loop* runs next; None if it does not show it."""
        if loop is not self._loop:
            self._loop, self._ready = loop, holder(loop, "_ready", loop.call_soon(int))
        return self._ready

    async def breathe(self) -> None:
        """Let other tasks run for a turn, if there are any; now and then also timers, sockets and signals."""
        ready = self._ready_of(asyncio.get_running_loop())
        if ready is None or ready or monotonic() - self._turned_s > _NEAR_S:
            await asyncio.sleep(0)
            self._turned_s = monotonic()

    def poll_succeeded(self) -> None:
        """Do nothing: a card that is asked may always be done at some time."""

    def poll_failed(self, waiting: Any = None) -> None:
        """Do nothing: a card that is asked may always be done at some time."""

    async def in_thread(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run *function* in a thread."""
        return await asyncio.to_thread(function, *args, **kwargs)

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        self._ended_s = monotonic()
        if self._looking is not loop:
            self._looking = loop
            loop.call_soon(self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._looking = None
        now_s, patience_s = monotonic(), self.runtime.hang_after
        is_near = now_s - self._ended_s < _NEAR_S
        try:
            if self._sees_something(loop) if is_near else self.runtime.look():
                self._ended_s = now_s
            self.runtime.scheduler.advance(0)
        except BaseException as error:
            self._throw(error)
        if all(future.done() for future in self._waits):
            return  # the next wait begins to look: a look in the queue is something that could run instead of it
        if patience_s is not None and now_s - self._ended_s > patience_s:
            self._give_up()
        self._looking = loop
        if now_s - self._ended_s < _NEAR_S:
            loop.call_soon(self._look, loop)
        else:
            loop.call_later(_PAUSE_S, self._look, loop)

    def _give_up(self) -> None:
        """End all waits: nothing has been done for as long as the program wants to wait."""
        waiters = self.runtime.waiters
        waiters.update({future: waiting() for future, waiting in self._waits.items()})
        for future in self._waits:
            if not future.done():
                future.set_exception(self.runtime.deadlock(waiters[future]))
        waiters.clear()

    def _throw(self, error: BaseException) -> None:
        """Let one of the waits raise *error*."""
        future = next((each for each in self._waits if not each.done()), None)
        if future is None:
            raise error
        future.set_exception(error)
