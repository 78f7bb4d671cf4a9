"""What can be waited for: a completion is done once, at one time, and then releases its waiters.

Operations, timers and steps of streams are completions. A waiter is anything with `release(by)`: an operation that
counts what it still waits for, or a `Then` that calls a function. Waiters are released in the order in which they were
added, so a run does not depend on hashes or addresses.

`AllOf` and `FirstOf` combine other completions. A `Process` runs a generator, which yields one completion after the
other and goes on when that one is done. A `Need` is a wait for something that is no operation, such as room in a queue.

    copied = stream.backlog()
    copied.add_waiter(Then(lambda by: print(f"done at {by.end_ns} ns")))
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from device_model.handles import Handle

if TYPE_CHECKING:
    from device_model.scheduler import Scheduler

Nanoseconds = int


class Why(IntEnum):
    """Why an operation did not start earlier: what the last thing was that it waited for."""

    HOST = 0  # the host queued it late
    ORDER = 1  # work ahead of it in its stream
    EVENT = 2  # an event, a notify or a value that its stream waits for
    LEGACY = 3  # the default-stream rule
    ENGINE = 4  # its engine was busy
    GAP = 5  # its engine paused between two operations
    CORES = 6  # the cores were full
    QUEUE = 7  # the head of its hardware queue, work of another stream, had to wait
    STAGING = 8  # the host copied pageable memory
    FAULT = 9  # a fault rule delayed it


class Waiter(Protocol):
    """Something that waits for a completion."""

    def release(self, by: "Completion", /) -> object:
        """Learn that *by*, one of the completions waited for, is done."""


class Then:
    """A waiter that calls a function with the completion that it has waited for."""

    __slots__ = ("release",)

    def __init__(self, release: "Callable[[Completion], object]") -> None:
        self.release = release


class Completion(Handle):
    """Something that will be done, once, at `end_ns`; -1 until then. Its `waiters` are released in their order."""

    __slots__ = ("done", "end_ns", "stamp", "waiters")

    done: bool
    end_ns: Nanoseconds
    waiters: list[Waiter] | None
    stamp: Any  # what an observer keeps with it; not set before
    # The engine (work.Lane) and the stream that it ended in: they decide how soon the next operation can start.
    lane: ClassVar[int] = 0
    stream: object = None
    remedy: str = ""  # what to do if this is never done: for reports

    def __init__(self) -> None:
        self.done = False
        self.end_ns = -1
        self.waiters = None

    def __await__(self) -> Generator[Any, None, "Completion"]:
        return _waits[0](self)

    def add_waiter(self, waiter: Waiter) -> None:
        """Release *waiter* when this is done. It must not be done yet."""
        assert not self.done, f"{self!r} is done already"
        if self.waiters is None:
            self.waiters = [waiter]
        else:
            self.waiters.append(waiter)

    def complete(self, now: Nanoseconds) -> None:
        """Mark this as done at *now* and release its waiters."""
        assert not self.done, f"{self!r} completed twice"
        self.done = True
        self.end_ns = now
        waiters = self.waiters
        if waiters is not None:
            self.waiters = None
            for waiter in waiters:
                waiter.release(self)


_waits: "list[Callable[[Completion], Generator[Any, None, Completion]]]" = []


def await_with(wait: "Callable[[Completion], Generator[Any, None, Completion]]") -> None:
    """Let *wait* say how `await` waits for a completion."""
    _waits[:] = [wait]


def _nothing() -> Completion:
    nothing = Completion()
    nothing.done = True
    nothing.end_ns = 0
    return nothing


NOTHING = _nothing()  # stands for no work: done from the start


class Group(Completion):
    """Stands for other completions. Once it is done, `last` is the one of them that was done last, and `why` says why
    that one was waited for, if it is known.
    """

    __slots__ = ("last", "why")

    last: Completion | None
    why: Why | None

    def __init__(self) -> None:
        super().__init__()
        self.last = self.why = None

    def note_last(self, by: Completion) -> None:
        """Note that *by* was the last one.

        Of what is over, no more is kept than the last operation: a chain of groups must not hold a whole history.
        """
        self.last = by.last if isinstance(by, Group) else by


class AllOf(Group):
    """Done when the last of several completions is done. If all of them are done already, so is this, at the latest of
    their times.
    """

    __slots__ = ("_reasons", "lane", "missing")

    def __init__(self, completions: Iterable[Completion], reasons: "Mapping[Completion, Why] | None" = None) -> None:
        super().__init__()
        self._reasons = reasons
        self.lane = 0  # type: ignore[misc]  # the lane of the completion that was last
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
        """Count *by* as done. The last one completes this, and each AllOf that waited for this alone."""
        if not self._is_last(by):
            return
        complete = [self]
        # A loop, not recursion: a chain of them (records that wait for records) can have any length.
        for each in complete:
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
        self.note_last(by)
        if self._reasons is not None:
            self.why = self._reasons.get(by)
            self._reasons = None
        return True


class Process(Completion):
    """Runs a generator that yields the completions it waits for; done when the generator ends."""

    __slots__ = ("_generator", "_scheduler", "awaited")

    def __init__(self, scheduler: "Scheduler", generator: Iterator[Completion]) -> None:
        super().__init__()
        self.awaited: Completion | None = None  # the completion that the generator waits for
        self._scheduler = scheduler
        self._generator = generator
        self.release(self)

    def release(self, by: Completion) -> None:  # noqa: ARG002 - the generator knows what it yielded
        """Resume the generator until it yields a completion that is not done yet."""
        try:
            for completion in self._generator:
                if not completion.done:
                    self.awaited = completion
                    completion.add_waiter(self)
                    return
        except BaseException as error:  # the generator is over, so this is done: its waiters must not hang
            self._scheduler.raise_later(error)
        if not self.done:
            self.complete(self._scheduler.now)

    def stop(self) -> None:
        """End the generator where it is; this is done now."""
        self._generator = iter(())
        if self.awaited is not None and self.awaited.waiters is not None:
            self.awaited.waiters.remove(self)
        self.release(self)


class FirstOf(Completion):
    """Done when one of several completions is done; `first` is that one."""

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
        """Take the first completion, and stop waiting for the others."""
        if self.first is None:
            self.first = by
            self.let_go()
            self.complete(by.end_ns)

    def let_go(self) -> None:
        """Stop waiting for all of them."""
        for completion in self._completions:
            if not completion.done and completion.waiters is not None and self in completion.waiters:
                completion.waiters.remove(self)


class Need(Completion):
    """A wait for something that is no operation: room in a queue, a free id.

    Reports of deadlocks read it: *what* names it, and *hope()* returns the completion that would bring it, a waiter of
    that completion, or None if nothing would.
    """

    __slots__ = ("hope", "remedy", "what")

    def __init__(self, what: str, hope: Callable[[], object], remedy: str = "") -> None:
        super().__init__()
        self.what = what
        self.hope = hope
        self.remedy = remedy

    def __repr__(self) -> str:
        return f"<{self.what}>"
