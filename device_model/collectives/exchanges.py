"""Exchanges: calls of ranks that meet, from the turn of the first one to the end of the last one.

An exchange begins when all its parts have their turn. If they do not agree, or one never comes, it never begins: cards
do the same (asked of an H200: other counts, other kinds, a missing rank). Only a Send can begin without its Recv, where
the receiver has a buffer.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, cast

from device_model.collectives import results, words
from device_model.collectives.calls import Call, CollectiveKind, rows_fit
from device_model.collectives.parts import Part
from device_model.completions import Nanoseconds
from device_model.errors import DeviceError, Kind
from device_model.ops import Op
from device_model.scheduler import Action

if TYPE_CHECKING:
    from device_model.collectives.cliques import Clique
    from device_model.engines.parts import Parts

# Plays an exchange in time: called when it begins, it calls the function when its last byte has arrived, at that time.
Play = Callable[["Exchange", Callable[[Nanoseconds], None]], None]
Key = tuple[int, ...]  # of a collective: its number; of a Send and its Recv: both ranks, and the number for this pair

# Each rank has one range for what it receives.
_ALL_RECEIVE = (
    CollectiveKind.ALL_REDUCE,
    CollectiveKind.ALL_GATHER,
    CollectiveKind.REDUCE_SCATTER,
    CollectiveKind.ALL_TO_ALL,
)
_SENDER = 0  # its seat; the other one is the receiver's


class Exchange:
    """Calls that meet, of the *ranks* that have a seat each: all ranks of *clique*, or the sender and the receiver."""

    __slots__ = ("arrived", "calls", "clique", "differs", "facts", "is_changed", "is_over", "is_timed", "is_watched",
                 "key", "left", "ops", "ranks", "results")  # fmt: skip

    def __init__(self, clique: "Clique", key: Key, ranks: Sequence[int]) -> None:
        self.clique = clique
        self.key = key
        self.ranks = ranks
        self.left = size = len(ranks)  # seats whose part has not had its turn
        self.calls: list[Call | None] = [None] * size
        self.ops: list[Op | None] = [None] * size  # whose work are the parts
        self.arrived = [False] * size
        self.results: list[list[memoryview]] = []  # for each seat: what it receives, once it is over
        self.facts: tuple[object, ...] | None = None  # of the call that was made first
        self.differs = False  # another call does not fit it
        self.is_changed = False  # a fault rule has changed a part
        self.is_timed = False  # something is scheduled for it
        self.is_watched = clique.limit_ns > 0  # an arrival that is not the last one has an effect, too
        self.is_over = False

    def __repr__(self) -> str:
        return f"<exchange {self.key} of {self.clique!r}>"

    @property
    def number(self) -> int:
        """Its number in the clique, or of Sends and Recvs in their pair; from 1 on."""
        return self.key[-1]

    @property
    def has_begun(self) -> bool:
        """Whether bytes move, or have moved."""
        return self.is_over or (not self.left and self.agrees)

    @property
    def agrees(self) -> bool:
        """Whether the calls that are there so far fit together."""
        if self.differs:
            return False
        first = self.calls[0]
        if first is None or first.kind is not CollectiveKind.ALL_TO_ALL_V:
            return True
        calls = [call for call in self.calls if call is not None]
        return len(calls) < len(self.ranks) or rows_fit(calls)

    def arrive(self, seat: int, op: Op) -> None:
        """Note that *op*, the part of *seat*, has its turn; the last one lets the exchange begin."""
        clique = self.clique
        self.arrived[seat] = True
        self.left = left = self.left - 1
        context = op.stream.context
        if context.error is not None and op.start_ns >= context.failed_ns:
            clique.lose(clique.ranks[self.ranks[seat]], "its context has failed")
        if clique.error is not None:
            _engine(op).leave(op, clique.error)
        elif not left or self.is_watched:
            self._go_on()

    def moves(self, seat: int) -> bool:  # noqa: ARG002 - here all move together
        """Whether the bytes of *seat* move, or have moved."""
        return self.has_begun

    def _go_on(self) -> None:
        """Do what the last arrival makes possible."""
        clique = self.clique
        if self.left:
            if self.left == len(self.ranks) - 1 and clique.limit_ns:
                self._at(clique.scheduler.now + clique.limit_ns, Exchange._time_out)
        elif self.agrees:
            self._forget()
            clique.play(self, self._end)

    def _at(self, time: Nanoseconds, action: Action) -> None:
        """Call *action* with this exchange at *time*."""
        self.is_timed = True
        self.clique.scheduler.at(time, action, self)

    def _forget(self) -> None:
        """Forget what is scheduled for this exchange."""
        if self.is_timed:
            self.is_timed = False
            self.clique.scheduler.forget(self)

    def missing(self) -> Iterator[Op | None]:
        """Yield, for each rank whose part has not had its turn, the operation of that, if it is queued."""
        return (op for op, arrived in zip(self.ops, self.arrived, strict=True) if not arrived)

    def _end(self, _: Nanoseconds) -> None:
        """Let all parts have what they receive: the last byte has arrived."""
        if self.is_over:
            return
        error: DeviceError | None = None
        workers = self.clique.ranks[0].device.workers  # all devices have the same
        if workers.flying:  # bodies of earlier work still run in threads
            workers.join_all()
        try:
            find = results.results if self.clique.has_values else results.nothing
            self.results = find(cast("list[Call]", self.calls))
        except DeviceError as found:
            error = found
        self._leave(error)

    def fail(self, error: DeviceError) -> None:
        """End with *error*, which reaches all ranks that wait."""
        if not self.is_over:
            self._leave(error)

    def _leave(self, error: DeviceError | None) -> None:
        self.is_over = True
        self.clique.exchanges.pop(self.key, None)
        self._forget()
        there = self._there()
        if not self.left:
            self.ops = []  # each of them has this exchange
        if self.is_changed:  # if a changed part fails, the others do, so it is first
            there.sort(key=_is_unchanged)
        at_once = error is None and not self.is_changed and self._kind in _ALL_RECEIVE
        for op, received in zip(there, self.results if at_once else repeat(())):  # noqa: B905
            engine: Parts = op.queue.engine  # type: ignore[assignment]
            if at_once:
                at_once = engine.end_at_once(op, received[0])
                if at_once:
                    continue
            engine.leave(op, error)
            if op.error is not None and error is None:
                self._lose(op, op.error)
                error = self.clique.error
        if at_once:
            self.results = []  # a program may hold the completions for long

    @property
    def _kind(self) -> CollectiveKind | None:
        first = self.calls[0]
        return None if first is None else first.kind

    def _there(self) -> list[Op]:
        """Return the operations that have had their turn and wait for this."""
        if not self.left:
            return cast("list[Op]", self.ops)
        return [op for op, arrived in zip(self.ops, self.arrived, strict=True) if op is not None and arrived]

    def _lose(self, op: Op, error: DeviceError) -> None:
        """End all exchanges: *op*, a part of this one, has failed with *error*."""
        assert isinstance(op.work, Part), f"{op!r} is no part of a collective"
        self.clique.lose(op.work.rank, f"its part has failed: {error.what}")

    def _time_out(self) -> None:
        """End all work of the clique: ranks have waited here for longer than is allowed."""
        limit_s, mismatch = self.clique.limit_ns / 1e9, self.clique.mismatch()
        why = "not all have had their turn" if mismatch is None else words.mismatch_text(mismatch)
        error = DeviceError(
            Kind.COLLECTIVE_TIMEOUT,
            f"EI0002: ranks of {self.clique.name} have waited {limit_s:g} s for the others: {why}",
            "let all ranks make the same calls in the same order, or allow more time with simulate(hccl_timeout_s=)",
        )
        self.clique.fail(error)


class Flow:
    """What one rank sends to another through the *room* bytes of buffer that this one has for it."""

    __slots__ = ("_held", "_room")

    def __init__(self, room: int) -> None:
        self._room = room
        self._held: OrderedDict[Delivery, None] = OrderedDict()  # Sends that have had their turn and find no room

    def __repr__(self) -> str:
        return f"<Flow room={self._room} held={len(self._held)}>"

    def offer(self, delivery: "Delivery") -> None:
        """Let *delivery* set out as soon as there is room behind the earlier ones."""
        self._held[delivery] = None
        self._go_on()

    def leave(self, delivery: "Delivery") -> None:
        """Give back the room of *delivery*, or its place among those that wait for room."""
        if delivery.has_set_out:
            self._room += delivery.nbytes
        else:
            self._held.pop(delivery, None)
        self._go_on()

    def _go_on(self) -> None:
        while self._held and (delivery := next(iter(self._held))).nbytes <= self._room:
            del self._held[delivery]
            self._room -= delivery.nbytes
            delivery.set_out()


class Delivery(Exchange):
    """A Send and its Recv, where the receiver has a buffer.

    If the Send has its turn first and its bytes fit the buffer, they set out, and the Send ends when they are there
    (asked of an H200: send_returns_early). The Recv then takes them out as fast as they came in.
    """

    __slots__ = ("_flow", "_lasted_ns", "_received_ns", "_set_out_ns")

    def __init__(self, clique: "Clique", key: Key, flow: Flow) -> None:
        super().__init__(clique, key, key[:2])
        self.is_watched = True
        self._flow = flow
        self._set_out_ns = -1
        self._lasted_ns = -1  # how long the bytes were on their way, once they are in the buffer
        self._received_ns = -1  # when the Recv had its turn

    @property
    def nbytes(self) -> int:
        """How many bytes the Send has."""
        call = self.calls[_SENDER]
        assert call is not None, f"{self!r} has no Send"
        return call.nbytes

    @property
    def has_set_out(self) -> bool:
        """Whether the bytes have gone to the buffer, without the Recv."""
        return self._set_out_ns >= 0

    @property
    def has_begun(self) -> bool:
        """Whether bytes move, or have moved, and no Recv is known that does not fit."""
        return (self.has_set_out and self.calls[1 - _SENDER] is None) or super().has_begun

    def moves(self, seat: int) -> bool:
        """Whether the bytes of *seat* move, or have moved."""
        return (self.has_set_out and seat == _SENDER) or self.has_begun

    def set_out(self) -> None:
        """Move the bytes to the buffer."""
        self._set_out_ns = self.clique.scheduler.now
        self.clique.play(self, self._cross)

    def _go_on(self) -> None:
        if self.arrived[1 - _SENDER] and self._received_ns < 0:
            self._received_ns = self.clique.scheduler.now
        if self.has_set_out:
            self._take_out()
        elif self.left and self.arrived[_SENDER]:
            self._flow.offer(self)
        else:
            if not self.left:
                self._flow.leave(self)
            super()._go_on()

    def _cross(self, now: Nanoseconds) -> None:
        """End the Send: its bytes are in the buffer."""
        if self.is_over:
            return
        self._lasted_ns = now - self._set_out_ns
        op, call = self.ops[_SENDER], self.calls[_SENDER]
        assert op is not None, f"{self!r} has no sender"
        assert call is not None, f"{self!r} has no Send"
        op.stream.context.device.workers.prepare(op)
        error: DeviceError | None = None
        try:
            self.results = [[], [results.sent(call)]]
        except DeviceError as found:
            error = found
        _engine(op).leave(op, error)
        if op.error is not None:
            self._lose(op, op.error)
        else:
            self._take_out()

    def _take_out(self) -> None:
        """Let the Recv, if it has its turn, end when it has taken the bytes out of the buffer."""
        if self._lasted_ns >= 0 and not self.left and self.agrees:
            self._at(max(self.clique.scheduler.now, self._received_ns + self._lasted_ns), Delivery._taken_out)

    def _taken_out(self) -> None:
        if not self.is_over:
            self._leave(None)

    def _leave(self, error: DeviceError | None) -> None:
        super()._leave(error)
        self._flow.leave(self)

    def _there(self) -> list[Op]:
        there = super()._there()
        return there[1:] if self._lasted_ns >= 0 else there


def _is_unchanged(op: Op) -> bool:
    return type(op.work) is Part


def _engine(op: Op) -> "Parts":
    """Return the engine of *op*, a part of a collective."""
    return cast("Parts", op.queue.engine)
