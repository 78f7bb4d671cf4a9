"""Queues of hosts: what the loop runs for a host waits there while a task of this host is in a call.

A task in a call lets time pass, so the loop turns in the middle of its step. What it may run then is for other hosts
only. So everything that the loop is to run for a host, steps of its tasks, callbacks and timers, goes through a queue
of the host, in order. Which host that is says the context of each of them. The queue gives the loop one of them after
the other, and none during the step of a task.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from enum import Enum
from typing import Any, Protocol

Task = asyncio.Task[Any]


class Memory(Protocol):
    """What a host remembers, which is changed for what is remembered beside it while others run."""

    def swap(self) -> None:
        """Change it for what is remembered now: this host goes on, or has come back."""

    def follow(self, before: Any) -> None:
        """Do both: the host with the memory *before* has come back, and this one goes on."""


class OwnHost:
    """One of several hosts of a loop, called *name*; its *tasks* have their steps one after the other.

    *memory* is what this host remembers. *running* is what has the step of a task that has begun and has not ended.
    """

    def __init__(self, name: str, memory: Memory, queues: "Queues") -> None:
        self.name = name
        self.memory = memory
        self.queues = queues
        self.running: object = None
        self.tasks: dict[Task, None] = {}
        self._queue: deque[asyncio.Handle] = deque()
        self._is_due = False  # the loop is to run the first of the queue
        self._has_passed = False  # the loop may still have something for this host that was not in the queue

    def __repr__(self) -> str:
        return f"<OwnHost {self.name} tasks={len(self.tasks)} queue={len(self._queue)} running={self.running!r}>"

    def add(self, handle: asyncio.Handle) -> asyncio.Handle:
        """Run *handle* behind all that is in the queue; return it."""
        self._queue.append(handle)
        self._go_on()
        return handle

    def lets_pass(self) -> bool:
        """Whether the loop may run what is next without the queue: nothing is there before it. It is asked once."""
        if self.running is None and not (self._queue or self._is_due or self._has_passed):
            self._has_passed = True
            return True
        return False

    def begin(self, strand: object) -> None:
        """Let the queue stand still: a step of the task of *strand* has begun."""
        self.running = strand
        self._has_passed = False

    def release(self) -> None:
        """Go on with the queue: the step of a task has ended."""
        self.running = None
        self._go_on()

    def _go_on(self) -> None:
        if self._queue and self.running is None and not self._is_due:
            self._is_due = True
            self.queues.call_in_loop(self._run_first)

    def _run_first(self) -> None:
        self._is_due = self._has_passed = False
        if self.running is None and self._queue:
            handle = self._queue.popleft()
            if not handle.cancelled():
                handle._run()
            self._go_on()

    def forget(self, task: Task | None) -> None:
        """Note that *task* has ended."""
        self.tasks.pop(task, None)  # type: ignore[arg-type]

    async def cancel_others(self) -> None:
        """Cancel all tasks but the calling one, and wait until they have ended, as asyncio.run does at its end."""
        loop, this = asyncio.get_running_loop(), asyncio.current_task()
        others = [task for task in self.tasks if task is not this]
        for task in others:
            task.cancel()
        for task, error in zip(others, await asyncio.gather(*others, return_exceptions=True), strict=True):
            if isinstance(error, Exception):
                message = f"a task that {self.name} has left behind has failed"
                loop.call_exception_handler({"message": message, "exception": error, "task": task})


current_host: ContextVar[OwnHost | None] = ContextVar("acl_py_current_host", default=None)


class Way(Enum):
    """How the loop comes to a callback that it is given for a host."""

    THROUGH = "through the queue of the host"
    PAST = "past the queue: that stands still for it"
    AT_ONCE = "now: the loop is at the place in the queue already"


def put_method(loop: asyncio.AbstractEventLoop, name: str, method: Callable[..., Any]) -> None:
    """Let *loop* have this *method*. Its own one is that of its class again."""
    if getattr(method, "__self__", None) is loop:
        vars(loop).pop(name, None)
    else:
        setattr(loop, name, method)


class Queues:
    """Takes over `call_soon` of *loop*, for what is to run on a host.

    A watcher of the loop, as the sanitizer, may have taken it over before, and may do so meanwhile. Its function has
    what it calls as `__wrapped__`, and `over` makes one that calls something else. The queues always lie below it:
    the caller of the watcher wakes a task, and the watcher has handed on each callback before it is queued.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._call_soon: Callable[..., asyncio.Handle] = loop.call_soon  # what the loop does by itself
        self._plain = Context()
        self.way = Way.THROUGH  # of what the loop is given now

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Return a block in which the loop has the queues."""
        self._call_soon = self._exchange(self._queue)
        try:
            yield
        finally:
            self._exchange(self._call_soon)

    def _exchange(self, call_soon: Callable[..., Any]) -> Callable[..., Any]:
        """Put *call_soon* into the loop, below a watcher; return what was there."""
        present: Callable[..., Any] = self._loop.call_soon
        over = getattr(present, "over", None)
        put_method(self._loop, "call_soon", call_soon if over is None else over(call_soon))
        return present if over is None else present.__wrapped__  # type: ignore[attr-defined]

    def call_in_loop(self, callback: Callable[[], object]) -> None:
        """Run *callback* at the next turn of the loop, on no host."""
        self._call_soon(callback, context=self._plain)

    def takes(self, timer: asyncio.TimerHandle) -> bool:
        """Put a *timer* that rings into the queue of its host; return False if it has none."""
        host = timer._context.get(current_host)  # type: ignore[attr-defined]
        if host is not None:
            host.add(timer)
        return host is not None

    def _queue(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:
        host = current_host.get() if context is None else context.get(current_host)
        if self.way is Way.AT_ONCE and context is not None:
            self.way = Way.THROUGH
            handle = asyncio.Handle(callback, args, self._loop, context)
            handle._run()  # as the loop does it: what ends in it is handed on, which _queue() would not do
            return handle
        if host is None or self.way is Way.PAST or host.lets_pass():
            return self._call_soon(callback, *args, context=context)
        return host.add(asyncio.Handle(callback, args, self._loop, context))
