"""A loop with simulated time: its clock is the host clock, and timers and devices take their turns on it.

`asyncio.sleep`, `asyncio.timeout` and everything else that sets a timer with `call_at` or `call_later` work on such a
loop without a change. A `Clock` takes the place of the loop's own `time`, `call_at` and `call_later`. It is the loop's
`Gate`, too: once no task can run, it lets time pass to what comes first.

* **Next is the earliest event of a device or the first timer.** At one instant all that the device completes comes
  first, then the timers, in the order in which they were set. Timers are kept by whole nanoseconds, so two that are set
  for one instant do not change places by a rounding error.
* **A call takes the clock along.** Where the cost of a call takes the host past a timer, the timer is ready from then
  on, and its callback runs when the calling task suspends. The runtime compares one number for that, its horizon.
* **Simulations in one loop share the clock.** What a call costs in one of them passes in the others, too.
* **The outside takes real time.** If only a timer is left, and a descriptor, a thread or a child process may still act,
  the loop waits, and the clock moves with the real time that passes. The same holds for timers while a task holds time.
"""

import asyncio
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import Context
from heapq import heapify, heappop, heappush
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from acl_py import schedules
from acl_py.waiting import deadlocks
from acl_py.waiting.bridge import Bridge, Gate, has_simulations
from acl_py.waiting.browser import IN_BROWSER, BrowserLoop
from acl_py.waiting.loops import CLOCK, call_in_real_time
from acl_py.waiting.ready import ReadyTasks
from acl_py.waiting.standstill import Standstill
from device_model.completions import Nanoseconds
from device_model.scheduler import END_NS

if TYPE_CHECKING:
    from acl_py.waiting.turns import Turns

NS = 1_000_000_000  # of a second
_END_S = END_NS / NS
TICK_S = 0.01  # the longest real time between two looks while the loop waits for the outside

T = TypeVar("T")
_NO_HOST = (
    "while ranks have hosts of their own, a task has made a call that no rank has made: let each rank make its calls "
    "in its own task, or in tasks that it creates, and make other calls before or after ranks()"
)
_METHODS = ("time", "call_at", "call_later", "run_in_executor")  # of a loop, which its clock takes over
_RUN_ONCE = getattr(getattr(asyncio.BaseEventLoop, "_run_once", None), "__code__", None)


def whole_ns(seconds: float) -> float:
    """Return *seconds* in whole nanoseconds; infinity if simulated time ends before that.

    The fraction of a second is exact, so that only its product is rounded. So a time that was computed as
    `loop.time() + delay` comes out to the nanosecond for the first 26 days (2**51 ns), and later to the resolution of a
    float.
    """
    if seconds > _END_S:
        return inf
    whole = seconds // 1
    return int(whole) * NS + round((seconds - whole) * NS)


class Timers:
    """The timers of a loop in the order in which they ring: by whole nanoseconds, then in the order of setting.

    A cancelled timer stays until its turn comes, or until the heap has grown to twice its size.
    """

    def __init__(self) -> None:
        self.heap: list[tuple[Nanoseconds, int, asyncio.TimerHandle]] = []
        self._sequence = 0
        self._room = 100

    def add(self, ns: Nanoseconds, timer: asyncio.TimerHandle) -> None:
        """Let *timer* ring at *ns*."""
        if len(self.heap) >= self._room:
            self.heap[:] = [entry for entry in self.heap if not entry[2].cancelled()]
            heapify(self.heap)
            self._room = 100 + 2 * len(self.heap)
        self._sequence += 1
        heappush(self.heap, (ns, self._sequence, timer))

    @property
    def first_ns(self) -> float:
        """When the first timer rings; infinity if there is none."""
        heap = self.heap
        while heap and heap[0][2]._cancelled:  # the method takes half of the time
            heappop(heap)
        return heap[0][0] if heap else inf

    def take(self, until: float = inf) -> Iterator[tuple[Nanoseconds, asyncio.TimerHandle]]:
        """Remove the timers that ring at *until* or before, one by one, and yield each with its time.

        The caller may set and cancel timers meanwhile.
        """
        while self.heap and self.heap[0][0] <= until:
            ns, _, timer = heappop(self.heap)
            if not timer._cancelled:
                yield ns, timer


