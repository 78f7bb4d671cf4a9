"""Sends that the program needs to end before their Recvs begin, and a group that does without.

Under CUDA's rules a Send whose bytes fit the buffer of the receiver ends before its Recv begins. A program may go on
only because of that: with larger messages it hangs. So it is run again without buffers. If it hangs then, runs with
larger and larger buffers find the least one with which it goes on, which says how large the messages may become.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from acl_py.calls.acts import Joined, Plain, Slept
from acl_py.errors import DeadlockError
from acl_py.explain.cases import Case, EditError, with_fields
from acl_py.explain.whatif import settled
from acl_py.programs.format import Step
from acl_py.programs.replay import replay
from device_model.chains import Chains, Relation
from device_model.collectives.calls import POINT_TO_POINT, CollectiveKind
from device_model.collectives.exchanges import Exchange
from device_model.collectives.parts import Part
from device_model.device import Device
from device_model.ops import Op
from device_model.rules import CollectiveRules

_SHOWN = 4  # Sends that a text names
_MOST_RUNS = 8  # with other buffers
_OF_PAIRS = {kind.value for kind in POINT_TO_POINT}


@dataclass(frozen=True, slots=True)
class EarlySend:
    """A Send of *rank* to *peer* at *line*, of *nbytes*, that has to end before its Recv begins."""

    line: str
    rank: int
    peer: int
    nbytes: int

    @property
    def text(self) -> str:
        """The Send in words."""
        return f"rank {self.rank} sends {self.nbytes:,} bytes to rank {self.peer} ({self.line})"


@dataclass(frozen=True, slots=True)
class Buffered:
    """The *sends* that have to end before their Recvs begin. The buffers of a card have *room* bytes; the program goes
    on with *least* bytes, too, but not with less. *least* is 0 if that is not known.
    """

    sends: tuple[EarlySend, ...]
    room: int
    least: int

    @property
    def what(self) -> str:
        """What the program does, in words."""
        texts = [*dict.fromkeys(send.text for send in self.sends)]
        more = [f"{len(texts) - _SHOWN} more Sends"] * (len(texts) > _SHOWN)
        named = [*texts[:_SHOWN], *more]
        sends = named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"
        return f"{sends}, and only the buffers of the receivers let the program go on. {self._limit}"

    @property
    def _limit(self) -> str:
        sizes = {send.nbytes for send in self.sends}
        if not self.least:
            return "It hangs with larger messages"
        if len(sizes) == 1:
            return f"It hangs if each of these has more than {sizes.pop() * self.room // self.least:,} bytes"
        return f"It hangs if messages are more than {self.room / self.least:,.4g} times as large"

    @property
    def edit(self) -> str:
        """What to do about it, if no group is known to help."""
        peers = dict.fromkeys(f"rank {send.peer}" for send in self.sends)
        return f"Let {' or '.join(peers)} call Recv before anything waits for these Sends"


def early_sends(case: Case) -> Buffered | None:
    """Return the Sends without whose buffers *case* hangs; None if it goes on without."""
    spec = case.device.collectives
    if spec is None or case.rules.collectives is CollectiveRules.HCCL or not any(map(_sends, case.program.steps)):
        return None
    held = _held(case, 0)
    if not held:
        return None
    least, room, wanted = 0, spec.pairs.buffer_bytes, held
    for _ in range(_MOST_RUNS):
        least = max(1, min(_wanted(exchange) for _, exchange in wanted))
        wanted = _held(case, least) if least < room else []
        if not wanted:
            break
    else:
        least = 0
    return Buffered(tuple(_early(*each) for each in held), room, min(least, room))


def goes_on(case: Case) -> bool:
    """Whether *case* goes on without buffers."""
    return not _held(case, 0)


_Seat = tuple[Op, Exchange]  # a Send that has its turn and does not move, and its Recv


def _held(case: Case, room: int) -> list[_Seat]:
    """Return the Sends that hold *case* with so many bytes of buffers, in the order of their ranks; [] if it ends."""
    assert case.device.collectives is not None, "there are Sends"
    pairs = replace(case.device.collectives.pairs, buffer_bytes=room)
    case = case.on_device(collectives={"pairs": pairs})
    try:
        with settled():
            replay(case.program, device=case.device, rules=case.rules, sanitize=False)
    except DeadlockError as error:
        devices = _together(error)
        chains = Chains(devices)
        waiting = [(op, exchange) for each in devices for op in each.parts.waiting for exchange in _still(op)]
        held = [(op, exchange) for op, exchange in waiting if _is_cause(chains, op)]
        return sorted(held or waiting, key=lambda each: (each[1].clique.number, each[1].key))
    return []


def _together(error: DeadlockError) -> list[Device]:
    """Return the devices of the operations that *error* names, and all that share communicators with them."""
    found = [link.subject.stream.context.device for link in error.links if isinstance(link.subject, Op)]
    for device in found:  # grows
        others = (other.device for rank in device.parts.ranks for other in rank.clique.ranks)
        found += [other for other in dict.fromkeys(others) if other not in found]
    return [*dict.fromkeys(found)]


def _still(op: Op) -> Iterator[Exchange]:
    """Yield the exchanges in which a Send of *op* has its turn and does not move."""
    assert isinstance(op.work, Part), f"{op!r} is no part of a collective"
    for call, (exchange, seat) in zip(op.work.calls, op.work.seats, strict=True):
        if call.kind is CollectiveKind.SEND and not exchange.moves(seat):
            yield exchange


def _is_cause(chains: Chains, op: Op) -> bool:
    """Whether others wait for *op*, and not only *op* for others: it is in a circle, or its Recv is not called."""
    links = chains.of(op)
    return links[-1].relation is Relation.CUT or links[-1].subject is op


def _wanted(exchange: Exchange) -> int:
    """Return how large the buffer must be for the Send of *exchange* to set out behind those that are there."""
    sent = [other for other in exchange.clique.exchanges.values() if other.key[:-1] == exchange.key[:-1]]
    return sum(_nbytes(other) for other in sent if other.key <= exchange.key and other.calls[0] is not None)


def _nbytes(exchange: Exchange) -> int:
    call = exchange.calls[0]
    assert call is not None, f"{exchange!r} has no Send"
    return call.nbytes


def _early(op: Op, exchange: Exchange) -> EarlySend:
    sender, receiver = exchange.ranks
    return EarlySend(str(op.site), sender, receiver, _nbytes(exchange))


# --- the edit


def grouped(case: Case, sends: Sequence[EarlySend]) -> Case:
    """Return *case* with the Sends at the lines of *sends* in groups with the Sends and Recvs that follow them.

    Raises:
        EditError: no Recv follows them.
    """
    lines = {send.line for send in sends}
    groups = [group for group in _groups(case.program.steps, lines) if _has_both(group)]
    if not groups:
        raise EditError("no Recv follows these Sends that could be in a group with them")
    members = {step.index for group in groups for step in group}
    wholes = {group[-1].index: [call for step in group for call in step.fields["calls"]] for group in groups}

    def change(step: Step) -> list[Step]:
        if step.index in wholes:
            return [with_fields(step, calls=wholes[step.index], name=None)]
        return [] if step.index in members else [step]

    return case.with_steps(change)


def _groups(steps: Sequence[Step], lines: set[str]) -> Iterator[list[Step]]:
    """Yield the Sends and Recvs that a task makes one after the other, from a Send at one of *lines* on."""
    open_: dict[tuple[str | None, str | None], list[Step]] = {}
    for step in steps:
        who = step.task, step.thread
        if _is_of_pairs(step) and (who in open_ or (step.line in lines and _sends(step))):
            open_.setdefault(who, []).append(step)
            if step.id is None:
                continue
        elif isinstance(step.act, Plain | Slept):  # it waits for nothing in a stream
            continue
        if who in open_:
            yield open_.pop(who)
    yield from open_.values()


def _has_both(group: Sequence[Step]) -> bool:
    return {call["kind"] for step in group for call in step.fields["calls"]} == _OF_PAIRS


def _is_of_pairs(step: Step) -> bool:
    return isinstance(step.act, Joined) and all(call["kind"] in _OF_PAIRS for call in step.fields["calls"])


def _sends(step: Step) -> bool:
    send = CollectiveKind.SEND.value
    return isinstance(step.act, Joined) and any(call["kind"] == send for call in step.fields["calls"])
