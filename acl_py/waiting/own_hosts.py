"""Tasks with a host each: a call takes time of its own host only, and meanwhile the others go on.

A call takes its time in the middle of a verb, which is an ordinary function there and cannot await. So the coroutine of
such a task runs in a greenlet, which the task resumes. Where the call has to let time pass, the greenlet goes back to
its task.

No host needs a clock of its own. The host that runs is always at the time of the loop's clock: all that others do
before that time is done, and nothing that they do later. A call lets the clock go on at once if nothing else can happen
up to its end. Otherwise its host takes a *turn*: an entry in the heap of the device, for the end of the call.

A task whose host waits for its turn does not go back to the loop if it need not. It lets time pass, and resumes the
greenlet whose turn it is, also that of another task, which still waits in the loop. What that host awaits in the end,
its own task does.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import copy_context
from functools import partial
from types import CoroutineType, coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from acl_py.sites import hosted
from device_model.completions import Nanoseconds
from device_model.kernel.greenlets import getcurrent, greenlet

if TYPE_CHECKING:
    from device_model.scheduler import Scheduler

T = TypeVar("T")
Task = asyncio.Task[Any]
PAUSE = object()  # what a host gives that waits for its turn


class OwnHost(greenlet):
    """Runs *program*, all that one host does. *swap* is called when the host goes on, and when others do: it changes
    what this host remembers for what is remembered while another one runs.
    """

    def __init__(self, program: Coroutine[Any, Any, Any], swap: Callable[[], None], task: Task) -> None:
        super().__init__(self._run)
        self.gr_context = copy_context()
        self.task = task
        self.future: asyncio.Future[None] | None = None  # for which its task waits, once it has gone to the loop
        self.has_turn = False
        self.is_paused = False
        self.raised: BaseException | None = None  # with which it ended beside another one
        self.result: Any = None
        self._program = program
        self._swap = swap

    def __repr__(self) -> str:
        return f"<OwnHost of {self._program!r}>"

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
        """Go back to the task that has resumed this host; return what this one sends."""
        assert self.parent is not None, f"{self!r} has no task to go back to"
        return self.parent.switch(awaited)

    def resume(self, error: BaseException | None = None) -> Any:
        """Let this host go on, or raise *error* where it is; return what it awaits, PAUSE, or its result."""
        self.parent = getcurrent()
        self._swap()
        try:
            return self.switch() if error is None else self.throw(error)
        finally:
            self._swap()

    def pause(self) -> None:
        """Wait for the turn of this host.

        A call goes on to its end. A task that is cancelled meanwhile learns of it when it next awaits something.
        """
        cancelled: asyncio.CancelledError | None = None
        self.has_turn, self.is_paused = False, True
        try:
            while not self.has_turn:
                try:
                    self._back(PAUSE)
                except asyncio.CancelledError as error:
                    cancelled = error
        finally:
            self.is_paused = False
        if cancelled is not None:
            self.task.uncancel()
            self.task.cancel(*cancelled.args)

    def wake(self) -> None:
        """Let the task of this host go on."""
        _pass_on(self.future)


class _Clock(Protocol):
    def arm(self) -> None: ...
    def let_devices_act(self, turns: "Turns") -> bool: ...


class Turns:
    """Whose turn it is, of the hosts of one loop. At any time one task at most resumes hosts, or is about to."""

    def __init__(self, clock: _Clock) -> None:
        self.clock = clock
        self.ready: deque[OwnHost] = deque()  # those that have their turn and were not resumed
        self._is_resuming = False

    def host(self) -> OwnHost | None:
        """Return the host of the calling task, if it has one of its own."""
        here = getcurrent()
        return here if isinstance(here, OwnHost) else None

    def take(self, host: OwnHost, scheduler: "Scheduler", end: Nanoseconds) -> None:
        """Let others go on until the turn of *host*, which is at *end*."""
        scheduler.at(end, self._come, (host, scheduler))
        host.pause()

    def _come(self, whose: "tuple[OwnHost, Scheduler]") -> None:
        host, scheduler = whose
        host.has_turn = True
        scheduler.woke()
        self.ready.append(host)
        if not self._is_resuming:
            self._is_resuming = True
            host.wake()

    def come_to(self, own: OwnHost) -> bool:
        """Let hosts go on in their turns up to that of *own*, whose task asks; return whether it has come.

        It has not if something else must happen first, for which the loop has to turn.
        """
        self._is_resuming = True
        while self.ready or self.clock.let_devices_act(self):
            host = self.ready[0]
            if host is own:
                return True
            if host.future is None or host.future.done():  # its own task is about to go on
                return False
            self._go_on_beside(self.ready.popleft(), own)
        return False

    def begin(self, host: OwnHost) -> None:
        """Note that the task of *host* resumes it, perhaps in its turn."""
        if host.has_turn and host in self.ready:
            self.ready.remove(host)

    def leave(self) -> None:
        """Let the task of the next host that has its turn go on: the one that has resumed hosts goes to the loop."""
        self._is_resuming = bool(self.ready)
        if self.ready:
            self.ready[0].wake()

    def _go_on_beside(self, host: OwnHost, own: OwnHost) -> None:
        """Resume *host* in the task of *own*; its own task does what it awaits in the end."""
        loop = own.task.get_loop()
        asyncio.tasks._leave_task(loop, own.task)
        asyncio.tasks._enter_task(loop, host.task)
        try:
            awaited = host.resume()
        except BaseException as error:  # its own task raises it
            host.raised = error
            host.wake()
            return
        finally:
            asyncio.tasks._leave_task(loop, host.task)
            asyncio.tasks._enter_task(loop, own.task)
        if awaited is PAUSE:
            return
        if host.dead or awaited is None:
            host.result = awaited
            host.wake()
            return
        awaited._asyncio_future_blocking = False
        awaited.add_done_callback(partial(_pass_on, host.future))


def _pass_on(future: asyncio.Future[None] | None, _: object = None) -> None:
    """Let a task that waits for *future* go on."""
    if future is not None and not future.done():
        future.set_result(None)


@coroutine
def on_own_host(program: Coroutine[Any, Any, T], turns: Turns, swap: Callable[[], None]) -> Generator[Any, Any, T]:
    """Run *program* on a host of its own, which takes *turns* with others; *swap* is that of `OwnHost`."""
    task = asyncio.current_task()
    assert task is not None, "a host of its own is that of a task"
    host = OwnHost(program, swap, task)
    if isinstance(program, CoroutineType):
        hosted[task] = program
    error: BaseException | None = None
    while not host.dead:
        try:
            awaited = _resumed(host, turns, error)
        finally:
            turns.leave()
        if host.dead:
            host.result = awaited
            break
        error = None
        try:
            yield awaited
        except BaseException as thrown:
            error = thrown
            if host.dead:
                raise
    if host.raised is not None:
        raise host.raised
    returned: T = host.result
    return returned


def _resumed(host: OwnHost, turns: Turns, error: BaseException | None) -> Any:
    """Resume *host*; return what its task has to await, or the result."""
    turns.begin(host)
    awaited = host.resume(error)
    while awaited is PAUSE:
        try:
            has_turn = turns.come_to(host)
        except Exception as failed:  # of a device, or of an observer: it comes out of the call
            awaited = host.resume(failed)
            continue
        if not has_turn:
            turns.clock.arm()
            host.future = host.task.get_loop().create_future()
            host.future._asyncio_future_blocking = True
            return host.future
        turns.begin(host)
        awaited = host.resume()
    return awaited
