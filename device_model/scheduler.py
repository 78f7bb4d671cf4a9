"""Simulated time: a heap of what will happen, and the completions that host and device wait for.

Time is an integer number of nanoseconds. Three rules make a run a function of its program alone:

1. What happens is ordered by (time, sequence). The sequence is a number drawn when an entry is made, so no two entries
   are equal and nothing depends on how a heap breaks ties.
2. Within one instant all completions come first, in that order, and what they release lines up at its engine likewise;
   only then do the engines hand out what is free. Else the order of callbacks would decide who gets an engine.
3. Nothing is left half-done between two calls: `advance`, `run_until` and `run_to_wake` return with the device settled,
   and so they do when they raise what a function of the user has raised (`raise_later`). The clock then stands at that
   instant; the host's is later, perhaps, and the next call goes on from there.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, ClassVar, Protocol

from device_model.errors import INTERRUPTS

Nanoseconds = int
END_NS: Nanoseconds = (
    1 << 62
)  # simulated time ends here, after 146 years: twice as much has no room in a row of a trace
_UNITS = {1: "ns", 1_000: "us", 1_000_000: "ms", 1_000_000_000: "s"}


# What happens: an action on a subject. The scheduler's clock then stands at its time.
Action = Callable[[Any], None]


class Waiter(Protocol):
    """Something that waits for a completion."""

    def release(self, by: "Completion") -> None:
        """*by*, one of the completions waited for, is done."""


class Engine(Protocol):
    """Hands out what is free once all completions of an instant are in; it lists itself as dirty, once."""

    is_dirty: bool  # listed

    def grant(self) -> None:
        """Be listed no more, and start what can start."""


def nanoseconds(name: str, amount: float, unit_ns: Nanoseconds) -> Nanoseconds:
    """A duration that the user gives: *amount* units of *unit_ns*, to the nearest nanosecond.

    Raises:
        ValueError: it is negative, not a number, or longer than simulated time (END_NS). The message calls it *name*.
    """
    if not amount >= 0:
        raise ValueError(f"{name} must be 0 or more, not {amount!r}")
    if amount > END_NS / unit_ns:
        shown = f"a number of {amount.bit_length()} bits" if isinstance(amount, int) else repr(amount)
        limit = f"{END_NS // unit_ns:,} {_UNITS[unit_ns]}, 146 years"
        raise ValueError(f"{name} must be no longer than simulated time, {limit}, not {shown}")
    return round(amount * unit_ns)


def check_clock(time: Nanoseconds) -> None:
    """Raise OverflowError if *time*, to which a clock is about to go, lies behind the end of simulated time."""
    if time > END_NS:
        raise OverflowError(
            f"simulated time ends at {END_NS:,} ns, 146 years, and would go on to {time:,} ns: "
            "make the durations of kernels, host functions and host work shorter"
        )


class Completion:
    """Something that will be done, once, at `end_ns`; `waiters` are released in the order in which they came."""

    __slots__ = ("done", "end_ns", "waiters")

    done: bool
    end_ns: Nanoseconds
    waiters: list[Waiter] | None
    lane: ClassVar[int] = 0  # where on the device it ended (ops.Lane), and
    stream: object = None  # in which stream: both decide how soon a successor can start

    def __init__(self) -> None:
        self.done = False
        self.end_ns = -1
        self.waiters = None

    awaiter: ClassVar[
        Callable[["Completion"], Generator[Any, None, "Completion"]]
    ]  # how a host waits; the host layer sets it

    def __await__(self) -> Generator[Any, None, "Completion"]:
        return Completion.awaiter(self)

    def add_waiter(self, waiter: Waiter) -> None:
        """Release *waiter* when this is done; it must not be done yet."""
        assert not self.done, f"{self!r} is done already"
        if self.waiters is None:
            self.waiters = [waiter]
        else:
            self.waiters.append(waiter)

    def complete(self, now: Nanoseconds) -> None:
        """Be done at *now*: release who waits."""
        assert not self.done, f"{self!r} completed twice"
        self.done = True
        self.end_ns = now
        waiters = self.waiters
        if waiters is not None:
            self.waiters = None
            for waiter in waiters:
                waiter.release(self)


def _nothing() -> Completion:
    nothing = Completion()
    nothing.done = True
    nothing.end_ns = 0
    return nothing


NOTHING = _nothing()  # the completion of no work at all


class AllOf(Completion):
    """Done when all of several completions are; at once, with the latest of their times, when nothing is missing."""

    __slots__ = ("lane", "missing")

    def __init__(self, completions: Iterable[Completion]) -> None:
        super().__init__()
        self.lane = 0  # type: ignore[misc]  # that of whichever completes it
        self.missing = 0
        latest = 0
        for completion in completions:
            if not completion.done:
                self.missing += 1
                completion.add_waiter(self)
            elif completion.end_ns > latest:
                latest = completion.end_ns
        if not self.missing:
            self.done = True
            self.end_ns = latest

    def release(self, by: Completion) -> None:
        """One less is missing; the last completes this, and all that only waited for this."""
        if not self._is_last(by):
            return
        complete = [self]
        for each in complete:  # a loop, since a chain of them (records that wait for records) has no limit
            waiters, each.waiters = each.waiters, None
            Completion.complete(each, by.end_ns)
            for waiter in waiters or ():
                if not isinstance(waiter, AllOf):
                    waiter.release(each)
                elif waiter._is_last(each):
                    complete.append(waiter)

    def _is_last(self, by: Completion) -> bool:
        self.missing -= 1
        if self.missing:
            return False
        self.lane = by.lane  # type: ignore[misc]
        return True


class Process(Completion):
    """A course of events written as a generator that yields the completions it waits for; done when the generator
    ends.
    """

    __slots__ = ("_course", "_scheduler", "waiting")

    def __init__(self, scheduler: "Scheduler", course: Iterator[Completion]) -> None:
        super().__init__()
        self.waiting: Completion | None = None  # what for
        self._scheduler = scheduler
        self._course = course
        self.release(self)

    def release(self, by: Completion) -> None:  # noqa: ARG002 - the course knows what it waited for
        """Go on until the next completion that is still to come."""
        try:
            for completion in self._course:
                if not completion.done:
                    self.waiting = completion
                    completion.add_waiter(self)
                    return
        except BaseException as error:  # it is over: nobody is to wait for more of it
            self._scheduler.raise_later(error)
        if not self.done:
            self.complete(self._scheduler.now)

    def stop(self) -> None:
        """Be done now, whatever was to come."""
        self._course = iter(())
        if self.waiting is not None and self.waiting.waiters is not None:
            self.waiting.waiters.remove(self)
        self.release(self)


class FirstOf(Completion):
    """Done when one of several completions is; `first` is that one."""

    __slots__ = ("_completions", "first")

    def __init__(self, completions: Sequence[Completion]) -> None:
        super().__init__()
        self.first: Completion | None = None
        self._completions = completions
        for completion in completions:
            if completion.done:
                self.first, self.done, self.end_ns = completion, True, completion.end_ns
                return
        for completion in completions:
            completion.add_waiter(self)

    def release(self, by: Completion) -> None:
        """The first counts; the others need not know of this any more."""
        if self.first is None:
            self.first = by
            self.let_go()
            self.complete(by.end_ns)

    def let_go(self) -> None:
        """Wait for none of them any more."""
        for completion in self._completions:
            if not completion.done and completion.waiters is not None and self in completion.waiters:
                completion.waiters.remove(self)


class Need(Completion):
    """What somebody lacks who is not queued for it anywhere. For reports: *what* has to come about, and *hope* knows
    the completion that it comes with, or a waiter for it; None if there is none.
    """

    __slots__ = ("hope", "what")

    def __init__(self, what: str, hope: Callable[[], object]) -> None:
        super().__init__()
        self.what = what
        self.hope = hope

    def __repr__(self) -> str:
        return f"<{self.what}>"


class _Watch:
    """A host that wants to know; *callback* says whether it woke somebody."""

    __slots__ = ("callback", "scheduler")

    def __init__(self, scheduler: "Scheduler", callback: Callable[[], bool]) -> None:
        self.scheduler = scheduler
        self.callback = callback

    def release(self, by: Completion) -> None:  # noqa: ARG002 - it watches one
        if self.callback():
            self.scheduler.woken = True


class _Raiser:
    """Raises an error when the instant in which it occurred is over: it is listed among the engines, behind all."""

    __slots__ = ("errors", "is_dirty", "scheduler")

    def __init__(self, scheduler: "Scheduler") -> None:
        self.scheduler = scheduler
        self.errors: list[BaseException] = []  # in the order in which they occurred
        self.is_dirty = False

    def mark(self, error: BaseException) -> None:
        """Raise *error* when the instant is over; if there are several, one at a time."""
        self.errors.append(error)
        self._list()

    def grant(self) -> None:
        """Line up behind the engines; raise once nothing is behind."""
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
            self._list()
        raise error

    def _list(self) -> None:
        if not self.is_dirty:
            self.is_dirty = True
            self.scheduler.dirty.append(self)


class Scheduler:
    """The one clock of a simulation and the heap of what is to come."""

    __slots__ = ("_raiser", "before_return", "dirty", "heap", "now", "sequence", "woken")

    def __init__(self) -> None:
        self.now: Nanoseconds = 0
        self.heap: list[tuple[Nanoseconds, int, Action, Any]] = []
        self.dirty: list[Engine] = []  # engines that may have something to hand out, in order of arrival
        self.sequence = 0  # the issue number drawn last
        self.woken = False  # somebody outside was woken since this was cleared
        self.before_return: Callable[[], None] | None = None  # what the host must not see unfinished: bodies in threads
        self._raiser = _Raiser(self)

    def __repr__(self) -> str:
        return f"<Scheduler now={self.now} scheduled={len(self.heap)}>"

    def at(self, time: Nanoseconds, action: Action, subject: object) -> None:
        """Let *action* happen on *subject* at *time*, which is not in the past."""
        assert time >= self.now, f"{action!r} would happen at {time}, before {self.now}"
        self.sequence += 1
        heappush(self.heap, (time, self.sequence, action, subject))

    def timer(self, time: Nanoseconds) -> Completion:
        """A completion that is done at *time*."""
        timer = Completion()
        self.at(time, self._ring, timer)
        return timer

    def cancel(self, timer: Completion) -> None:
        """Forget *timer*, if it has not rung: time is not to go on for its sake."""
        if not timer.done:
            self.forget(timer)

    def forget(self, subject: object) -> None:
        """Nothing happens on *subject* any more."""
        self.heap[:] = [entry for entry in self.heap if entry[3] is not subject]
        heapify(self.heap)

    def raise_later(self, error: BaseException) -> None:
        """Let *error*, raised by a function of the user in the middle of an instant, come out of the call that runs the
        device when that instant is over and the device is settled. Only what ends a program (INTERRUPTS) and ordinary
        exceptions come out as they are: anything else would mean something to the task or thread that it reaches.
        """
        if not isinstance(error, (Exception, *INTERRUPTS)):
            loud = RuntimeError(f"a function that was called while the device ran raised {error!r}")
            loud.__cause__ = error
            error = loud
        self._raiser.mark(error)

    def _ring(self, timer: Completion) -> None:
        timer.complete(self.now)

    def watch(self, completion: Completion, callback: Callable[[], bool]) -> None:
        """Call *callback* when *completion* is done; it answers whether it woke somebody (a cancelled waiter is
        nobody).
        """
        completion.add_waiter(_Watch(self, callback))

    def advance(self, until: Nanoseconds) -> None:
        """Let everything happen that is due up to and including *until*; the clock then stands there."""
        heap = self.heap
        dirty = self.dirty
        while heap and heap[0][0] <= until:
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
        self.now = until
        if self.before_return is not None:
            self.before_return()
            self.settle()  # a body in a thread may have failed

    def run_until(self, completion: Completion, budget: int) -> bool:
        """Go on until *completion* is done, nothing is scheduled, or *budget* instants have passed: is it done?"""
        heap = self.heap
        while not completion.done and heap and budget > 0:
            self.step()
            budget -= 1
        self._finish_instant()
        return completion.done

    def run_to_wake(self, budget: int) -> bool:
        """Go on until a watch woke somebody, with all that happens at that instant: did anything happen at all?"""
        heap = self.heap
        if not heap:
            return False
        self.woken = False
        while heap and not self.woken and budget > 0:
            self.step()
            budget -= 1
        self._finish_instant()
        return True

    def _finish_instant(self) -> None:
        heap = self.heap
        while heap and heap[0][0] == self.now:
            self.step()
        if self.before_return is not None:
            self.before_return()
            self.settle()

    def step(self) -> None:
        """One instant: what is due, then the grants (rule 2)."""
        heap = self.heap
        now = heap[0][0]
        if now > END_NS:
            check_clock(now)
        self.now = now
        while heap and heap[0][0] == now:
            _, _, action, subject = heappop(heap)
            action(subject)
        if self.dirty:
            self.settle()

    def settle(self) -> None:
        """Let the engines hand out what is free, until nothing more moves at this instant."""
        dirty = self.dirty
        for engine in dirty:  # grows while engines release others
            engine.grant()
        dirty.clear()
