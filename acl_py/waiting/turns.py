"""The turns of strands: whose call is over next, and who lets time pass until then (own_hosts.py)."""

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Collection, Sized
from functools import partial
from heapq import heappush
from typing import TYPE_CHECKING, Any, Protocol

from acl_py.waiting.host_queues import Queues
from acl_py.waiting.strands import PAUSE, Pause, Strand
from device_model.completions import Nanoseconds
from device_model.kernel.greenlets import getcurrent, greenlet
from device_model.scheduler import END_NS, check_clock

if TYPE_CHECKING:
    from acl_py.waiting.bridge import Bridge
    from device_model.scheduler import Scheduler

_Change = Callable[[asyncio.AbstractEventLoop, asyncio.Task[Any]], object]


class _Timers(Protocol):
    @property
    def heap(self) -> Sized: ...  # empty if none is set
    @property
    def first_ns(self) -> float: ...


class _Clock(Protocol):
    real_since: float | None
    is_armed: bool
    ready: Collection[Any] | None

    @property
    def timers(self) -> _Timers: ...
    def arm(self) -> None: ...
    def is_trip_due(self) -> bool: ...
    def trip(self) -> None: ...
    def ring_due(self, now: Nanoseconds) -> None: ...
    def look(self) -> None: ...
    def let_turn_come(self, turns: "Turns") -> bool: ...


class Turns:
    """Whose turn it is, of the strands of one loop. At any time one task at most resumes strands, or is about to."""

    def __init__(self, clock: _Clock, loop: asyncio.AbstractEventLoop) -> None:
        assert clock.ready is not None, f"{clock!r} does not see what its loop can run"
        self.clock = clock
        self._in_loop: Collection[Any] = clock.ready  # what the loop can run
        self._timers = clock.timers.heap  # empty if none is set
        self.ready: deque[Strand] = deque()  # those that have their turn and were not resumed
        self.queues = Queues(loop)
        self._change = partial(current_task_changer(), loop)
        self._at_turn = self._come  # bound once
        self._is_resuming = False
        self._own: Strand | None = None  # the strand of the task that resumes
        self._home: greenlet = getcurrent()  # what that task runs in: strands come back there
        self._running: Strand | None = None  # the strand that runs in the step of that task, or has come back to it

    def reach(self, bridge: "Bridge", cost: Nanoseconds) -> Nanoseconds | None:
        """Return the host time after a call of *cost*, with all done that others do before that.

        None: the clock has to say it. The caller has no host, or real time passes.
        """
        strand, clock, host = getcurrent(), self.clock, bridge.host
        if type(strand) is not Strand or clock.real_since is not None:
            return None
        end = host.host_ns + cost
        if not cost:
            return end
        if end > END_NS:
            check_clock(end)
        if not clock.is_armed:
            clock.look()
        scheduler = host.scheduler
        # If others have their turn, no device acts before them.
        if (not self.ready or scheduler.before_return is not None) and self.let_device_act(bridge, end):
            return end
        self.take(strand, scheduler, end)
        if self._timers:
            clock.ring_due(end + bridge.began_ns)
        return host.host_ns

    def let_device_act(self, bridge: "Bridge", last: float) -> bool:
        """Let the device of *bridge*, the only one, act up to *last*, as long as no host can run.

        Returns whether it is there.
        """
        host, hosts, timers = bridge.host, self.ready, self._timers
        scheduler = host.scheduler
        heap = scheduler.heap
        try:
            while not hosts:
                if len(self._in_loop) > self.clock.is_armed or (timers and self._first_timer(bridge) < last):
                    return False
                if not heap or heap[0][0] > last:
                    return not timers or self._first_timer(bridge) > last
                scheduler.step()
            return False
        finally:
            if scheduler.before_return is not None:
                scheduler.before_return()
                scheduler.settle()
            if scheduler.now > host.host_ns:
                host.host_ns = scheduler.now

    def _first_timer(self, bridge: "Bridge") -> float:
        """Return when the first timer rings, in the time of *bridge*."""
        return self.clock.timers.first_ns - bridge.began_ns

    def strand(self) -> Strand | None:
        """Return the strand of the calling task, if it has a host of its own."""
        here = getcurrent()
        return here if isinstance(here, Strand) else None

    def take(self, strand: Strand, scheduler: "Scheduler", end: Nanoseconds) -> None:
        """Let others go on until the turn of *strand*, which is at *end*.

        A call goes on to its end. A task that is cancelled meanwhile learns of it when it next awaits something.
        """
        cancelled: asyncio.CancelledError | None = None
        ready = self.ready
        scheduler.sequence += 1
        heappush(scheduler.heap, (end, scheduler.sequence, self._at_turn, strand))
        strand.scheduler, strand.has_turn = scheduler, False
        try:
            while not strand.has_turn:
                try:
                    other = ready.popleft() if ready and ready[0].is_in_loop else self._next()
                    if other is None:
                        strand.pause()
                    elif other is not strand:
                        # Its task becomes the current one, and its host remembers what it knows.
                        other.host.memory.follow(strand.host.memory)
                        self._change(other.task)
                        self._running = other
                        if other.parent is not self._home:
                            other.parent = self._home
                        other.switch()
                except asyncio.CancelledError as error:
                    cancelled = error
        except BaseException:  # of a device, or of an observer: it comes out of the call
            scheduler.forget(strand)
            raise
        if cancelled is not None:
            strand.task.uncancel()
            strand.task.cancel(*cancelled.args)

    def _come(self, strand: Strand) -> None:
        strand.has_turn = True
        strand.scheduler.wake.done = True  # woke(), written out
        self.ready.append(strand)
        if not self._is_resuming:
            self._is_resuming = True
            strand.wake()

    def _next(self) -> Strand | None:
        """Return the strand whose turn comes next, and goes on now; None if the loop has to turn first."""
        ready = self.ready
        if not ready and (self.clock.is_trip_due() or not self.clock.let_turn_come(self)):
            return None
        strand = ready[0]
        if strand is not self._own and not strand.is_in_loop:
            return None  # its own task is about to go on
        return ready.popleft()

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
            self._change(strand.task)
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
        self._change(own.task)
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


def current_task_changer() -> _Change:
    """Return what makes a task the current one of its loop, in the middle of a step of another one.

    There is no public way: eager tasks do so for new ones only.
    """
    tasks: Any = asyncio.tasks
    has_swap = sys.version_info[:2] >= (3, 12)
    try:
        change: _Change = tasks._swap_current_task if has_swap else tasks._current_tasks.__setitem__
    except AttributeError as error:
        version = ".".join(map(str, sys.version_info[:2]))
        raise RuntimeError(
            f"hosts of ranks need to change the current task of asyncio, which Python {version} does not allow: use "
            "Python 3.11, 3.12 or 3.13, or ranks() without own_hosts= and fold="
        ) from error
    return change
