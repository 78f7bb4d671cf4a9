"""Simulated time: one clock, and a heap of actions that are due.

Time is an integer number of nanoseconds. An entry of the heap says: at this time, call this function with this subject.
Three rules make the result of a run depend on nothing but the program:

1. Actions happen in the order of (time, sequence). The sequence number is drawn when the entry is made. No two entries
   are equal, so the order does not depend on how a heap breaks ties.
2. Within one instant all completions come first. An operation that they unblock is only noted at its engine. When all
   completions of the instant are in, the engines that have something to start are granted, one after the other
   (`Engine`). If an engine started operations in the middle of an instant, the order of callbacks would decide which
   of them comes first.
3. `advance`, `run_until` and `run_to_wake` return with the device settled: no engine can start anything more at this
   instant. This holds even if a function of the user raised in the middle of the instant (`raise_later`): the error
   comes out when the device is settled. The clock then stands at that instant, perhaps before the host's time, and the
   next call goes on from there.

For example, two copies end at 100 ns, and each unblocks a kernel:

    at 100 ns   the first copy ends    its kernel is noted at the dispatcher, which asks for a grant
                the second copy ends   its kernel is noted too
                grant                  the dispatcher now sees both kernels, and the more urgent one starts first
"""

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from heapq import heapify, heappop, heappush
from math import inf
from sys import maxsize
from typing import TYPE_CHECKING, Any, TypeAlias

from device_model.completions import Completion, Nanoseconds, Then
from device_model.errors import INTERRUPTS
from device_model.integers import number

if TYPE_CHECKING:
    from device_model.choices import Choices
    from device_model.ops import Op
    from device_model.queues import HardwareQueue

# Simulated time ends here, after 146 years: a row of a trace could not hold twice as much.
END_NS: Nanoseconds = 1 << 62
_UNITS = {1: "ns", 1_000: "us", 1_000_000: "ms", 1_000_000_000: "s"}


# A function that is called with its subject when its time has come; the clock then stands at that time.
Action = Callable[[Any], None]


class Engine:
    """Takes operations from the heads of its hardware queues and runs them.

    Within an instant an engine only notes that something may start, and asks for a grant: `grant` is called when all
    completions of the instant are in (rule 2). A host's call finds the device settled, so what it queues may start at
    once, without a grant.
    """

    __slots__ = ("is_dirty", "name", "scheduler")

    def __init__(self, scheduler: "Scheduler", name: str) -> None:
        self.scheduler = scheduler
        self.name = name
        self.is_dirty = False  # it has asked for a grant

    def offer(self, queue: "HardwareQueue", now: bool = False) -> None:
        """Note that the head of *queue* can start. It may start *now* if the device is settled; otherwise it waits for
        the grant at the end of this instant.
        """
        raise NotImplementedError  # pragma: no cover - each engine has its own

    def grant(self) -> None:
        """Start what can start."""
        raise NotImplementedError  # pragma: no cover - each engine has its own

    def drop(self, op: "Op") -> None:
        """Forget *op*, which was queued here and has not started."""
        raise NotImplementedError  # pragma: no cover - each engine has its own

    def request_grant(self) -> None:
        """Ask for a grant at the end of this instant. The hot paths of the engines have it written out."""
        if not self.is_dirty:
            self.is_dirty = True
            self.scheduler.dirty.append(self)


def nanoseconds(name: str, amount: float, unit_ns: Nanoseconds) -> Nanoseconds:
    """Return a duration that the user has given, *amount* units of *unit_ns*, in whole nanoseconds.

    Raises:
        TypeError: The amount is no number.
        ValueError: The duration is negative, not a number, or longer than simulated time (END_NS). The message calls it
            *name*.
    """
    amount = number(name, amount, f"a number of {_UNITS[unit_ns]}")
    if not amount >= 0:
        raise ValueError(f"{name} must be 0 or more, not {amount!r}")
    if amount > END_NS / unit_ns:
        shown = f"a number of {amount.bit_length()} bits" if isinstance(amount, int) else repr(amount)
        limit = f"{END_NS // unit_ns:,} {_UNITS[unit_ns]}, 146 years"
        raise ValueError(f"{name} must be no longer than simulated time, {limit}, not {shown}")
    return round(amount * unit_ns)


