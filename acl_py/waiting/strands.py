"""Strands: the greenlets in which the tasks of own hosts run their programs (own_hosts.py)."""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any

from acl_py.waiting.host_queues import OwnHost, Way
from device_model.kernel.greenlets import greenlet

if TYPE_CHECKING:
    from device_model.scheduler import Scheduler

Task = asyncio.Task[Any]
Program = Coroutine[Any, Any, Any]
PAUSE = object()  # what a strand gives that waits for its turn, for which the loop has to turn


class Pause(asyncio.Future[None]):
    """What the task of a strand awaits that has gone to the loop, because others take turns in the step of another one.

    *awaited* is what its program awaits; None while it is in a call.
    """

    def __init__(self, strand: "Strand") -> None:
        super().__init__(loop=strand.loop)
        self.awaited: asyncio.Future[Any] | None = None
        self._queues = strand.host.queues
        self._strand = strand
        strand.is_in_loop = True
        self._asyncio_future_blocking = True

    def add_done_callback(self, function: Callable[[Any], object], /, *, context: Context | None = None) -> None:
        """Call *function* when the task may go on, past the queue of its host: that stands still for it."""
        self._queues.way = Way.PAST
        super().add_done_callback(function, context=context)
        self._queues.way = Way.THROUGH

    def end(self, way: Way) -> None:
        """Let the task go on."""
        if not super().done():
            self._strand.is_in_loop = False
            self._queues.way = way
            self.set_result(None)

    def done(self) -> bool:
        """Whether the task can go on, be it behind others of its host: anyio asks before it cancels one."""
        return super().done() or (self.awaited is not None and self.awaited.done())

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel what the program awaits. A call goes on to its end: then the task finds that it is to be cancelled."""
        return self.awaited is not None and self.awaited.cancel(msg)


class Strand(greenlet):
    """Runs *program*, the coroutine of *task*, which is one of the tasks of *host*."""

    def __init__(self, program: Program, host: OwnHost, task: Task) -> None:
        super().__init__(self._run)
        self.gr_context = copy_context()
        self.task = task
        self.loop = task.get_loop()
        self.host = host
        self.pausing: Pause | None = None  # what its task awaits, once it has gone to the loop
        self.is_in_loop = False  # its task waits there, so that another one can resume it
        self.has_turn = False
        self.scheduler: Scheduler  # of the run in which it has asked for its turn
        self.to_await: Any = None  # what its own task has to await, because that is to be cancelled
        self.raised: BaseException | None = None  # with which it ended beside another one
        self.result: Any = None
        self._program = program

    def __repr__(self) -> str:
        return f"<Strand of {self._program!r}>"

    @property
    def task_of_strand(self) -> Task:
        """The task: what is handed to this is handed to it (sanitizer/hosts.py)."""
        return self.task

    def _run(self) -> Any:
        program = self._program
        go_on, sent = program.send, None
        while True:
            try:
                awaited = go_on(sent)
            except StopIteration as end:
                return end.value
            try:
                go_on, sent = program.send, self._back(awaited)
            except BaseException as error:  # what the task gets, its coroutine gets
                go_on, sent = program.throw, error

    def _back(self, awaited: object) -> Any:
        """Go back to the task that resumes strands; return what it sends."""
        assert self.parent is not None, f"{self!r} has no task to go back to"
        return self.parent.switch(awaited)

    def pause(self) -> None:
        """Let the loop turn."""
        self._back(PAUSE)

    def wake(self, way: Way = Way.PAST) -> None:
        """Let the task of this strand go on."""
        if self.pausing is not None:
            self.pausing.end(way)
            self.host.queues.way = Way.THROUGH

    def go_on(self, awaited: asyncio.Future[Any] | None = None) -> None:
        """Take a step of the task, as the loop does. *awaited* is the future that it waited for and that is done."""
        if awaited is not None and not awaited.cancelled():
            awaited.exception()  # asyncio counts it as seen, also if the task has been cancelled meanwhile
        self.host.begin(self)
        self.wake(Way.AT_ONCE)

    def suspend(self, awaited: Any) -> None:
        """Wait in the queue of the host for what the program *awaited* beside another one."""
        pause = self.pausing
        assert pause is not None, f"{self!r} does not wait in the loop"
        if self.task._must_cancel:  # type: ignore[attr-defined]
            self.to_await = awaited
            self.wake()
        elif awaited is None:
            self.host.add(asyncio.Handle(self.go_on, (), self.loop, self.gr_context))
            self.host.release()
        else:
            pause.awaited = awaited
            awaited._asyncio_future_blocking = False
            awaited.add_done_callback(self.go_on, context=self.gr_context)
            self.host.release()
