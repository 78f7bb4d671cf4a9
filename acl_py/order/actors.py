"""Actors: streams and hosts, with what comes before the next thing that each of them does.

    stream     has a count, and the past of its next operation: events that it waits for, work of other streams
    host       has a count of its own accesses, and the past that it knows to be over

Three kinds of waits are not plain. A wait for a signal is behind the set that it sees (signals.py). A stream that a
callback blocks goes on when a host calls that callback. Some calls wait although the vendor does not promise it, such
as Free under CUDA's rules, or a call that finds its queue full. A clock has such waits under numbers of their own.
"""

from collections.abc import Iterable
from typing import Any, Protocol

from acl_py.order.clocks import BEGINNING, Clock, PlainPoint, Point

_new = tuple.__new__


class Context(Protocol):
    """What the relation asks of a context."""

    @property
    def destroyed(self) -> object:
        """The line that destroyed it; None if it is alive."""

    @property
    def device(self) -> object:
        """Its device."""

    @property
    def legacy(self) -> "Stream | None":
        """Its legacy stream, if it has one."""


class Stream(Protocol):
    """What the relation asks of a stream."""

    @property
    def context(self) -> Context:
        """Its context."""

    @property
    def is_blocking(self) -> bool:
        """Whether it is under the default-stream rule, and is not the legacy stream."""

    @property
    def bound(self) -> object:
        """Not None if hosts do not wait for it."""


class Wait:
    """A wait that is not plain. *past* is what is over with it and earlier ones of its actor, as far as is known."""

    __slots__ = ("epoch", "number", "past", "promised")

    def __init__(self, number: int, epoch: int, past: Clock, *, promised: bool) -> None:
        self.number = number
        self.epoch = epoch
        self.past = past
        self.promised = promised


class CallbackWait(Wait):
    """The wait of a stream for a callback that blocks it. It is open until a host has called the callback."""

    __slots__ = ("is_open",)

    def __init__(self, number: int, epoch: int, past: Clock) -> None:
        super().__init__(number, epoch, past, promised=True)
        self.is_open = True


class Line:
    """A stream as an actor; it outlives its stream until a host knows all of its work."""

    __slots__ = ("callbacks", "count", "footprints", "hosts", "number", "past", "ready", "round", "rule", "waits")

    def __init__(self, number: int, count: int, rule: "Rule | None") -> None:
        self.number = number
        self.count = count
        self.past = BEGINNING
        self.rule = rule  # of the default stream, if this one takes part in it
        self.round = -1  # the last round of the rule in which it got work
        # The version of the host that `Order.make_ready` would find nothing to do for; -1: of none.
        self.ready = -1
        self.footprints: dict[object, Any] = {}  # of the sanitizer: the latest one from each line of the program
        self.hosts: dict[int, int] = {}  # which version of each host's knowledge it has
        self.waits = 0  # the number of its waits for signals; 0 if it has none
        self.callbacks = 0  # the number of its waits for callbacks; 0 if it has none

    def point(self) -> Point:
        """Return all that it was given so far."""
        return _new(Point, (self.number, self.count, self.past))

    def join(self, points: Iterable[PlainPoint]) -> None:
        """Put the next work of this line behind *points*."""
        for point in points:
            self.follow(point)

    def follow(self, point: PlainPoint) -> None:
        """Put the next work of this line behind *point*."""
        actor, epoch, before = point
        if actor != self.number:
            past = self.past.after(actor, epoch, before)
            if past is not self.past:
                self.past = past
                self.count += 1


class Rule:
    """The default-stream rule of one context.

    A round lasts from one use of the legacy stream to the next. `barrier` is the use with which it began, and `lines`
    are the blocking streams that got work since.
    """

    __slots__ = ("barrier", "legacy", "lines", "round")

    def __init__(self, legacy: Stream) -> None:
        self.legacy = legacy
        self.round = 0
        self.barrier: tuple[Point, ...] = ()
        self.lines: dict[Line, None] = {}

    def begin(self, barrier: Point) -> None:
        """Begin a round: what blocking streams are given from now on is behind *barrier*."""
        self.barrier = (barrier,)
        self.round += 1
        for line in self.lines:
            line.ready = -1


class Host:
    """A task or a thread as an actor."""

    __slots__ = ("count", "name", "number", "past", "version", "waits")

    def __init__(self, number: int, version: int) -> None:
        self.name = ""  # as findings call it
        self.number = number
        self.count = 0
        self.past = BEGINNING
        self.version = version  # changes with its count and its past
        self.waits = 0  # the number of its waits that nothing promises; 0 if it has none

    def point(self) -> Point:
        """Return all that it knows, and all that it has done itself."""
        return Point(self.number, self.count, self.past)