def check_clock(time: Nanoseconds) -> None:
    """Raise OverflowError if a clock is about to go to *time* and that is after the end of simulated time."""
    if time > END_NS:
        raise OverflowError(
            f"simulated time ends at {END_NS:,} ns, 146 years, and would go on to {time:,} ns: "
            "make the durations of kernels, host functions and host work shorter"
        )


class _Raiser(Engine):
    """Raises the errors of an instant when it is over. It asks for a grant like an engine, and is granted last."""

    __slots__ = ("errors",)

    def __init__(self, scheduler: "Scheduler") -> None:
        super().__init__(scheduler, "errors")
        self.errors: list[BaseException] = []  # in the order in which they occurred

    def add(self, error: BaseException) -> None:
        """Raise *error* when the instant is over. Of several errors, each call that runs the device raises one."""
        self.errors.append(error)
        self.request_grant()

    def grant(self) -> None:
        """Go to the end of the list until no engine is left behind this; then raise."""
        scheduler = self.scheduler
        if scheduler.dirty[-1] is not self:
            scheduler.dirty.append(self)
            return
        scheduler.dirty.clear()
        self.is_dirty = False
        if scheduler.before_return is not None:
            scheduler.before_return()
        error = self.errors.pop(0)
        if self.errors:
            self.request_grant()
        raise error


_NEVER = Completion()  # the goal of a run that only a time ends


class Chain:
    """What takes time by itself, step behind step, as `Scheduler.pass_beside` lets it.

    *due* is the entry of the heap for the end of its first step, *act* is called at the end of the present one. If it
    no longer *goes on*, only the device can end that step.
    """

    __slots__ = ("act", "due", "goes_on")

    def __init__(self, due: "tuple[Nanoseconds, int, Action, Any]") -> None:
        self.due = due
        self.act: Callable[[], None] = _nothing
        self.goes_on = True

    def go_on(self, now: Nanoseconds) -> Nanoseconds:
        """Begin the next step, and return when it ends."""
        raise NotImplementedError  # pragma: no cover - each chain has its own


Place: TypeAlias = tuple[Nanoseconds, int, Chain]  # when a chain is due, and where in that instant
Failure: TypeAlias = tuple[Chain, BaseException]  # what the function of a chain raised


def _nothing() -> None:
    """Do nothing."""


