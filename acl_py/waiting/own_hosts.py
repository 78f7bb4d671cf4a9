"""Tasks with a host each: a call takes time of its own host only, and meanwhile the others go on.

A call takes its time in the middle of a verb, which is an ordinary function there and cannot await. So the coroutine of
such a task runs in a greenlet, which the task resumes. Where the call has to let time pass, the greenlet goes back to
its task.

No host needs a clock of its own. The host that runs is always at the time of the loop's clock: all that others do
before that time is done, and nothing that they do later. A call lets the clock go on at once if nothing else can happen
up to its end. Otherwise its host takes a *turn*: an entry in the heap of the device, for the end of the call.

A host that waits for its turn does not go back to its task if it need not. It lets time pass itself, and hands over to
the host whose turn comes first, also that of another task, which still waits in the loop. So all hosts that take turns
run in one step of the loop, that of the task which *resumes*. What such a host awaits in the end, its own task does.
"""

import asyncio
from collections import deque
from collections.abc import Coroutine, Generator
from contextvars import copy_context
from functools import partial
from heapq import heappush
from types import CoroutineType, coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from acl_py.sites import hosted
from device_model.completions import Nanoseconds
from device_model.kernel.greenlets import getcurrent, greenlet
from device_model.scheduler import check_clock

if TYPE_CHECKING:
    from acl_py.waiting.bridge import Bridge
    from device_model.scheduler import Scheduler

T = TypeVar("T")
Task = asyncio.Task[Any]
PAUSE = object()  # what a host gives that waits for its turn, for which the loop has to turn

# What asyncio calls around a step of a task. It has no public form.
_enter_task, _leave_task = asyncio.tasks._enter_task, asyncio.tasks._leave_task


class Memory(Protocol):
    """What a host remembers, which is changed for what is remembered beside it while others run."""

    def swap(self) -> None:
        """Change it for what is remembered now: this host goes on, or has come back."""

    def follow(self, before: Any) -> None:
        """Do both: the host with the memory *before* has come back, and this one goes on."""


class OwnHost(greenlet):
    """Runs *program*, all that one host does, in *task*. *memory* is what this host remembers."""

    def __init__(self, program: Coroutine[Any, Any, Any], memory: "Memory", task: Task) -> None:
        super().__init__(self._run)
        self.gr_context = copy_context()
        self.task = task
        self.loop = task.get_loop()
        self.memory = memory
        self.future: asyncio.Future[None] | None = None  # for which its task waits, once it has gone to the loop
        self.has_turn = False
        self.raised: BaseException | None = None  # with which it ended beside another one
        self.result: Any = None
        self._program = program

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
        """Go back to the task that resumes hosts; return what it sends."""
        assert self.parent is not None, f"{self!r} has no task to go back to"
        return self.parent.switch(awaited)

    def pause(self) -> None:
        """Let the loop turn."""
        self._back(PAUSE)

    def wake(self) -> None:
        """Let the task of this host go on."""
        _pass_on(self.future)


class _Clock(Protocol):
    @property
    def is_real(self) -> bool: ...
    def arm(self) -> None: ...
    def is_trip_due(self) -> bool: ...
    def trip(self) -> None: ...
    def look(self) -> None: ...
    def let_devices_act(self, turns: "Turns", until: Nanoseconds) -> bool: ...
    def let_turn_come(self, turns: "Turns") -> bool: ...


