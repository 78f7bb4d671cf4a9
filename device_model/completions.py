"""What can be waited for: a completion is done once, at a time, and then releases what waits for it.

`AllOf` and `FirstOf` are made of others, a `Process` runs a generator of completions one after the other, and a `Need`
is a wait for something that is no operation.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from device_model.scheduler import Scheduler

Nanoseconds = int


class Waiter(Protocol):
    """Something that waits for a completion."""

    def release(self, by: "Completion", /) -> object:
        """Learn that *by*, one of the completions waited for, is done."""


class Then:
    """A waiter that calls a function with the completion that it has waited for."""

    __slots__ = ("release",)

    def __init__(self, release: "Callable[[Completion], object]") -> None:
        self.release = release


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

    __slots__ = ("_course", "_scheduler", "awaited")

    def __init__(self, scheduler: "Scheduler", course: Iterator[Completion]) -> None:
        super().__init__()
        self.awaited: Completion | None = None  # what for
        self._scheduler = scheduler
        self._course = course
        self.release(self)

    def release(self, by: Completion) -> None:  # noqa: ARG002 - the course knows what it waited for
        """Go on until the next completion that is still to come."""
        try:
            for completion in self._course:
                if not completion.done:
                    self.awaited = completion
                    completion.add_waiter(self)
                    return
        except BaseException as error:  # it is over: nobody is to wait for more of it
            self._scheduler.raise_later(error)
        if not self.done:
            self.complete(self._scheduler.now)

    def stop(self) -> None:
        """Be done now, whatever was to come."""
        self._course = iter(())
        if self.awaited is not None and self.awaited.waiters is not None:
            self.awaited.waiters.remove(self)
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