class Clock(Gate):
    """The simulated time of one loop, and the gate of its simulations.

    It begins at 0 with a new loop. A loop that runs already is *borrowed*: its time goes on from where it is, and it is
    given back when its last simulation has ended.
    """

    is_needed = True  # devices go on also if no task waits for them, until the loop is given back
    is_shared = True

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        if self.ready is None or not _has_plain_time(loop):
            raise RuntimeError(f"the time of {loop!r} cannot be simulated: use an event loop of asyncio or of uvloop")
        self._loop = loop  # its attribute is this clock, so it is not kept any longer than the clock is
        self._is_borrowed = loop.is_running()
        self.witness = self.ready
        self.timers = Timers()
        self._schedule = schedules.current()
        self._now_ns: Nanoseconds = int(whole_ns(loop.time())) if self._is_borrowed else 0  # where it was set last
        self.real_since: float | None = None  # the real time from which on the clock moves with it
        self._noted = 0.0  # the real time up to which it has
        self._alarm: asyncio.TimerHandle | None = None  # ends such a wait
        self._resting = False  # nothing can happen before a task makes a call or sets a timer
        self._horizon_ns: float = -1  # a call that takes the clock here or beyond asks the clock; it may be too low
        self._rung_s = 0.0  # the latest time for which a timer was set that has rung
        self._jobs = 0  # of executors
        self._own_hosts = 0  # blocks in which each task that makes calls has a host of its own
        self._turns_of_hosts: Turns | None = None
        self._standstill = Standstill(self)
        # asyncio can run one handle again and again, which is cheaper than a new one for each look or timer.
        self._queue: deque[asyncio.Handle] = getattr(loop, "_ready", deque())
        self._handle = None
        if isinstance(loop, asyncio.BaseEventLoop):
            self._handle = asyncio.Handle(self._look, (), loop, self._context)
        vars(loop).update(self._attributes(loop))
        if not self._is_borrowed:  # what is there before any task of the loop
            loop.call_soon(self.vigil.begin, loop, context=self._context)
        self._look_next_turn()

    def _attributes(self, loop: asyncio.AbstractEventLoop) -> dict[str, Any]:
        """What the loop has of the clock."""
        attributes = {CLOCK: self} | {name: getattr(self, name) for name in _METHODS}
        if not isinstance(loop, asyncio.BaseEventLoop):  # uvloop has timers of its own, and does not know asyncio's
            attributes["_timer_handle_cancelled"] = _do_nothing
        return attributes

    def _give_back(self) -> None:
        """Let the loop have its own time again: from now on, if it is behind now, so that it never goes back.

        Timers that have not rung take real time from now on.
        """
        self.is_needed = False
        self.vigil.rest()
        loop, now = self._loop, self._now_ns
        for name in (CLOCK, *_METHODS):  # timers that are left may still be cancelled
            delattr(loop, name)
        ahead_s = now / NS - type(loop).time(loop)
        if ahead_s > 0:
            _put_forward(loop, ahead_s)
        for ns, timer in self.timers.take():
            loop.call_later((ns - now) / NS, _run_timer, timer, context=self._context)

    # --- what the loop's users call

    @property
    def now_ns(self) -> Nanoseconds:
        """The time of the clock."""
        now = self._now_ns
        for bridge in self.bridges:  # no max() of a generator: every timer asks
            now_there = bridge.began_ns + bridge.host.host_ns
            if now_there > now:
                now = now_there
        return now

    def time(self) -> float:
        """Return the time in seconds; the loop itself gets the real time, for its timers in real time."""
        if sys._getframe(1).f_code is _RUN_ONCE:
            return time.monotonic()
        if self.real_since is not None:
            self.note_real_time()
        # A timer that was set for a fraction of a nanosecond later has rung all the same, and its callback may check.
        return max(self.now_ns / NS, self._rung_s)

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call *callback* with *args* when *delay* seconds have passed."""
        if delay is None:
            raise TypeError("delay must not be None")
        if self.real_since is not None:
            self.note_real_time()
        now = self.now_ns
        ns = now + whole_ns(delay)
        return self._call(now, ns, ns / NS, callback, args, context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call *callback* with *args* at the time *when*, in seconds."""
        if when is None:
            raise TypeError("when cannot be None")
        if self.real_since is not None:
            self.note_real_time()
        return self._call(self.now_ns, whole_ns(when), when, callback, args, context)

    def run_in_executor(self, executor: Any, function: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        """Run *function* in a thread or process of *executor*, and count it as outside until its result is there."""
        loop = self._loop
        future: asyncio.Future[T] = type(loop).run_in_executor(loop, executor, function, *args)
        self._jobs += 1
        future.add_done_callback(self._end_job)
        return future

    def _end_job(self, _: asyncio.Future[Any]) -> None:
        self._jobs -= 1

    def _call(
        self,
        now: Nanoseconds,
        ns: float,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
    ) -> asyncio.TimerHandle:
        loop = self._loop
        if loop.is_closed():
            raise RuntimeError("Event loop is closed")
        if loop.get_debug() and isinstance(loop, asyncio.BaseEventLoop):
            loop._check_thread()  # type: ignore[attr-defined]
            loop._check_callback(callback, "call_at")  # type: ignore[attr-defined]
        timer = asyncio.TimerHandle(when, callback, args, loop, context)
        if self._schedule is not None and ns > now:
            ns += self._schedule.choices.host_lateness()
        if ns <= now:
            self._make_ready(timer)
        elif ns <= END_NS:  # else it never rings
            self.timers.add(int(ns), timer)
            self.arm()
            if ns < self._horizon_ns:
                self._set_horizons()
        return timer

    # --- what the bridges call

    def enter(self, bridge: Bridge, loop: asyncio.AbstractEventLoop) -> None:
        """Let *bridge* take part; what was there before its simulation is of the same program."""
        self.note_real_time()
        super().enter(bridge, loop)
        bridge.began_ns = self.now_ns - bridge.host.host_ns
        self._set_horizons()
        if not self.is_armed:
            self._look_next_turn()

    def discard(self, bridge: Bridge) -> None:
        """Note that the runtime of *bridge* has ended; the clock goes on from here."""
        self.note_real_time()
        self._now_ns = self.now_ns
        super().discard(bridge)
        bridge.host.horizon_ns = END_NS + 1
        if self._is_borrowed and not self.bridges:
            self._give_back()

    def reach(self, bridge: Bridge, cost: Nanoseconds) -> Nanoseconds:
        """Let *cost* pass for all simulations of the loop; timers that are due meanwhile ring."""
        self.note_real_time()
        goal = self.now_ns + cost
        if not self.is_armed:
            self._look_next_turn()
        turns = self._turns_of_hosts
        if self._own_hosts and turns is not None:
            self._reach_on_own_host(bridge, turns, goal)
            return bridge.host.host_ns
        self._set(goal)
        while True:
            until = min(self.timers.first_ns, goal)
            while (earliest := self._first_device(until)) is not None:
                device, bound = earliest
                if device is bridge:
                    device.host.scheduler.advance(int(bound))
                else:
                    device.jump(bound)
            if self.timers.first_ns > goal:
                break
            self._ring(until)
        self._set_horizons()
        return bridge.host.host_ns

    @contextmanager
    def own_hosts(self) -> "Iterator[Turns]":
        """Return a block in which all calls are made by tasks that have a host each, and its turns (own_hosts.py)."""
        from acl_py.waiting.own_hosts import serving  # imported here: few programs need greenlets
        from acl_py.waiting.turns import Turns

        if self._turns_of_hosts is None:
            self._turns_of_hosts = Turns(self, self._loop)
        turns = self._turns_of_hosts
        self._own_hosts += 1
        self._set_horizons()
        try:
            with nullcontext() if self._own_hosts > 1 else serving(turns, self._loop):
                yield turns
        finally:
            self._own_hosts -= 1
            self._set_horizons()

    def _reach_on_own_host(self, bridge: Bridge, turns: "Turns", goal: Nanoseconds) -> None:
        """Let the clock go on to *goal*, while all other hosts do what they do before that."""
        if goal == self.now_ns:
            return
        strand = turns.strand()
        if strand is None:
            raise RuntimeError(_NO_HOST)
        if self.let_devices_act(turns, goal):
            self._set(goal)
        else:
            turns.take(strand, bridge.host.scheduler, goal - bridge.began_ns)
            self.ring_due(goal)

    def look(self) -> None:
        """Look at the next turn of the loop whether time can pass."""
        if not self.is_armed:
            self._look_next_turn()

    def let_turn_come(self, turns: "Turns") -> bool:
        """Let time pass to the next turn of a host; return False if the loop has to turn first."""
        if self.holders or self.another_can_run():
            return False
        self.let_devices_act(turns, self.timers.first_ns)
        return bool(turns.ready)

    def let_devices_act(self, turns: "Turns", until: float) -> bool:
        """Let devices act up to *until*, as long as no host can run; return whether they are there."""
        if len(self.bridges) > 1:
            return self._let_several_act(turns, until)
        [bridge] = self.bridges
        return turns.let_device_act(bridge, until - bridge.began_ns)

    def _let_several_act(self, turns: "Turns", until: float) -> bool:
        """Do the same where the devices of several simulations take turns."""
        while not turns.ready and not self.another_can_run() and self.timers.first_ns >= until:
            earliest = self._first_device(until)
            if earliest is None:
                return self.timers.first_ns > until
            device, bound = earliest
            device.jump(bound)
        return False

    def catch_up(self, bridge: Bridge) -> None:
        """Take the clock to where the device of *bridge* has taken its host."""
        now = bridge.began_ns + bridge.host.host_ns
        self._set(now)
        self._ring(now)

    @property
    def has_timers(self) -> bool:
        """Whether a timer may still ring."""
        return self.timers.first_ns < inf

    # --- letting time pass

    def _look_next_turn(self) -> None:
        if self._handle is None:
            super()._look_next_turn()
        else:
            self.is_armed = True
            self._queue.append(self._handle)
        self._resting = False

    def _is_quiet(self) -> bool:
        """Whether no task can run. One look is enough if the loop listens to nothing from which it may hear."""
        if self.another_can_run():
            self._quiet = 0
            return False
        self._quiet += 1
        return self._quiet >= self.needed or not self.vigil.outside.must_poll(self._loop)

    def _let_time_pass(self, spinning: bool) -> None:
        is_waiting = self.real_since is not None
        if is_waiting:
            self._take_up_real_time()
        first = self.timers.first_ns
        if not self.holders and (earliest := self._first_device(first)) is not None:
            if self._run_devices(earliest):
                self._time_has_passed(spinning)
                return
            first = self.timers.first_ns
        now = self.now_ns
        if first == inf:
            self._rest(spinning)
        elif first > now and (self.holders or self._jobs > 0 or self.vigil.outside.is_pending(self._loop)):
            self._wait_for_real(spinning)
            self.real_since = self._noted if is_waiting else time.monotonic()
            self._set_horizons()
        elif not spinning and self.another_can_run():  # a thread that is idle by now has called before that
            self._look_next_turn()
        else:
            self._set(max(int(first), now))
            try:
                self._run_timers(first)
            finally:  # SystemExit and KeyboardInterrupt come out of a callback
                self._time_has_passed(spinning)

    def _run_devices(self, earliest: tuple[Bridge, float] | None) -> bool:
        """Run the devices up to the first timer, until something can run; return whether it can, or may after a turn.

        Of the devices of several simulations the one with the *earliest* event runs, up to the next event of another.
        """
        size = len(self.witness)
        while earliest is not None:
            bridge, bound = earliest
            bridge.jump(bound)
            if len(self.witness) > size or bridge.host.scheduler.next_ns <= bound:  # the latter: its budget is spent
                return True
            earliest = self._first_device(self.timers.first_ns)
        return False

    def _first_device(self, limit: float) -> tuple[Bridge, float] | None:
        """Return the bridge whose device has the earliest event, and the time of its host up to which it may run.

        None if there is no event up to *limit*.
        """
        first, first_ns, bound = None, inf, limit
        for bridge in self.bridges:
            at = bridge.began_ns + bridge.host.scheduler.next_ns
            if at < first_ns:
                first, first_ns, at = bridge, at, first_ns
            bound = min(bound, at)
        return None if first is None or first_ns > limit else (first, bound - first.began_ns)

    def _wait_for_real(self, spinning: bool) -> None:
        """Let the loop wait for the outside, but not beyond the first timer."""
        if self.waiting and not self.vigil.is_watching:
            self._keep_vigil(spinning)
        delay_s = min((self.timers.first_ns - self.now_ns) / NS, TICK_S)
        self._alarm = call_in_real_time(self._loop, delay_s, self._look_again, self._context)

    def note_real_time(self) -> None:
        """Take up the real time that has passed while the loop waited for the outside, if it did, and look again."""
        if self.real_since is not None:
            self._take_up_real_time()
            if not self.is_armed:
                self._look_next_turn()

    def _take_up_real_time(self) -> None:
        """Let the clock stand from now on, where the real time has taken it, but no later than at the first timer."""
        assert self.real_since is not None, f"{self!r} does not wait for the outside"
        self._noted = time.monotonic()
        real = self.now_ns + round((self._noted - self.real_since) * NS)
        self.real_since = None
        if self._alarm is not None:
            self._alarm.cancel()
        self._set(int(min(real, self.timers.first_ns)))

    def _rest(self, spinning: bool) -> None:
        """Wait until a task makes a call or sets a timer, because no time can pass before that."""
        self._resting = True
        self._set_horizons()
        if self.waiting:
            self._keep_vigil(spinning)
        else:
            spinner, job = ["a task that spins on sleep(0)"] * spinning, ["a job of an executor"] * bool(self._jobs)
            self._standstill.keep(spinner + job)

    @property
    def patience_s(self) -> float:
        """The real seconds that tasks may wait for one another while only the outside can end that."""
        return min((bridge.patience_s for bridge in self.bridges), default=inf)

    # --- the time

    def _set(self, now_ns: Nanoseconds) -> None:
        self._now_ns = now_ns
        for bridge in self.bridges:
            bridge.host.host_ns = now_ns - bridge.began_ns

    def _set_horizons(self) -> None:
        """Let calls up to the first timer pass without asking the clock.

        Called when an earlier timer is set or every call has to ask, and by calls that have asked. In between the
        horizon may be too low, and never too high.
        """
        asks_always = self._resting or self.real_since is not None or len(self.bridges) > 1 or self._own_hosts > 0
        self._horizon_ns = -1 if asks_always else min(self.timers.first_ns, END_NS + 1)
        turns = self._turns_of_hosts if self._own_hosts and len(self.bridges) == 1 else None
        for bridge in self.bridges:
            bridge.host.horizon_ns = self._horizon_ns - bridge.began_ns
            bridge.turns = turns

    def _ring(self, until: float) -> None:
        """Let the callbacks of all timers run that are due at *until* or before."""
        for _, timer in self.timers.take(until):
            self._make_ready(timer)

    def ring_due(self, now: Nanoseconds) -> None:
        """Let timers ring that are due at *now*, the end of a call: they are ready when the calling task suspends."""
        if self.timers.first_ns <= now:
            self._ring(now)

    def _run_timers(self, until: float) -> None:
        """Run the callbacks of all timers that are due at *until* or before, now that no task can run.

        That saves a turn of the loop. In debug mode the loop runs them, because it reports which callbacks are slow;
        with several hosts each of them runs its own.
        """
        if self._loop.get_debug() or self._own_hosts:
            self._ring(until)
            return
        for _, timer in self.timers.take(until):
            when: float = timer._when  # type: ignore[attr-defined]
            if when > self._rung_s:
                self._rung_s = when
            timer._run()

    def _make_ready(self, timer: asyncio.TimerHandle) -> None:
        self._rung_s = max(self._rung_s, timer.when())
        if self._own_hosts and self._turns_of_hosts is not None and self._turns_of_hosts.queues.takes(timer):
            return
        if self._handle is not None:
            self._queue.append(timer)
        else:
            self._loop.call_soon(_run_timer, timer, context=self._context)


def _run_timer(timer: asyncio.TimerHandle) -> None:
    if not timer.cancelled():
        timer._run()


def _do_nothing(_: asyncio.TimerHandle) -> None:
    """Stand for what asyncio's own loops do with a cancelled timer."""


def _leave_to_the_loop(_: Exception) -> None:
    """Do nothing: a loop without a selector raises the error itself."""


def _has_plain_time(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether the methods of *loop* that have to do with time are those of asyncio or of uvloop."""
    kind = type(loop)
    own = vars(loop).get("time")
    if own is not None and getattr(own, "__module__", None) != __name__:
        return False
    if isinstance(loop, asyncio.BaseEventLoop):
        base = asyncio.BaseEventLoop
        return kind.time is base.time and kind.call_at is base.call_at and kind.call_later is base.call_later
    return kind.__module__.split(".")[0] == "uvloop"


def _put_forward(loop: asyncio.AbstractEventLoop, ahead_s: float) -> None:
    """Let the time of *loop* be ahead of its class's; its timers ring at the same real time as before."""
    kind = type(loop)

    def time() -> float:
        own = kind.time(loop)
        return own if sys._getframe(1).f_code is _RUN_ONCE else own + ahead_s

    def call_at(
        when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return kind.call_at(loop, when - ahead_s, callback, *args, context=context)

    vars(loop)["time"] = time
    if isinstance(loop, asyncio.BaseEventLoop):  # uvloop computes a delay from its time()
        vars(loop)["call_at"] = call_at


def borrow(loop: asyncio.AbstractEventLoop) -> None:
    """Simulate the time of a running *loop* until its last simulation has ended.

    Timers that are set already keep their real time.

    Raises:
        RuntimeError: The loop is not one of asyncio or uvloop, or a simulation with a real clock runs in it.
    """
    if has_simulations(loop):
        raise RuntimeError(
            "clock='simulated' in an event loop in which a simulation with a real clock runs: end that one before, "
            "or leave clock out"
        )
    Clock(loop)


def new_event_loop(*, uvloop: bool = False) -> asyncio.AbstractEventLoop:
    """Return a new event loop whose time is simulated and begins at 0.

    It is a loop factory for asyncio.Runner, anyio.run and pytest-asyncio. Simulations that begin in the loop share its
    clock, and asyncio's timers ring on it.

        with asyncio.Runner(loop_factory=acl_py.new_event_loop) as runner:
            runner.run(main())

    Args:
        uvloop: Whether the loop is one of uvloop, which must be installed.

    Raises:
        RuntimeError: uvloop is not installed.
    """
    schedule = schedules.current()
    if uvloop and schedule is None:
        loop = uvloop_loop()
    else:
        loop = BrowserLoop(lambda: deadlocks.of_tasks(clock.callers)) if IN_BROWSER else asyncio.SelectorEventLoop()
    if schedule is not None:  # uvloop runs ready tasks in an order of its own, which nobody can choose
        vars(loop)["_ready"] = ReadyTasks(schedule)
    clock = Clock(loop)
    if IN_BROWSER:
        clock.on_deadlock = _leave_to_the_loop
    return loop


def uvloop_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop of uvloop, in real time.

    Raises:
        RuntimeError: uvloop is not installed.
    """
    try:
        import uvloop
    except ImportError as error:
        raise RuntimeError("uvloop is not installed on this platform; leave out uvloop=True") from error
    return uvloop.new_event_loop()
