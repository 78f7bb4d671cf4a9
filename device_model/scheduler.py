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

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

from device_model.completions import Completion, Nanoseconds, Then
from device_model.errors import INTERRUPTS

if TYPE_CHECKING:
    from device_model.ops import Op
    from device_model.queues import HardwareQueue

END_NS: Nanoseconds = (
    1 << 62
)  # simulated time ends here, after 146 years: twice as much has no room in a row of a trace
_UNITS = {1: "ns", 1_000: "us", 1_000_000: "ms", 1_000_000_000: "s"}


# What happens: an action on a subject. The scheduler's clock then stands at its time.
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


class _Raiser:
    """Raises an error when the instant in which it occurred is over: it is listed among the engines, behind all."""

    __slots__ = ("errors", "is_dirty", "scheduler")

    def __init__(self, scheduler: "Scheduler") -> None:
        self.scheduler = scheduler
        self.errors: list[BaseException] = []  # in the order in which they occurred
        self.is_dirty = False

    def add(self, error: BaseException) -> None:
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
        self.heap: list[tuple[Nanoseconds, int, Action, Any]] = []  # engines push to it, at() written out
        self.dirty: list[Engine | _Raiser] = []  # those that have asked for a grant, in order
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

    @property
    def is_empty(self) -> bool:
        """Whether nothing is scheduled."""
        return not self.heap

    def subjects(self) -> Iterator[Any]:
        """The subjects of the scheduled actions: first that of the next action, then the others in no order."""
        return (subject for _, _, _, subject in self.heap)

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
        self._raiser.add(error)

    def _ring(self, timer: Completion) -> None:
        timer.complete(self.now)

    def watch(self, completion: Completion, callback: Callable[[], bool]) -> None:
        """Call *callback* when *completion* is done; it answers whether it woke somebody (a cancelled waiter is
        nobody).
        """

        def wake(by: Completion) -> None:  # noqa: ARG001 - it waits for one
            if callback():
                self.woken = True

        completion.add_waiter(Then(wake))

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
