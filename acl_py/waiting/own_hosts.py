"""Several hosts in one loop: a call takes time of its own host only, and meanwhile the others go on.

A call takes its time in the middle of a verb, which is an ordinary function there and cannot await. So the coroutine of
a task that has such a host runs in a greenlet, a *strand*, which the task resumes. Where the call has to let time pass,
the strand goes back to its task.

No host needs a clock of its own. The host that runs is always at the time of the loop's clock: all that others do
before that time is done, and nothing that they do later. A call lets the clock go on at once if nothing else can happen
up to its end. Otherwise its strand takes a *turn*: an entry in the heap of the device, for the end of the call.

A strand that waits for its turn does not go back to its task if it need not. It lets time pass itself, and hands over
to the strand whose turn comes first, also that of another task, which still waits in the loop. So all strands that take
turns run in one step of the loop, that of the task which *resumes*.

**A host does one thing at a time.** A task that is made on a host is of that host. While one of its tasks is in a call,
the others wait, as they do in a loop of their own. So whatever the loop is to run for a host goes through the queue of
that host (host_queues.py), which stands still during a step of one of its tasks.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from types import CoroutineType
from typing import Any

from acl_py.sites import hosted, make_task, note_task
from acl_py.waiting.host_queues import OwnHost, current_host
from acl_py.waiting.strands import Program, Strand, Task
from acl_py.waiting.turns import Turns
from device_model.kernel.greenlets import getcurrent


@contextmanager
def serving(turns: Turns, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Return a block in which tasks that are made on a host are of that host, and take *turns*.

    Callbacks of a host wait for it.
    """
    previous = loop.get_task_factory()

    def factory(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> Any:
        context = options.get("context")
        host = current_host.get() if context is None else context.get(current_host)
        if host is None:
            return make_task(previous, loop, coro, options)
        note_task(coro)
        hosting = Hosted(coro, host, turns)
        task: Task = make_task(previous, loop, hosting, options)
        if isinstance(coro, CoroutineType):
            hosted[task] = coro
        host.tasks[task] = None
        return task

    loop.set_task_factory(factory)
    try:
        with turns.queues.serving():
            yield
    finally:
        loop.set_task_factory(previous)


class Hosted(Program):
    """The coroutine of a task of *host*: it runs *program* in a strand, which takes *turns* with others."""

    def __init__(self, program: Program, host: OwnHost, turns: Turns) -> None:
        self._program = program
        self._host = host
        self._turns = turns
        self._strand: Strand | None = None

    def __repr__(self) -> str:
        return repr(self._program)

    def __getattr__(self, name: str) -> Any:
        """Return what the program has: asyncio and debuggers look at its frame, its code and its state."""
        return getattr(self._program, name)

    @property
    def own_host(self) -> OwnHost:
        """The host of the task."""
        return self._host

    def __await__(self) -> Any:
        raise TypeError(f"{self!r} is the coroutine of a task: await that")

    def send(self, _: Any) -> Any:
        """Go on; return what the task has to await."""
        if self._strand is None:
            task = asyncio.current_task()
            assert task is not None, "a host of its own is that of a task"
            if isinstance(getcurrent(), Strand):
                return None  # an eager task begins in the step of another one: it begins at the next turn instead
            self._strand = Strand(self._program, self._host, task)
        return self._go_on(self._strand, None)

    def throw(self, error: Any, value: Any = None, _: Any = None, /) -> Any:
        """Raise *error* in the program; return what the task has to await."""
        raised = value if isinstance(value, BaseException) else error if isinstance(error, BaseException) else error()
        if self._strand is None:  # a task that was cancelled before it began
            self.close()
            self._host.forget(asyncio.current_task())
            raise raised
        return self._go_on(self._strand, raised)

    def close(self) -> None:
        """End the program."""
        if self._strand is None:
            self._program.close()
        elif not self._strand.dead:
            self._strand.throw()

    def _go_on(self, strand: Strand, error: BaseException | None) -> Any:
        if strand.to_await is not None:
            awaited, strand.to_await = strand.to_await, None
            if isinstance(error, asyncio.CancelledError) and awaited.cancel(*error.args):
                self._host.release()
                return awaited
        if not strand.dead:
            try:
                awaited = self._turns.resume(strand, error)
            except BaseException as raised:
                strand.raised = raised
            else:
                strand.result = awaited
            self._turns.leave()
            if not strand.dead:
                return awaited
        self._host.forget(strand.task)
        self._host.release()
        if strand.raised is not None:
            raise strand.raised
        raise StopIteration(strand.result)
