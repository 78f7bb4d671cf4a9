"""Chains of waits: what a completion that is not done waits for, what that waits for, and so on, as data.

A completion knows what waits for it, not what it waits for itself: to keep both would cost every operation. So a report
turns the arrows round. It walks from the unfinished work of all devices along `waiters` and notes for each waiter its
causes; `Chains.of` then follows one wait to where it ends or closes. Each `Link` is one arrow: the operation A, which
waits for the kernel B, is `Link(A, Relation.WAITS, B)`. Texts are made from links in acl_py/waiting/deadlocks.py.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Protocol

from device_model.collectives.cliques import Clique
from device_model.collectives.parts import Part
from device_model.completions import AllOf, Completion, FirstOf, Need, Process
from device_model.frozen import Frozen
from device_model.ops import Op
from device_model.steps import Step
from device_model.streams import Stream

_LONGEST = 20  # links of a chain; it is cut off behind them


class Relation(Enum):
    """How the subject of a link depends on its cause; those under "ends" have no cause."""

    WAITS = "the subject begins when its cause is done"
    BEHIND = "the cause is the head of the subject's hardware queue, and work of another stream"
    SET_BY = "the subject waits for something that its cause, which is queued, will set"
    NEEDS = "the subject is a Need, which its cause will fulfil at the earliest"
    # Ends:
    MEETS = "the subject, a part of a collective, has its turn, and its cause, the part of another rank, has not"
    ALONE = "the subject, a part of a collective, has its turn, and another rank has not called, or otherwise"
    RUNS = "the subject is running"
    NEXT = "the subject is the head of its hardware queue and waits for its engine"
    NEVER = "nothing queued or running can complete the subject"
    CLOSES = "the subject is in the chain already"
    CUT = "the chain is longer than it is shown; the subject is the next in it"


class Link(Frozen):
    """One wait: the *subject*, its *relation* to the *cause*, and how many more operations of the same stream stand
    between the two (*skipped*).
    """

    subject: Completion
    relation: Relation
    cause: Completion | None = None
    skipped: int = 0


class Streams(Protocol):
    """What chains read of a `Context`."""

    def everything(self) -> Iterable[Stream]:
        """Return all its streams, the default streams included."""


class HasRanks(Protocol):
    """What chains read of the `Parts` of a device."""

    @property
    def waiting(self) -> Iterable[Op]:
        """The parts of collectives that have had their turn and have not ended."""


class Unfinished(Protocol):
    """What chains read of a `Device`."""

    @property
    def contexts(self) -> Iterable[Streams]:
        """Its contexts, through which chains find the steps of streams."""

    @property
    def parts(self) -> HasRanks:
        """Its parts of collectives."""

    def unfinished(self) -> Iterable[Op]:
        """Return its operations that have not ended."""


class Chains:
    """What waits for what in a simulation, as it is when this is made."""

    def __init__(self, devices: Iterable[Unfinished], more: Iterable[Completion] = ()) -> None:
        """Look at the unfinished work of *devices*, and at *more* completions that something waits for."""
        self._causes: dict[object, list[Completion]] = {}
        self.cliques: dict[Clique, None] = {}  # of the collectives that wait for ranks
        todo: list[Completion] = list(more)
        for device in devices:
            waiting = [op.work for op in device.parts.waiting if isinstance(op.work, Part)]
            self.cliques.update((part.rank.clique, None) for part in waiting if part.awaited() is not None)
            todo += device.unfinished()
            for stream in (stream for context in device.contexts for stream in context.everything()):
                todo += [stream.tail, *stream.pending, *stream.steps]
        seen: dict[Completion, None] = {}
        for completion in todo:  # grows
            if completion in seen or completion.done:
                continue
            seen[completion] = None
            for waiter in completion.waiters or ():
                self._causes.setdefault(waiter, []).append(completion)
                if isinstance(waiter, Completion):
                    todo.append(waiter)

    def of(self, completion: Completion) -> list[Link]:
        """Return the links from *completion* on; empty if it is done. The cause of one is the subject of the next.

        Completions that only stand for others (AllOf, FirstOf, a host that is busy) are left out.
        """
        links: list[Link] = []
        seen: dict[Completion, None] = {}
        subject: Completion | None = completion
        while subject is not None and not subject.done:
            if subject in seen or len(links) == _LONGEST:
                links.append(Link(subject, Relation.CLOSES if subject in seen else Relation.CUT))
                break
            seen[subject] = None
            relation, cause = self._look(subject)
            skipped = 0
            if isinstance(subject, Op) and relation is Relation.WAITS:
                cause, skipped = self._skip(subject, cause, seen)
            if relation is not None:
                links.append(Link(subject, relation, cause, skipped))
            subject = cause
        return links

    def _skip(self, op: Op, cause: Completion | None, seen: dict[Completion, None]) -> tuple[Completion | None, int]:
        """Return the last operation of the stream of *op* that *op* waits for, and how many are between them."""
        skipped = 0
        while isinstance(cause, Op) and cause.stream is op.stream and cause not in seen:
            _, further = self._look(cause)
            if not isinstance(further, Op) or further.stream is not op.stream:
                break
            seen[cause] = None
            cause, skipped = further, skipped + 1
        return cause, skipped

    def _look(self, subject: Completion) -> tuple[Relation | None, Completion | None]:
        cause = self._cause(subject)
        if isinstance(subject, Op):
            return _look_at_op(subject, cause)
        if isinstance(subject, Need):
            return self._look_at_need(subject)
        if isinstance(subject, Step):
            return _look_at_step(subject, cause)
        if isinstance(subject, Process):
            return None, subject.awaited
        if isinstance(subject, AllOf | FirstOf):
            return None, cause
        return (Relation.NEVER, None) if cause is None else (Relation.WAITS, cause)

    def _cause(self, waiter: object) -> Completion | None:
        return next((each for each in self._causes.get(waiter, ()) if not each.done), None)

    def _look_at_need(self, need: Need) -> tuple[Relation, Completion | None]:
        hope = need.hope()
        if hope is not None and not isinstance(hope, Completion):
            hope = self._cause(hope)
        return (Relation.NEVER, None) if hope is None or hope.done else (Relation.NEEDS, hope)


def _look_at_step(step: Step, cause: Completion | None) -> tuple[Relation, Completion | None]:
    awaited = step.awaited
    if awaited is not None and not awaited.done:
        if isinstance(awaited, Op | AllOf | Process) or cause is not None:
            return Relation.WAITS, awaited
        hope = step.hope() if step.hope is not None else None
        if hope is not None and not hope.done:
            return Relation.SET_BY, hope
    return Relation.NEVER, None


def _look_at_op(op: Op, cause: Completion | None) -> tuple[Relation, Completion | None]:
    if op.start_ns >= 0:
        return _look_at_part(op.work) if isinstance(op.work, Part) else (Relation.RUNS, None)
    if cause is not None:
        return Relation.WAITS, cause
    fifo = op.queue.fifo
    if op in fifo and fifo[0] is not op:
        return Relation.BEHIND, fifo[0]
    return Relation.NEXT, None


def _look_at_part(part: Part) -> tuple[Relation, Completion | None]:
    """Return what a part of a collective waits for that has its turn: the first rank that has not, if it has called."""
    exchange = part.awaited()
    if exchange is None:
        return Relation.RUNS, None
    first = next(exchange.missing(), None)
    if first is not None and exchange.agrees:
        return Relation.MEETS, first
    return Relation.ALONE, None