class Turns:
    """Whose turn it is, of the hosts of one loop. At any time one task at most resumes hosts, or is about to."""

    def __init__(self, clock: _Clock) -> None:
        self.clock = clock
        self.ready: deque[OwnHost] = deque()  # those that have their turn and were not resumed
        self._is_resuming = False
        self._own: OwnHost | None = None  # the host of the task that resumes
        self._running: OwnHost | None = None  # the host that runs in the step of that task, or has come back to it

    def reach(self, bridge: "Bridge", cost: Nanoseconds) -> Nanoseconds | None:
        """Return the host time after a call of *cost*, with all done that others do before that.

        None: the clock has to say it. The caller has no host, or real time passes.
        """
        host, clock = getcurrent(), self.clock
        if type(host) is not OwnHost or clock.is_real:
            return None
        runtime = bridge.host
        end = runtime.host_ns + cost
        if not cost:
            return end
        check_clock(end)
        clock.look()
        if clock.let_devices_act(self, end + bridge.began_ns):
            return end
        self.take(host, runtime.scheduler, end)
        return runtime.host_ns

    def host(self) -> OwnHost | None:
        """Return the host of the calling task, if it has one of its own."""
        here = getcurrent()
        return here if isinstance(here, OwnHost) else None

    def take(self, host: OwnHost, scheduler: "Scheduler", end: Nanoseconds) -> None:
        """Let others go on until the turn of *host*, which is at *end*.

        A call goes on to its end. A task that is cancelled meanwhile learns of it when it next awaits something.
        """
        cancelled: asyncio.CancelledError | None = None
        turn = host, scheduler
        scheduler.sequence += 1
        heappush(scheduler.heap, (end, scheduler.sequence, self._come, turn))
        host.has_turn = False
        try:
            while not host.has_turn:
                try:
                    other = self._next()
                    if other is None:
                        host.pause()
                    elif other is not host:
                        self._change(host, other)
                        other.parent = host.parent
                        other.switch()
                except asyncio.CancelledError as error:
                    cancelled = error
        except BaseException:  # of a device, or of an observer: it comes out of the call
            scheduler.forget(turn)
            raise
        if cancelled is not None:
            host.task.uncancel()
            host.task.cancel(*cancelled.args)

    def _come(self, turn: "tuple[OwnHost, Scheduler]") -> None:
        host, scheduler = turn
        host.has_turn = True
        scheduler.woke()
        self.ready.append(host)
        if not self._is_resuming:
            self._is_resuming = True
            host.wake()

    def _next(self) -> OwnHost | None:
        """Return the host whose turn comes next, and goes on now; None if the loop has to turn first."""
        ready, clock = self.ready, self.clock
        if clock.is_trip_due() or not (ready or clock.let_turn_come(self)):
            return None
        host = ready[0]
        if host is not self._own and (host.future is None or host.future.done()):
            return None  # its own task is about to go on
        return ready.popleft()

    def _change(self, old: OwnHost, new: OwnHost) -> None:
        """Let the task of *new* be the current one, and let *new* remember what it knows."""
        new.memory.follow(old.memory)
        _leave_task(old.loop, old.task)
        _enter_task(new.loop, new.task)
        self._running = new

    def resume(self, own: OwnHost, error: BaseException | None) -> Any:
        """Let *own* go on in a step of its task, or raise *error* where it is; let others go on in their turns.

        Returns what the task has to await, or the result of *own*.
        """
        self.clock.trip()
        self._own, self._is_resuming = own, True
        if own.has_turn and own in self.ready:
            self.ready.remove(own)
        host: OwnHost | None = own
        while host is not None:
            awaited = self._run(host, own, error)
            if self._running is own and awaited is not PAUSE:
                return awaited
            if self._running.dead:
                break  # its task ends before others go on, so errors come in the order in which they were raised
            error = None
            try:
                host = self._next()
            except Exception as failed:  # of a device, or of an observer: it comes out of the call
                host, error = own, failed
        self.clock.arm()
        own.future = own.loop.create_future()
        own.future._asyncio_future_blocking = True
        return own.future

    def _run(self, host: OwnHost, own: OwnHost, error: BaseException | None) -> Any:
        """Let *host* go on in a step of the task of *own*; return what that host awaits with which this comes back.

        If it is another one than *own*, its own task does that.
        """
        host.parent = getcurrent()
        if host is not own:
            _leave_task(own.loop, own.task)
            _enter_task(host.loop, host.task)
        host.memory.swap()
        self._running = host
        raised: BaseException | None = None
        awaited: Any = None
        try:
            awaited = host.switch() if error is None else host.throw(error)
        except BaseException as found:
            raised = found
        back = self._running
        back.memory.swap()
        if back is own:
            if raised is not None:
                raise raised
            return awaited
        _leave_task(back.loop, back.task)
        _enter_task(own.loop, own.task)
        if raised is not None or back.dead or awaited is None:
            back.raised, back.result = raised, awaited
            back.wake()
        elif awaited is not PAUSE:
            awaited._asyncio_future_blocking = False
            awaited.add_done_callback(partial(_pass_on, back.future))
        return awaited

    def leave(self) -> None:
        """Let the task of the next host that has its turn go on: the one that has resumed hosts goes to the loop."""
        self._own = None
        self._is_resuming = bool(self.ready)
        if self.ready:
            self.ready[0].wake()


def _pass_on(future: asyncio.Future[None] | None, _: object = None) -> None:
    """Let a task that waits for *future* go on."""
    if future is not None and not future.done():
        future.set_result(None)


@coroutine
def on_own_host(program: Coroutine[Any, Any, T], turns: Turns, memory: Memory) -> Generator[Any, Any, T]:
    """Run *program* on a host of its own, which takes *turns* with others and has a *memory*."""
    task = asyncio.current_task()
    assert task is not None, "a host of its own is that of a task"
    host = OwnHost(program, memory, task)
    if isinstance(program, CoroutineType):
        hosted[task] = program
    error: BaseException | None = None
    while not host.dead:
        try:
            awaited = turns.resume(host, error)
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