class Scheduler:
    """The one clock of a simulation, and the heap of actions that are due."""

    __slots__ = (
        "_goal", "_instants", "_raiser", "_ready", "_size",
        "before_return", "choices", "dirty", "heap", "now", "sequence", "until", "wake",
    )  # fmt: skip

    def __init__(self) -> None:
        self.now: Nanoseconds = 0
        self.heap: list[tuple[Nanoseconds, int, Action, Any]] = []  # engines push to it, at() written out
        self.dirty: list[Engine] = []  # those that have asked for a grant, in order
        self.sequence = 0  # the number drawn last
        self.wake = Completion()  # done when a watch has woken a host since `run_to_wake` began
        # Called before control returns to a host: it joins bodies that run in threads (engines/workers.py).
        self.before_return: Callable[[], None] | None = None
        self.choices: Choices | None = None  # what this run may do in another way than the model
        self._raiser = _Raiser(self)
        # How far the run goes that is under way, for `pass_through`; without a run no time passes.
        self.until: float = -1
        self._instants = maxsize  # how many are left
        self._goal: Completion = _NEVER
        self._ready: Sized = ()
        self._size = 0  # of `_ready` when the run began

    def __repr__(self) -> str:
        return f"<Scheduler now={self.now} scheduled={len(self.heap)}>"

    def at(self, time: Nanoseconds, action: Action, subject: object) -> None:
        """Call *action* with *subject* at *time*, which must not be in the past."""
        assert time >= self.now, f"{action!r} would happen at {time}, before {self.now}"
        self.sequence += 1
        heappush(self.heap, (time, self.sequence, action, subject))

    @property
    def is_empty(self) -> bool:
        """Whether nothing is scheduled."""
        return not self.heap

    def subjects(self) -> Iterator[Any]:
        """The subjects of the scheduled actions: first that of the next action, then the others in no order."""
        return (subject for _, _, _, subject in self.heap)

    def timer(self, time: Nanoseconds) -> Completion:
        """Return a completion that is done at *time*; a host that waits for it may be late."""
        if self.choices is not None:
            time += self.choices.host_lateness()
        timer = Completion()
        self.at(time, self._ring, timer)
        return timer

    def cancel(self, timer: Completion) -> None:
        """Forget *timer* unless it has rung, so that simulated time does not go on only to reach it."""
        if not timer.done:
            self.forget(timer)

    def forget(self, subject: object) -> None:
        """Take every action on *subject* off the heap."""
        self.heap[:] = [entry for entry in self.heap if entry[3] is not subject]
        heapify(self.heap)

    def raise_later(self, error: BaseException) -> None:
        """Raise *error*, which a function of the user raised in the middle of an instant, when the instant is over.

        It comes out of the call that runs the device, with the device settled. Exceptions, KeyboardInterrupt and
        SystemExit come out as they are. Any other BaseException would mean something to the task or thread that it
        reaches, as GeneratorExit and asyncio's CancelledError do; it becomes the cause of a RuntimeError.
        """
        if not isinstance(error, (Exception, *INTERRUPTS)):
            loud = RuntimeError(f"a function that was called while the device ran raised {error!r}")
            loud.__cause__ = error
            error = loud
        self._raiser.add(error)

    def _ring(self, timer: Completion) -> None:
        timer.complete(self.now)

    def watch(self, completion: Completion, callback: Callable[[], bool]) -> None:
        """Call *callback* when *completion* is done.

        *callback* returns whether it woke a host: False if the host was cancelled meanwhile. See `run_to_wake`.
        """

        def wake(by: Completion) -> None:  # noqa: ARG001 - it waits for one
            if callback():
                self.wake.done = True

        completion.add_waiter(Then(wake))

    def woke(self) -> None:
        """Note that an action has woken a host, as a watch does."""
        self.wake.done = True

    def advance(self, until: Nanoseconds) -> None:
        """Do all actions that are due up to and including *until*; the clock then stands at *until*."""
        heap = self.heap
        if self.choices is not None:
            while heap and heap[0][0] <= until:
                self.step()
        if heap and heap[0][0] <= until:
            dirty = self.dirty
            self.until = until
            try:
                while True:
                    # step() and settle(), written out: this is the hot path.
                    now, _, action, subject = heappop(heap)
                    self.now = now
                    action(subject)
                    while heap and heap[0][0] == now:
                        _, _, action, subject = heappop(heap)
                        action(subject)
                    if dirty:
                        for engine in dirty:
                            engine.grant()
                        dirty.clear()
                    if not heap or heap[0][0] > until:
                        break
            finally:
                self.until = -1
        self.now = until
        if self.before_return is not None:
            self.before_return()
            self.settle()  # a body in a thread may have failed

    @property
    def next_ns(self) -> float:
        """The time of the next action; infinity if nothing is scheduled."""
        return self.heap[0][0] if self.heap else inf

    def run_until(self, completion: Completion, budget: int, until: float = inf, ready: Sized = ()) -> bool:
        """Run until *completion* is done, nothing is scheduled up to *until*, or *budget* instants have passed.

        It also stops after an instant in which *ready*, the queue of what the host can run, has grown.

        Returns whether *completion* is done.
        """
        heap, size = self.heap, len(ready)
        self._instants, self.until, self._ready, self._size = budget, min(until, END_NS), ready, size
        self._goal = completion
        try:
            while not completion.done and heap and self._instants > 0 and heap[0][0] <= until and len(ready) == size:
                self._instants -= 1
                self.step()
        finally:
            self._goal, self._instants, self.until, self._ready, self._size = _NEVER, maxsize, -1, (), 0
        while heap and heap[0][0] == self.now:  # the rest of the instant
            self.step()
        if self.before_return is not None:
            self.before_return()
            self.settle()
        return completion.done

    def run_to_wake(self, budget: int, until: float = inf, ready: Sized = ()) -> bool:
        """Run until a watch has woken a host, and to the end of that instant; for at most *budget* instants.

        It does nothing that is due after *until*, and also stops when *ready*, the queue of what the host can run, has
        grown.

        Returns whether anything was scheduled up to *until*.
        """
        if not self.heap or self.heap[0][0] > until:
            return False
        self.wake = Completion()
        self.run_until(self.wake, budget, until, ready)
        return True

    def pass_through(
        self, steps: Iterable[tuple[Callable[[], None], Nanoseconds]], start: Nanoseconds, gap: Nanoseconds
    ) -> tuple[int, BaseException | None]:
        """Let time pass to the end of each of *steps* in turn, as long as nothing else is due before it.

        A step is a function, which is called at its end, and how long it lasts. The first one begins at *start*, each
        other one *gap* behind the one before. It is for an engine that is granted last in its instant: all that happens
        next must follow from these steps. It takes no longer than the run that is under way, and a host that can go on
        ends it. Outside a run, and in an explored one, it does nothing.

        Returns how many steps are over, and what the function of the last of them raised: then the others are left.
        """
        if not self.can_pass:
            return 0, None
        over, ready, size = 0, self._ready, self._size
        until = self.until if not self.heap else min(self.until, self.heap[0][0] - 1)
        error = None
        try:
            for act, lasts in steps:
                end = start + lasts
                if end > until or over == self._instants or len(ready) != size:
                    break
                self.now = end
                over += 1
                act()
                start = end + gap
        except BaseException as raised:  # by a function of the user: the caller knows what has failed
            error = raised
        self._instants -= over
        return over, error

    @property
    def can_pass(self) -> bool:
        """Whether time may pass within a grant."""
        return not self._goal.done and self.choices is None

    def pass_beside(self, chains: Sequence["Chain"]) -> tuple[list["Place"], "Failure | None"]:
        """Let time pass along *chains*, which are due off the heap, as long as nothing else is due before them and each
        of them can go on by itself. The limits are those of `pass_through`.

        Returns when each chain is due now, with its place in that instant; and what the function of one of them raised,
        with that chain. The others are left then.
        """
        ready, size = self._ready, self._size
        failure: Failure | None = None
        until = self.until if not self.heap else min(self.until, self.heap[0][0] - 1)
        due: list[Place] = [(*chain.due[:2], chain) for chain in chains]
        heapify(due)
        ended: list[Chain] = []  # in this instant
        try:
            while due[0][0] <= until and self._instants > 0 and len(ready) == size and failure is None:
                now = self.now = due[0][0]
                self._instants -= 1
                while due and due[0][0] == now and failure is None:
                    ended.append(heappop(due)[2])
                    try:
                        ended[-1].act()
                    except BaseException as raised:  # by a function of the user: the caller knows what has failed
                        failure = ended[-1], raised
                while ended:
                    chain = ended.pop(0)
                    end = chain.go_on(now)
                    self.sequence += 1
                    heappush(due, (end, self.sequence, chain))
                    if not chain.goes_on:
                        until = min(until, end - 1)
        except BaseException as raised:  # an interrupt
            self.raise_later(raised)
            for chain in ended:
                heappush(due, (self.now, self.sequence, chain))
        return due, failure

    def step(self) -> None:
        """Run one instant: the actions that are due, then the grants (rule 2)."""
        heap = self.heap
        now = heap[0][0]
        if now > END_NS:
            check_clock(now)
        self.now = now
        if self.choices is not None:
            self.choices.order(heap, now)
        _, _, action, subject = heappop(heap)
        action(subject)
        while heap and heap[0][0] == now:
            _, _, action, subject = heappop(heap)
            action(subject)
        dirty = self.dirty
        if dirty:  # settle(), written out
            for engine in dirty:
                engine.grant()
            dirty.clear()

    def settle(self) -> None:
        """Grant the engines that have asked, until no engine can start anything more at this instant."""
        dirty = self.dirty
        for engine in dirty:  # the list grows if a grant makes another engine ask
            engine.grant()
        dirty.clear()
