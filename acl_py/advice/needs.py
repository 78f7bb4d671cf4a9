"""What is in order only because of a wait: the relation of a run without it, against the pairs that must stay in order.

It says nothing of times: a pair that is in order without the wait is in order in every schedule that the promises of
the API allow. One run is one input, though: a line may be needed with other data.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from math import inf
from operator import itemgetter
from typing import NamedTuple

from acl_py.advice.lines import WaitLine, waits_of
from acl_py.advice.pairs import Doubt, Pair, Told, pairs_of
from acl_py.calls import acts
from acl_py.causes.relation import At, Changes, Node, Relation
from acl_py.trace.rows.reading import short_site
from acl_py.trace.rows.timeline import Ref, Timeline


class Behind(NamedTuple):
    """The node *other* is put behind *one*; with *reuse*, behind an event that the program records later."""

    one: Node
    other: Node
    reuse: bool = False


@dataclass(frozen=True, slots=True)
class Edit:
    """Waits that a program makes no longer, those of *lines*, and edges in their place."""

    lines: tuple[WaitLine, ...] = ()
    behind: tuple[Behind, ...] = ()

    def __add__(self, other: "Edit") -> "Edit":
        return Edit((*self.lines, *other.lines), (*self.behind, *other.behind))

    def changes(self) -> Changes:
        """Return what they change in the relation."""
        calls, awaits = waits_of(self.lines)
        behind: dict[Node, tuple[Node, ...]] = {}
        for one, other, _ in self.behind:
            behind[other] = (*behind.get(other, ()), one)
        return Changes(calls, awaits, behind)


@dataclass(frozen=True, slots=True)
class Loss:
    """The pairs that an edit leaves without order: those that are *known* to need it, and the *doubtful* ones.

    *at_barrier* are those that stay in order only because of a call that another finding is about.
    """

    known: tuple[Pair, ...] = ()
    doubtful: tuple[Pair, ...] = ()
    at_barrier: tuple[Pair, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.known or self.doubtful or self.at_barrier)


@dataclass(slots=True)
class _Variant:
    """A way to look at the program, and the pairs that are in order in it."""

    changes: Changes
    pairs: list[Pair] = field(default_factory=list)


class Judge:
    """Says what the order of the run in *timeline* rests on.

    *barriers* are calls that other findings advise to get rid of. What stays in order only because of these, or of the
    default stream if it *has_legacy* work that is a finding, is not in order for this judge.

    Raises:
        RacesError: accesses of the run are in no order.
    """

    def __init__(self, timeline: Timeline, barriers: Collection[int] = (), *, has_legacy: bool = False) -> None:
        self.timeline = timeline
        self.base = Relation(timeline, apart=True, moments=True)
        self._until_ns = inf
        self.pairs = pairs_of(self.base)
        known = [(max(map(self.base.when, pair[:2])), pair) for pair in self.pairs if pair.doubt is None]
        self._known = sorted(known, key=itemgetter(0))  # with when all is known about it
        self._seen = (
            self._variant(Changes(assumed=False)) if any(not each.seen for each in timeline.handovers) else None
        )
        free = Changes(frozenset(barriers), legacy=not has_legacy)
        self._free = self._variant(free) if barriers or has_legacy else None
        self._told = Told(self.base)

    def until(self, until_ns: int) -> "Judge":
        """Return a judge of what was done until *until_ns*."""
        judge = copy(self)
        judge._until_ns = until_ns
        judge._known = [each for each in self._known if each[0] <= until_ns]
        judge.pairs = self._pairs_until(self.pairs, until_ns)
        judge._seen, judge._free = (
            None if each is None else _Variant(each.changes, self._pairs_until(each.pairs, until_ns))
            for each in (self._seen, self._free)
        )
        return judge

    def _pairs_until(self, pairs: Sequence[Pair], until_ns: int) -> list[Pair]:
        return [pair for pair in pairs if max(map(self.base.when, pair[:2])) <= until_ns]

    def loss(self, edit: Edit, *, one: bool = False, told: Iterable[Node] = ()) -> Loss:
        """Return what *edit* leaves without order. If that is *one* pair or more, one is enough.

        What is *told* at some nodes must stay as true as it was.
        """
        relation, idle = self._relation(edit.changes(), is_lazy=True), self.idle_events(edit)
        first = self._first_known(relation, idle) if one else None
        if first is not None:
            return Loss((first,))
        relation.walk(self._until_ns)
        pairs = [*self.pairs, *self._pairs_told(told)]
        lost = [pair for pair in _ordered(relation, pairs, want=False) if pair.event not in idle]
        known = tuple(pair for pair in lost if pair.doubt is None)
        if known:
            return Loss(known, tuple(pair for pair in lost if pair.doubt is not None))
        if lost and one:
            return Loss((), tuple(lost))
        doubtful = lost
        if self._seen is not None:
            doubtful += [pair._replace(doubt=pair.doubt or Doubt.THREADS) for pair in self._lost(edit, self._seen)]
        at_barrier = () if self._free is None else tuple(self._lost(edit, self._free))
        return Loss((), tuple(doubtful), at_barrier)

    def _pairs_told(self, told: Iterable[Node]) -> Iterable[Pair]:
        nodes = (node for node in told if self.base.has(node) and self.base.when(node) <= self._until_ns)
        return chain.from_iterable(map(self._told.pairs, nodes))

    def idle_events(self, edit: Edit) -> set[int]:
        """Return the events for which nothing waits any more with *edit*: their records go, too, and what they were
        recorded behind need not be over when they end. If something comes behind the work of a stream, an event that
        is recorded there may be what it waits for.
        """
        if not any(pair.event is not None for pair in self.pairs):
            return set()
        calls, _ = waits_of(edit.lines)
        sources = {self.base.point(each.one).actor for each in edit.behind}
        busy = {pair.event for pair in self.pairs if self.base.point(pair.one).actor in sources}
        return {event for event, uses in self._uses.items() if uses <= calls and event not in busy}

    @cached_property
    def _uses(self) -> dict[int, set[int]]:
        """Return the calls that use each event, without records that may go; of events that have some."""
        uses: defaultdict[int, set[int]] = defaultdict(set)
        for index, call in enumerate(self.timeline.calls):
            match call.act:
                case acts.Made() | acts.Destroyed():
                    continue
                case acts.Recorded(_, Ref(stream)) if not self.timeline.handles[stream].name.startswith("legacy"):
                    continue  # one in the legacy stream stays, because it orders that
            for each in acts.leaves(call.act):
                if isinstance(each, Ref) and self.timeline.handles[each.handle].kind == "event":
                    uses[each.handle].add(index)
        return dict(uses)

    def _first_known(self, relation: Relation, idle: Collection[int]) -> Pair | None:
        """Return the first known pair that is in no order, except for lives of *idle* events; *relation* goes on until
        there.
        """
        for at_ns, pair in self._known:
            if pair.event in idle:
                continue
            relation.walk(at_ns)
            if not relation.is_plain:
                return None
            if not _is_ordered(relation, pair):
                return pair
        return None

    def _relation(self, changes: Changes, *, is_lazy: bool = False) -> Relation:
        relation = Relation(self.timeline, apart=True, moments=True, changes=changes, is_lazy=True, like=self.base)
        if not is_lazy:
            relation.walk(self._until_ns)
        return relation

    def _variant(self, changes: Changes) -> _Variant:
        return _Variant(changes, [*_ordered(self._relation(changes), self.pairs, want=True)])

    def _lost(self, edit: Edit, variant: _Variant) -> list[Pair]:
        changes = edit.changes()
        whole = replace(
            variant.changes,
            calls=changes.calls | variant.changes.calls,
            awaits=changes.awaits | variant.changes.awaits,
            behind=changes.behind,
        )
        idle = self.idle_events(edit)
        return [pair for pair in _ordered(self._relation(whole), variant.pairs, want=False) if pair.event not in idle]

    def edges(self, pairs: Iterable[Pair]) -> list[Behind]:
        """Return few edges that put *pairs* in order: of those between the same two actors each is from a later node
        than the one before.
        """
        point = self.base.point
        by_actors: dict[tuple[int, int], list[tuple[int, int, Pair]]] = {}
        for pair in pairs:
            one, other = point(pair.one), point(pair.other)
            by_actors.setdefault((one.actor, other.actor), []).append((other.epoch, -one.epoch, pair))
        edges = []
        for found in by_actors.values():
            latest = -1
            for _, minus, pair in sorted(found, key=lambda each: each[:2]):
                if -minus > latest:
                    latest = -minus
                    edges.append(Behind(pair.one, pair.other))
        return edges

    def text(self, node: Node) -> str:
        """Return what people call *node*."""
        return node_text(self.timeline, node)


def _ordered(relation: Relation, pairs: Sequence[Pair], *, want: bool) -> Iterable[Pair]:
    return (pair for pair in pairs if _is_ordered(relation, pair) is want)


def _is_ordered(relation: Relation, pair: Pair) -> bool:
    return relation.has(pair.one) and relation.has(pair.other) and relation.is_ordered(pair.one, pair.other)


def node_text(timeline: Timeline, node: Node) -> str:
    """Return what people call *node*: "first (file.py:12)"."""
    match node.at:
        case At.OP:
            op = timeline.ops[node.place]
            return f"{op.name} ({op.site})"
        case At.ACCESS:
            access = timeline.accesses[node.place]
            does = "an await" if access.after is not None else "a write" if access.writes else "a read"
            return f"{does} of the host ({short_site(access.file, access.line)})"
        case At.TOOK | At.GAVE:
            return "another task"
        case _:
            call = timeline.calls[node.place]
            return f"{call.called}() ({short_site(call.file, call.line)})"
