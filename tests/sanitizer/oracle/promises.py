"""The order that the documents promise, as reachability over a graph.

Nodes are moments: a call is entered, has its effect, returns; an entry begins, ends. An edge is a promise that one
moment is not after another. The past of a moment is every moment that has a path to it.

A wait for a signal has no edge from one set: any set that the wait could see may be the one. Its past is what all
choices have in common. `Promises` therefore computes pasts until they no longer grow.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from tests.sanitizer.oracle.reading import Call, Entry, Stream, Target, satisfies

Moment = tuple[str, object]


def enter(call: Call) -> Moment:
    """The host enters *call*."""
    return "enter", call


def effect(call: Call) -> Moment:
    """*call* frees its memory, or lets its entry begin, after what it waits for first."""
    return "effect", call


def leave(call: Call) -> Moment:
    """*call* returns."""
    return "leave", call


def begin(entry: Entry) -> Moment:
    """*entry* begins: it is its turn."""
    return "begin", entry


def end(entry: Entry) -> Moment:
    """*entry* has ended."""
    return "end", entry


class Promises:
    """Which moments come before which. With *habits*, what drivers do without a promise counts too."""

    def __init__(self, calls: Sequence[Call], *, habits: bool = False) -> None:
        self.calls = calls
        self.entries = [call.entry for call in calls if call.entry is not None]
        self._numbers: dict[Moment, int] = {}
        self._behind: defaultdict[int, set[int]] = defaultdict(set)  # direct predecessors
        self._by_index = {call.index: call for call in calls}
        self._host(habits=habits)
        self._streams()
        self._default_streams()
        self._waits()
        self.past = [0] * len(self._numbers)
        self._grow()

    def is_before(self, one: Moment, other: Moment) -> bool:
        """Whether *one* is promised to be no later than *other*."""
        return bool(self.past[self._numbers[other]] >> self._numbers[one] & 1)

    # --- edges

    def _edge(self, one: Moment, other: Moment) -> None:
        self._behind[self._number(other)].add(self._number(one))

    def _number(self, moment: Moment) -> int:
        return self._numbers.setdefault(moment, len(self._numbers))

    def _host(self, *, habits: bool) -> None:
        last: dict[str | None, Call] = {}
        for call in self.calls:
            self._edge(enter(call), effect(call))
            self._edge(effect(call), leave(call))
            if call.task in last:
                self._edge(leave(last[call.task]), enter(call))
            last[call.task] = call
            if call.after is not None:
                self._edge(leave(self._by_index[call.after]), enter(call))
            self._awaited(call, call.first, effect(call))
            self._awaited(call, call.last, leave(call))
            if habits:
                self._awaited(call, call.maybe, effect(call))
            for target in call.last:
                if target.turn is not None:
                    self._edge(begin(target.turn), leave(call))
            if call.entry is not None:
                self._edge(effect(call), begin(call.entry))
                self._edge(begin(call.entry), end(call.entry))

    def _awaited(self, call: Call, targets: Iterable[Target], moment: Moment) -> None:
        for target in targets:
            for entry in covered(target, self.entries, call.place):
                self._edge(end(entry), moment)

    def _streams(self) -> None:
        """Entries of one stream take their turns in order."""
        by_stream: defaultdict[Stream, list[Entry]] = defaultdict(list)
        for entry in self.entries:
            if entry.stream is not None:
                by_stream[entry.stream].append(entry)
        for entries in by_stream.values():
            for one, other in pairwise(entries):
                self._edge(end(one), begin(other))

    def _default_streams(self) -> None:
        """S2: an entry of the legacy stream is behind all earlier work of the device's blocking streams, and all their
        later work is behind it. An allocation there waits for none of them (an H200 was asked).
        """
        for place, entry in enumerate(self.entries):
            for earlier in self.entries[:place]:
                kinds = [each.stream.kind if each.stream is not None else "free" for each in (earlier, entry)]
                if kinds == ["blocking", "legacy"] and entry.role == "alloc":
                    continue
                if sorted(kinds) == ["blocking", "legacy"] and earlier.stream.device == entry.stream.device:
                    self._edge(end(earlier), begin(entry))

    def _waits(self) -> None:
        for entry in self.entries:
            if entry.role == "wait" and entry.behind is not None:
                self._edge(end(entry.behind), end(entry))
            if entry.blocks and entry.until is not None:
                self._edge(enter(entry.until), end(entry))

    # --- pasts

    def _grow(self) -> None:
        awaits = {self._number(end(entry)): entry for entry in self.entries if entry.role == "await"}
        grows = True
        while grows:
            grows = False
            for number in range(len(self.past)):
                past = 0
                for each in self._behind[number]:
                    past |= self.past[each] | 1 << each
                if number in awaits:
                    past |= self._common(awaits[number])
                if past | self.past[number] != self.past[number]:
                    self.past[number] |= past
                    grows = True

    def _common(self, wait: Entry) -> int:
        """The moments before the end of *wait*, whichever sets it passes on."""
        sets = [
            entry
            for entry in self.entries
            if entry.signal is wait.signal and entry.role == "set" and not self.is_before(end(wait), end(entry))
        ]
        enough = [entry for entry in sets if satisfies(entry.value, wait.need) and not self._is_cleared(entry, wait)]
        common = self._of_all_but(enough, 0)
        if wait.signal is not None and wait.signal.consumed:
            # Each wait that has passed before has used a set of its own.
            earlier = sum(
                other is not wait and other.signal is wait.signal and self.is_before(end(other), end(wait))
                for other in self.entries
                if other.role == "await"
            )
            common |= self._of_all_but(sets, earlier)
        return common

    def _is_cleared(self, entry: Entry, wait: Entry) -> bool:
        """Whether the set *entry* is surely undone, by a clear or an unfit value, when *wait* passes."""
        return any(
            self.is_before(end(entry), end(other)) and self.is_before(end(other), end(wait))
            for other in self.entries
            if other is not wait and other.signal is wait.signal and _undoes(other, wait)
        )

    def _of_all_but(self, sets: Sequence[Entry], spared: int) -> int:
        """The moments that are in the past of all *sets* but at most *spared*: more than that many must have ended."""
        if len(sets) <= spared:
            return 0  # the wait does not end
        pasts = [self.past[self._numbers[end(entry)]] | 1 << self._numbers[end(entry)] for entry in sets]
        if not spared:
            common = pasts[0]
            for past in pasts[1:]:
                common &= past
            return common
        return sum(
            1 << number
            for number in range(len(self._numbers))
            if sum(not past >> number & 1 for past in pasts) <= spared
        )


def covered(target: Target, entries: Iterable[Entry], place: int) -> list[Entry]:
    """The entries that a host which waits for *target*, in its call number *place*, waits for."""
    if target.entry is not None:
        return [target.entry]
    if target.turn is not None:
        return []
    return [entry for entry in entries if entry.call.place < place and _is_covered(target, entry.stream)]


def _is_covered(target: Target, stream: Stream | None) -> bool:
    if stream is None:
        return False  # its call has waited for it
    if target.stream is None:
        return stream.device == target.device if target.device is not None else stream.context == target.context
    # S8: a host that waits for the legacy stream waits for all blocking streams.
    is_blocking = target.stream.kind == "legacy" and stream.kind == "blocking"
    return stream is target.stream or (is_blocking and stream.device == target.stream.device)


def _undoes(entry: Entry, wait: Entry) -> bool:
    """Whether a wait like *wait* does not pass directly behind *entry*."""
    match entry.role:
        case "clear":
            return True
        case "set":
            return not satisfies(entry.value, wait.need)
    return entry.role == "await" and entry.signal is not None and entry.signal.consumed
