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
import sys
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import contextmanager
from contextvars import Context, copy_context
from heapq import heappush
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Protocol

from acl_py.sites import hosted, make_task, note_task
from acl_py.waiting.host_queues import OwnHost, Queues, Way, current_host
from device_model.completions import Nanoseconds
from device_model.kernel.greenlets import getcurrent, greenlet
from device_model.scheduler import END_NS, check_clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from acl_py.waiting.bridge import Bridge
    from device_model.scheduler import Scheduler

Task = asyncio.Task[Any]
Program = Coroutine[Any, Any, Any]
_Around = Callable[[asyncio.AbstractEventLoop, Task], None]
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


class _Clock(Protocol):
    real_since: float | None
    is_armed: bool

    def arm(self) -> None: ...
    def is_trip_due(self) -> bool: ...
    def trip(self) -> None: ...
    def ring_due(self, now: Nanoseconds) -> None: ...
    def look(self) -> None: ...
    def let_devices_act(self, turns: "Turns", until: Nanoseconds) -> bool: ...
    def let_turn_come(self, turns: "Turns") -> bool: ...


class Turns:
    """Whose turn it is, of the strands of one loop. At any time one task at most resumes strands, or is about to."""

    def __init__(self, clock: _Clock, loop: asyncio.AbstractEventLoop) -> None:
        self.clock = clock
        self.ready: deque[Strand] = deque()  # those that have their turn and were not resumed
        self.queues = Queues(loop)
        self._enter, self._leave = _around_steps()
        self._is_resuming = False
        self._own: Strand | None = None  # the strand of the task that resumes
        self._home: greenlet = getcurrent()  # what that task runs in: strands come back there
        self._running: Strand | None = None  # the strand that runs in the step of that task, or has come back to it

    @contextmanager
    def serving(self, loop: asyncio.AbstractEventLoop) -> "Iterator[None]":
        """Return a block in which tasks that are made on a host are of that host, and its callbacks wait for it."""
        previous = loop.get_task_factory()

        def factory(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> Any:
            context = options.get("context")
            host = current_host.get() if context is None else context.get(current_host)
            if host is None:
                return make_task(previous, loop, coro, options)
            note_task(coro)
            hosting = Hosted(coro, host, self)
            task: Task = make_task(previous, loop, hosting, options)
            if isinstance(coro, CoroutineType):
                hosted[task] = coro
            host.tasks[task] = None
            return task

        loop.set_task_factory(factory)
        try:
            with self.queues.serving():
                yield
        finally:
            loop.set_task_factory(previous)

    def reach(self, bridge: "Bridge", cost: Nanoseconds) -> Nanoseconds | None:
        """Return the host time after a call of *cost*, with all done that others do before that.

        None: the clock has to say it. The caller has no host, or real time passes.
        """
        strand, clock, runtime = getcurrent(), self.clock, bridge.host
        if type(strand) is not Strand or clock.real_since is not None:
            return None
        end = runtime.host_ns + cost
        if not cost:
            return end
        if end > END_NS:
            check_clock(end)
        if not clock.is_armed:
            clock.look()
        scheduler = runtime.scheduler
        has_others = self.ready and scheduler.before_return is None  # then no device acts before them
        if not has_others and clock.let_devices_act(self, end + bridge.began_ns):
            return end
        self.take(strand, scheduler, end)
        clock.ring_due(end + bridge.began_ns)
        return runtime.host_ns

    def strand(self) -> Strand | None:
        """Return the strand of the calling task, if it has a host of its own."""
        here = getcurrent()
        return here if isinstance(here, Strand) else None

    def take(self, strand: Strand, scheduler: "Scheduler", end: Nanoseconds) -> None:
        """Let others go on until the turn of *strand*, which is at *end*.

        A call goes on to its end. A task that is cancelled meanwhile learns of it when it next awaits something.
        """
        cancelled: asyncio.CancelledError | None = None
        turn = strand, scheduler
        scheduler.sequence += 1
        heappush(scheduler.heap, (end, scheduler.sequence, self._come, turn))
        strand.has_turn = False
        try:
            while not strand.has_turn:
                try:
                    other = self._next()
                    if other is None:
                        strand.pause()
                    elif other is not strand:
                        self._change(strand, other)
                        if other.parent is not self._home:
                            other.parent = self._home
                        other.switch()
                except asyncio.CancelledError as error:
                    cancelled = error
        except BaseException:  # of a device, or of an observer: it comes out of the call
            scheduler.forget(turn)
            raise
        if cancelled is not None:
            strand.task.uncancel()
            strand.task.cancel(*cancelled.args)

    def _come(self, turn: "tuple[Strand, Scheduler]") -> None:
        strand, scheduler = turn
        strand.has_turn = True
        scheduler.woke()
        self.ready.append(strand)
        if not self._is_resuming:
            self._is_resuming = True
            strand.wake()

    def _next(self) -> Strand | None:
        """Return the strand whose turn comes next, and goes on now; None if the loop has to turn first."""
        ready, clock = self.ready, self.clock
        if clock.is_trip_due() or not (ready or clock.let_turn_come(self)):
            return None
        strand = ready[0]
        if strand is not self._own and not strand.is_in_loop:
            return None  # its own task is about to go on
        return ready.popleft()

    def _change(self, old: Strand, new: Strand) -> None:
        """Let the task of *new* be the current one, and let *new* remember what it knows."""
        new.host.memory.follow(old.host.memory)
        self._leave(old.loop, old.task)
        self._enter(new.loop, new.task)
        self._running = new

    def resume(self, own: Strand, error: BaseException | None) -> Any:
        """Let *own* go on in a step of its task, or raise *error* where it is; let others go on in their turns.

        Returns what the task has to await, or the result of *own*.
        """
        self.clock.trip()
        self._own, self._is_resuming = own, True
        own.host.begin(own)
        if own.has_turn and own in self.ready:
            self.ready.remove(own)
        strand: Strand | None = own
        while strand is not None:
            awaited = self._run(strand, own, error)
            if self._running is own and awaited is not PAUSE:
                if not own.dead:
                    own.host.release()
                return awaited
            if self._running is not None and self._running.dead:
                break  # its task ends before others go on, so errors come in the order in which they were raised
            error = None
            try:
                strand = self._next()
            except Exception as failed:  # of a device, or of an observer: it comes out of the call
                strand, error = own, failed
        self.clock.arm()
        own.pausing = Pause(own)
        return own.pausing

    def _run(self, strand: Strand, own: Strand, error: BaseException | None) -> Any:
        """Let *strand* go on in a step of the task of *own*; return what that strand awaits with which this comes back.

        If it is another one than *own*, it waits for that in the queue of its host.
        """
        strand.parent = self._home = getcurrent()
        if strand is not own:
            self._leave(own.loop, own.task)
            self._enter(strand.loop, strand.task)
        strand.host.memory.swap()
        self._running = strand
        raised: BaseException | None = None
        awaited: Any = None
        try:
            awaited = strand.switch() if error is None else strand.throw(error)
        except BaseException as found:
            raised = found
        back = self._running
        back.host.memory.swap()
        if back is own:
            if raised is not None:
                raise raised
            return awaited
        self._leave(back.loop, back.task)
        self._enter(own.loop, own.task)
        if back.dead:
            back.raised, back.result = raised, awaited
            back.wake()
        elif awaited is not PAUSE:
            back.suspend(awaited)
        return awaited

    def leave(self) -> None:
        """Let the task of the next strand that has its turn go on: the one that resumed strands goes to the loop."""
        self._own = None
        self._is_resuming = bool(self.ready)
        if self.ready:
            self.ready[0].wake()


def _around_steps() -> tuple[_Around, _Around]:
    """Return what asyncio calls before and after a step of a task, so that this is the current one in between.

    There is no public way to run a step of one task within that of another: eager tasks do so for new ones only.
    """
    try:
        return asyncio.tasks._enter_task, asyncio.tasks._leave_task
    except AttributeError as error:
        version = ".".join(map(str, sys.version_info[:2]))
        raise RuntimeError(
            f"hosts of ranks need asyncio.tasks._enter_task and _leave_task, which Python {version} does not have: use "
            "Python 3.11, 3.12 or 3.13, or ranks() without own_hosts= and fold="
        ) from error


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
