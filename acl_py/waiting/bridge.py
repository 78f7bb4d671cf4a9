"""Where simulated time meets the event loop: a device may run past the host clock once no host task can run.

**No task can run exactly when the loop's own ready queue holds nothing but our look at it.** While a task waits for a
device, a `Gate` puts one callback, its *look*, into the queue of the loop, once a turn. A look that finds the queue
empty is followed by another look, so that the loop polls its sockets and timers in between. A byte that one task wrote
to another through a socket may still be on its way. After two empty looks, every device jumps to its next completion
that wakes a task.

Simpler tests fail:

* A scan of the tasks sees nothing between the end of a child task and the wake-up of its parent. No task can run there,
  and yet the program goes on. Each level of `gather` or `call_soon` is such a turn.
* Waiting for a number of quiet turns only moves that limit.
* A count of the tasks that are inside the runtime misses tasks that wait for one another.

If the caller is the only task, no other task can act, and the device runs in place, without a trip through the loop.
That cannot change a simulated time. Every 10 ms of real time a trip is made all the same; without it timers in real
time and Ctrl-C would starve.

What the outside world does (sockets, threads, timers in real time) takes no simulated time, and simulated time does not
wait for it, except inside `Bridge.hold`. Where the loop's own time is simulated, the gate is a `Clock` (clock.py).
`acl_py.waiting.hang` decides whether anything outside could still end a wait for which nothing is scheduled.
"""

import asyncio
import time
import warnings
from collections.abc import Callable, Collection, Generator, Sized
from contextlib import AbstractContextManager
from contextvars import Context
from math import inf
from types import coroutine
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar
from weakref import WeakKeyDictionary, ref

from acl_py.callers import Callers
from acl_py.errors import DeadlockError
from acl_py.waiting import deadlocks
from acl_py.waiting.hang import LOOK_S, Vigil
from acl_py.waiting.interrupts import admit, guard, held, when_held
from acl_py.waiting.loops import CLOCK, holder
from acl_py.waiting.real_timers import TimerWatch
from acl_py.waiting.threads import GRACE_S, is_hopeless
from device_model.completions import Completion, Nanoseconds
from device_model.errors import INTERRUPTS
from device_model.scheduler import END_NS, Scheduler, check_clock

if TYPE_CHECKING:
    from acl_py.waiting.turns import Turns

BUDGET = 50_000  # instants in one go; then the loop turns, so that a long jump does not block it
EMPTY_LOOKS = 2
EMPTY_LOOKS_BLIND = 10  # where the loop does not show its queue and the tasks are scanned instead
SPIN_TURNS = 10_000  # turns without a call while a task can run: `while not flag: await sleep(0)`
POLL_CHECK = 5_000  # fruitless queries, with nothing scheduled, until the next look whether anything can help
LAST_LOOKS = 20  # turns after the last wait for a device in which tasks that wait for one another are looked for
TRIP_S = 0.010  # the longest time without a trip through the loop

Waiting = Any  # the host's record of one wait: the bridge hands it back and never looks inside
Task = asyncio.Task[Any]
P = ParamSpec("P")
T = TypeVar("T")


class Host(Protocol):
    """What the bridge sees of a runtime."""

    host_ns: Nanoseconds
    # A call that takes the host clock here or beyond asks `Bridge.reach` for the time after it.
    horizon_ns: float

    @property
    def scheduler(self) -> Scheduler:
        """The device's clock and heap."""

    @property
    def waiters(self) -> dict[asyncio.Future[None], Waiting]:
        """The waits by their futures, in order of arrival; the bridge enters and removes them."""

    @property
    def hang_after(self) -> float | None:
        """Real seconds after which a wait that only the outside could end is a hang; None: never."""

    @property
    def callers(self) -> Callers:
        """What messages call tasks and threads."""

    def describe_hang(self) -> str:
        """Say what each waiter waits for."""

    def end_hangs(self) -> bool:
        """End what runs on a device and can never end by itself, as a failure; return whether there was any."""

    def deadlock(self, waiting: Waiting) -> Exception:
        """Return a new error for one wait; *waiting* is None for a poll that gave no record of itself."""


class Bridge:
    """How the tasks of one runtime wait. It is made inside a running loop and works in any later one, too.

    A runtime belongs to a loop only while it has waiters.
    """

    def __init__(self, host: Host, *, warns_of_timers: bool = False) -> None:
        self.host = host
        self.warns_of_timers = warns_of_timers  # if they are short and in real time: once, while a task waits
        self.began_ns: Nanoseconds = 0  # the time of the loop's clock, if that is simulated, when the host's was 0
        self.turns: Turns | None = None  # of the hosts of its tasks, if it is the only bridge of those
        self._fruitless = 0  # queries in a row that could not have been answered otherwise
        self._polling_since = 0.0
        self._was_hopeless = False  # at the last check of these queries
        self._errors: dict[asyncio.Future[None], BaseException] = {}  # what waiters are to raise when they go on
        # The waits of coroutines that were collected: a wait may be the last that has its task, and a task must not
        # end while its coroutine still runs.
        self._collected: list[Waiting] = []
        guard()
        loop = asyncio.get_running_loop()
        self._gate = _gate_of(loop)
        self._gate.enter(self, loop)

    def __repr__(self) -> str:
        return f"<Bridge waiting={len(self.host.waiters)} {self._gate!r}>"

    def close(self) -> None:
        """End the runtime. Tasks that still wait are woken as before, since nothing else would wake them."""
        self._gate.discard(self)

    def reach(self, cost: Nanoseconds) -> Nanoseconds:
        """Return the host time after a call of *cost*, which is beyond the horizon. That is the horizon of simulated
        time, or of the time up to which a call concerns no timer and no other simulation. The caller still brings its
        device there.
        """
        if self.turns is not None and (reached := self.turns.reach(self, cost)) is not None:
            return reached
        check_clock(self.host.host_ns + cost)
        return self._here().reach(self, cost)

    def note_real_time(self) -> None:
        """Bring the host clock up to the present, after the loop has waited for the outside."""
        self._gate.note_real_time()

    def arm(self) -> None:
        """Look again, since a call was made while other tasks wait; the look comes once the caller suspends."""
        self._here().arm()

    async def wait(self, completion: Completion, waiting: Callable[[], Waiting]) -> None:
        """Suspend until *completion* is done, with the host clock then not before it; the wake-up cost is the caller's.
        *waiting* makes the record of the wait, unless the device runs in place.

        Raises what `Host.deadlock` makes if nothing can ever complete it, and what went wrong while the device ran.

        A coroutine that is collected, or closed, while it waits gets GeneratorExit here. Python collects in the middle
        of any code, also while it parses some, and what is raised then goes to sys.unraisablehook, which may parse the
        lines of a traceback. CPython 3.11 answers with SystemError. So verbs that are left by GeneratorExit tell no
        observer, make no error and call no loop; they only leave the lists of those who wait.
        """
        if completion.done:
            await self.breathe()
            return
        gate, host = self._here(), self.host
        if gate.holders:
            gate.refuse_holder()
        if gate.short_timers:
            gate.timer_watch.check(self)
        if not host.waiters and gate.alone() and not gate.is_trip_due() and self._run_in_place(completion):
            return
        future: asyncio.Future[None] = gate.loop.create_future()  # one for each waiter: a future has one owner

        def wake() -> bool:
            if future.done() or future.get_loop().is_closed():  # cancelled, or of a loop that is closed
                return False
            future.set_result(None)
            return True

        host.scheduler.watch(completion, wake)
        record = host.waiters[future] = waiting()
        gate.waiting[self] = None
        gate.arm()
        try:
            await future
        except GeneratorExit:
            self._errors.pop(future, None)
            self._collected.append(record)
            raise
        finally:  # a cancelled waiter leaves; the device's work stays
            gate.trip()
            host.waiters.pop(future, None)
            if not host.waiters:
                gate.leave(self)
            error = self._errors.pop(future, None)
            if error is not None:
                raise error

    async def breathe(self) -> None:
        """Let other tasks, if any, run for a turn: after a query answered "not yet", or a wait that is over at once."""
        gate = self._here()
        if gate.is_needed:
            gate.arm()  # other tasks wait: without it the caller would count as spinning
        if not gate.alone() or gate.is_trip_due():
            await _one_turn()
            gate.trip()
            if held:
                admit()

    def poll_succeeded(self) -> None:
        """Note that a query was answered "done": the caller makes progress."""
        self._fruitless = 0

    def poll_failed(self, waiting: Waiting = None) -> None:
        """Note that a query was answered "not yet"; raise if no later query can be answered otherwise."""
        if not self.host.scheduler.is_empty or self._gate.has_timers:
            self._fruitless = 0
            return
        self._fruitless += 1
        if self._fruitless % POLL_CHECK == 0:
            self._check_poll(waiting)

    def own_hosts(self) -> "AbstractContextManager[Turns]":
        """Return a block in which all calls are made by tasks that have a host each, and its turns (own_hosts.py).

        Raises:
            RuntimeError: The loop has no simulated clock.
        """
        return self._here().own_hosts()

    def hold(self) -> "_Hold":
        """Return a block in which simulated time waits for the real world: no device runs past the host clock."""
        return _Hold(self._here())

    async def in_thread(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run *function* in a thread and let simulated time wait for it."""
        with self.hold():
            return await asyncio.to_thread(function, *args, **kwargs)

    def jump(self, until: float = inf) -> bool:
        """Run the device to its next instant that wakes a task, but not beyond *until*; return whether anything
        happened.

        An error on the way (of an observer, or a mistake of ours) goes to all waiters: if the callback died silently,
        they would wait without an end. KeyboardInterrupt and SystemExit go to one of them, so that they come out of a
        verb, as they do where the device runs in place. If no task waits, errors come out here.
        """
        host = self.host
        try:
            return host.scheduler.run_to_wake(BUDGET, until, self._gate.witness)
        except INTERRUPTS as interrupt:
            if not host.waiters:
                raise
            self._throw(next(iter(host.waiters)), interrupt)
            return True
        except Exception as error:
            if not host.waiters:
                raise
            self.throw(error)
            return True
        finally:
            self._catch_up()
            if held and host.waiters:
                self._admit_signals()

    def _admit_signals(self) -> None:
        """Run the handlers of signals that are held; what they raise comes out of one of the waits."""
        try:
            admit()
        except BaseException as error:
            self._throw(next(iter(self.host.waiters)), error)

    def throw(self, error: Exception) -> None:
        """Let all waiters raise *error*, also those that were woken just now, but not those that were cancelled."""
        for future in list(self.host.waiters):
            if not future.cancelled():
                self._throw(future, error)

    def _throw(self, future: asyncio.Future[None], error: BaseException) -> None:
        """Let the waiter with *future* raise *error* when it goes on, even if it has been woken or cancelled."""
        self._errors[future] = error
        if not future.done():
            future.set_result(None)

    @property
    def are_waiting(self) -> bool:
        """Whether a task waits for a device."""
        return bool(self.host.waiters)

    @property
    def patience_s(self) -> float:
        """How many real seconds these waits may last while only the outside can end them."""
        return inf if self.host.hang_after is None else self.host.hang_after

    def describe(self) -> str:
        """Say what each waiter waits for."""
        return self.host.describe_hang()

    def give_up(self, circumstances: str) -> None:
        """End all waits, since nothing else can: each with a new error, which gets *circumstances* as a note.

        If kernels on a device wait for what never happens, they end, and time goes on.
        """
        if self.host.end_hangs():
            self._gate._look_again()
            return
        for future, waiting in list(self.host.waiters.items()):
            if not future.done():
                error = self.host.deadlock(waiting)
                if circumstances:
                    error.add_note(circumstances)
                future.set_exception(error)
        self._gate._look_again()  # a task that ends with its error may leave others waiting for it

    def _run_in_place(self, completion: Completion) -> bool:
        host = self.host
        try:
            return host.scheduler.run_until(completion, BUDGET, host.horizon_ns, self._gate.witness)
        finally:
            self._catch_up()
            if held:
                admit()

    def _catch_up(self) -> None:
        # Also if the budget or an error ended the run early: a call between two jumps would otherwise queue work in
        # the device's past.
        host, now = self.host, self.host.scheduler.now
        if now > host.host_ns:
            host.host_ns = now
            if now >= host.horizon_ns:
                self._gate.catch_up(self)

    def _check_poll(self, waiting: Waiting) -> None:
        gate, now = self._here(), time.monotonic()
        if self._fruitless == POLL_CHECK:
            self._polling_since, self._was_hopeless = now, False
        polled_s = now - self._polling_since
        # Twice, for the reason that `Vigil.is_certain` gives.
        was_hopeless, self._was_hopeless = self._was_hopeless, is_hopeless(gate.helpers(), polled_s)
        if polled_s >= self.patience_s or (self._was_hopeless and was_hopeless):
            self._fruitless = 0
            if self.host.end_hangs():
                return
            raise self.host.deadlock(waiting)

    def _here(self) -> "Gate":
        loop = asyncio.get_running_loop()
        gate = self._gate
        home = gate.loop_ref()
        if home is not loop:
            if home is not None and home.is_running():
                raise RuntimeError(_FOREIGN)
            self._gate.discard(self)
            gate = self._gate = _gate_of(loop)
            gate.enter(self, loop)
            # Waits that an earlier loop took with it when it was closed.
            for future in [future for future in self.host.waiters if future.get_loop().is_closed()]:
                del self.host.waiters[future]
        return gate


class _Hold:
    """A block in which simulated time waits for the real world.

    It is no generator: Python may collect that before the coroutine that has entered the block, and would end it twice.
    """

    def __init__(self, gate: "Gate") -> None:
        self._gate = gate

    def __enter__(self) -> None:
        self._gate.holders[self] = asyncio.current_task()

    def __exit__(self, *_: object) -> None:
        gate = self._gate
        del gate.holders[self]
        loop = gate.loop_ref()
        if gate.is_needed and loop is not None and not loop.is_closed():  # a coroutine that is collected
            gate.arm()


class Gate:
    """Decides when no task of a running loop can run; the runtimes in that loop share one gate.

    Two gates would see each other's looks and never find the queue empty. The gate holds its loop weakly.
    """

    is_shared = False  # whether all simulations of the loop have one clock

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop_ref = ref(loop)
        self.ready: Collection[Any] | None = holder(loop, "_ready", loop.call_soon(int))
        self.needed = EMPTY_LOOKS if self.ready is not None else EMPTY_LOOKS_BLIND
        self.bridges: dict[Bridge, None] = {}
        self.waiting: dict[Bridge, None] = {}  # those with waiters, in order of arrival
        self.holders: dict[object, Task | None] = {}
        self.is_armed = False  # our look is in the queue
        self._quiet = 0  # empty looks in a row
        self._turns = 0  # looks since the last call
        self._solo: Task | None = None  # the task that was found to be the only one, until the loop turns
        self._other: Callable[[], Task | None] = _no_task  # a witness that there is another task
        self._trip = time.monotonic()
        self._warned = False  # of a spinner
        # Called with the error when all tasks wait for one another.
        self.on_deadlock: Callable[[DeadlockError], object] = _warn_of
        self._is_deadlock_told = False
        self._context = (
            Context()
        )  # without it observers would see the context variables of the task that armed the look
        self.vigil = Vigil(loop, self._look_again, self._context)
        self.timer_watch = TimerWatch(self.bridges, self.holders)
        self.short_timers: Sized = self.timer_watch.timers  # every wait asks whether there are any
        self.witness: Sized = held  # what a device that runs must not see growing; see `Scheduler.run_to_wake`

    def __repr__(self) -> str:
        return f"<{type(self).__name__} waiting={len(self.waiting)} held={len(self.holders)} armed={self.is_armed}>"

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop; a gate is used only inside it."""
        loop = self.loop_ref()
        assert loop is not None, f"{self!r} has outlived its loop"
        return loop

    def enter(self, bridge: Bridge, loop: asyncio.AbstractEventLoop) -> None:
        """Let *bridge* take part. If it is the only one, what is outside now was there before the simulation."""
        if not self.bridges:
            self.vigil.begin(loop)
        self.bridges[bridge] = None
        bridge.host.horizon_ns = END_NS + 1
        self.timer_watch.begin(loop)

    def discard(self, bridge: Bridge) -> None:
        """Note that the runtime of *bridge* has ended, or went to another loop."""
        self.bridges.pop(bridge, None)
        self.timer_watch.end()

    def reach(self, bridge: Bridge, cost: Nanoseconds) -> Nanoseconds:
        """Return the host time of *bridge* after a call of *cost*."""
        return bridge.host.host_ns + cost

    def own_hosts(self) -> "AbstractContextManager[Turns]":
        """Return a block in which tasks have a host each; only a simulated clock can let them take turns."""
        raise RuntimeError(_REAL)

    def note_real_time(self) -> None:
        """Take up the real time that counts as host time, if any."""

    def catch_up(self, bridge: Bridge) -> None:
        """Note that the device of *bridge* has taken its host to the horizon or beyond."""

    @property
    def has_timers(self) -> bool:
        """Whether a timer in simulated time may still ring."""
        return False

    @property
    def is_needed(self) -> bool:
        """Whether the gate has to look when no task can run."""
        return bool(self.waiting)

    def leave(self, bridge: Bridge) -> None:
        """Note that *bridge* has no more waiters."""
        self.waiting.pop(bridge, None)
        if not self.waiting:
            self.vigil.rest()

    def arm(self) -> None:
        """Look again from the start: a wait begins, a call was made while tasks wait, or a hold ends."""
        self._quiet = self._turns = 0
        self.vigil.start_again()
        if not self.is_armed:
            self._look_next_turn()

    def alone(self) -> bool:
        """Whether the calling task is the only one of the loop, and nothing else is in the queue, so that its device
        may run in place. Where simulations share a clock, there is no other one, either.
        """
        if self.ready is None or self.holders or self.another_can_run() or (self.is_shared and len(self.bridges) > 1):
            return False
        this = asyncio.current_task()
        # Found before, and the loop has not turned since. Of this task: an eager child runs on top of its parent.
        if self.is_armed and self._solo is this:
            return True
        other = self._other()
        if other is None or other.done() or other is this:
            other = next((task for task in asyncio.all_tasks() if task is not this), None)
            if other is None:
                self.arm()  # the look, at the next turn, ends the claim
                self._solo = this
                return True
            self._other = ref(other)
        return False

    def another_can_run(self) -> bool:
        """Whether any task but the caller can run."""
        if self.ready is None:
            return _another_task_can_run(self.loop)
        return len(self.ready) > self.is_armed  # our own look does not count

    def is_trip_due(self) -> bool:
        """Whether the last turn of the loop is so long ago that timeouts and Ctrl-C need one."""
        return time.monotonic() - self._trip >= TRIP_S

    def trip(self) -> None:
        """Note that the loop has turned."""
        self._trip = time.monotonic()

    def refuse_holder(self) -> None:
        """Raise if the calling task holds time still and would wait for it to pass."""
        if asyncio.current_task() in self.holders.values():
            raise RuntimeError(
                "a wait for the device inside `with hold()`, where no simulated time passes: wait after the block"
            )

    @property
    def callers(self) -> Callers:
        """What messages about all tasks of the loop call them: as the runtime that came last does."""
        return next((bridge.host.callers for bridge in reversed(self.bridges)), None) or Callers()

    def helpers(self) -> list[str]:
        """Name what outside the simulation could still wake the program."""
        helpers = self.vigil.helpers(self.loop, {future for bridge in self.waiting for future in bridge.host.waiters})
        return [*helpers, "a timer in simulated time"] if self.has_timers else helpers

    def _look_next_turn(self) -> None:
        self.is_armed = True
        self.loop.call_soon(self._look, context=self._context)

    def _look(self) -> None:
        """Let time pass if no task can run; called once a turn while a task waits."""
        self.is_armed, self._solo = False, None
        if not self.is_needed:
            self._look_at_tasks()
            return
        self._turns += 1
        spinning = self._turns >= SPIN_TURNS
        if not (spinning or self._is_quiet()):
            self._look_next_turn()
            return
        try:
            self._let_time_pass(spinning)
        except Exception as error:  # a warning that was made an error, a fault in a report
            if not self.waiting:
                raise
            for bridge in list(self.waiting):
                bridge.throw(error)

    def _look_at_tasks(self) -> None:
        """Report, once, that all tasks wait for one another; look for some turns. Then the next wait arms the look."""
        if self._is_deadlock_told or not self.bridges or self.holders:
            return
        self._turns += 1
        if not self._is_quiet():
            if self._turns < LAST_LOOKS:
                self._look_next_turn()
        elif self.vigil.outside.is_shut_for_all(self.loop):
            if not self.vigil.is_certain():
                self._look_next_turn()
                return
            self._is_deadlock_told = True
            self.on_deadlock(deadlocks.of_tasks(self.callers))

    def _is_quiet(self) -> bool:
        """Whether no task could run at as many looks in a row as it takes to be sure."""
        self._quiet = 0 if self.another_can_run() else self._quiet + 1
        return self._quiet >= self.needed

    def _let_time_pass(self, spinning: bool) -> None:
        jumps = (
            [] if self.holders else [bridge.jump() for bridge in list(self.waiting)]
        )  # all of them, not up to the first
        if any(jumps):
            self._time_has_passed(spinning)
        else:
            self._keep_vigil(spinning)

    def _time_has_passed(self, spinning: bool) -> None:
        self.arm()  # behind the wake-ups in the queue
        if spinning and not self._warned:
            self._warned = True
            warnings.warn(_SPIN, RuntimeWarning, stacklevel=1)

    def _keep_vigil(self, spinning: bool) -> None:
        helpers, look_s = (["a task that spins on sleep(0)"], GRACE_S) if spinning else (self.helpers(), LOOK_S)
        self.vigil.keep(self.loop, list(self.waiting), self.holders.values(), helpers, look_s, self.callers)

    def _look_again(self) -> None:
        self._quiet = self._turns = 0
        if self.is_needed and not self.is_armed:
            self._look_next_turn()


_FOREIGN = (
    "a verb was awaited in the event loop of one thread, but its simulation belongs to the event loop of another: "
    "hand the call over with asyncio.run_coroutine_threadsafe(), or begin a simulation in this loop"
)
_REAL = (
    "ranks with hosts of their own take turns on a simulated clock, and this event loop has a real one: begin with "
    "acl_py.run(), or with simulate(clock='simulated')"
)
_SPIN = (
    f"a task ran for {SPIN_TURNS} turns of the event loop without a call, and simulated time went on without it; "
    "if it is `while not flag: await sleep(0)`, let it wait for an asyncio.Event instead"
)
_GATES: WeakKeyDictionary[asyncio.AbstractEventLoop, Gate] = WeakKeyDictionary()


def _gate_of(loop: asyncio.AbstractEventLoop) -> Gate:
    gate: Gate | None = getattr(loop, CLOCK, None) or _GATES.get(loop)
    if gate is None:
        gate = _GATES[loop] = Gate(loop)
    return gate


def has_simulations(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether simulations with a real clock run in *loop*."""
    return loop in _GATES and bool(_GATES[loop].bridges)


def _wake() -> None:
    """Let a device that runs in place stop, since the queue of its loop grows: a signal is held."""
    loop = asyncio._get_running_loop()
    if loop is not None:
        loop.call_soon_threadsafe(int)


when_held.append(_wake)


def _warn_of(error: DeadlockError) -> None:
    warnings.warn(str(error), RuntimeWarning, stacklevel=1)


def _another_task_can_run(loop: asyncio.AbstractEventLoop) -> bool:
    this = asyncio.current_task(loop)
    return any(task is not this and _can_run(task) for task in asyncio.all_tasks(loop))


def _can_run(task: Task) -> bool:
    waiter: asyncio.Future[Any] | None = task._fut_waiter  # type: ignore[attr-defined]
    return waiter is None or waiter.done()


def _no_task() -> None:
    """Stand for a weak reference to a task, before there is one."""


@coroutine
def _one_turn() -> Generator[None, None, None]:
    yield
