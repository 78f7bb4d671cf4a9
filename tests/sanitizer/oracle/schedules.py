"""All legal schedules of a small program: a second judge of the order, which knows no graph.

It plays the machine. A task enters its calls and returns from them; an entry of a stream begins when it is its turn,
and ends at any time after. Every state that can be reached this way is visited once. If an entry has begun while
another had not ended, in any of them, then nothing orders the two. The rules are written as conditions on a state, with
the words of the documents, and share no code with `promises`.
"""

from collections.abc import Iterator, Sequence

from tests.sanitizer.oracle.reading import Call, Entry, Signal, Stream, Target, satisfies

State = tuple[tuple[int, ...], int, int, tuple[int, ...]]  # of tasks; entries that run, that have ended; of signals


class TooMany(Exception):
    """The program has more states than one wants to visit."""


class Schedules:
    """The schedules of a program. Calls and entries are known by the place of their call; sets of them are masks.

    `ended_before[place]` has the entries that had ended, and `left_before[place]` the calls that had returned, in every
    schedule when the entry of that call began; `ended_at[place]` and `left_at[place]` the same when the call was
    entered. `begun` has the entries that ever begin, and `can_end` says whether a schedule comes to the end.
    """

    def __init__(self, calls: Sequence[Call], most: int = 20_000) -> None:
        self.entries = {call.place: call.entry for call in calls if call.entry is not None}
        self.tasks = [
            [call for call in calls if call.task == task] for task in dict.fromkeys(call.task for call in calls)
        ]
        self.signals: list[Signal] = list(
            dict.fromkeys(entry.signal for entry in self.entries.values() if entry.signal is not None)
        )
        places = {call.index: call.place for call in calls}
        self._held_by = {call.place: 0 if call.after is None else 1 << places[call.after] for call in calls}
        self._awaits = {call.place: self._mask(call, (*call.first, *call.last)) for call in calls}
        self._called = {
            call.place: sum(1 << target.turn.call.place for target in call.last if target.turn is not None)
            for call in calls
        }
        self._turn = {
            place: self._earlier(place, entry) | self._mask(entry.call, entry.call.first)
            for place, entry in self.entries.items()
        }
        self._all = sum(1 << place for place in self.entries)
        self.ended_before = dict.fromkeys(self.entries, -1)
        self.left_before = dict.fromkeys(self.entries, -1)
        self.ended_at = {call.place: -1 for call in calls}
        self.left_at = {call.place: -1 for call in calls}
        self.begun = 0
        self.can_end = False
        self._visit(most)

    # --- conditions: what must have ended

    def _mask(self, call: Call, targets: Sequence[Target]) -> int:
        """What *call* waits for, if it waits for *targets*."""
        return sum(
            1 << place
            for place, entry in self.entries.items()
            if any(self._covers(target, call, place, entry) for target in targets)
        )

    def _covers(self, target: Target, call: Call, place: int, entry: Entry) -> bool:
        if target.entry is not None or target.turn is not None:
            return entry is target.entry
        if place >= call.place or entry.stream is None:
            return False
        stream, wanted = entry.stream, target.stream
        if target.device is not None:
            return stream.device == target.device
        if target.context is not None:
            return stream.context == target.context
        assert wanted is not None, "a target is something"
        return stream is wanted or (wanted.kind == "legacy" and _is_beside(stream, wanted))

    def _earlier(self, place: int, entry: Entry) -> int:
        """What must have ended when *entry* begins."""
        return sum(
            1 << earlier
            for earlier, other in self.entries.items()
            if earlier < place and _comes_behind(entry, other.stream)
        )

    # --- states

    def _visit(self, most: int) -> None:
        first: State = (tuple(0 for _ in self.tasks), 0, 0, tuple(0 for _ in self.signals))
        known, waiting = {first}, [first]
        while waiting:
            state = waiting.pop()
            for move in self._moves(state):
                if move not in known:
                    known.add(move)
                    waiting.append(move)
            if len(known) > most:
                raise TooMany

    def _moves(self, state: State) -> Iterator[State]:
        """The states that follow. The place of a task in its calls is even before a call and odd within one."""
        places, begun, ended, levels = state
        entered = left = 0
        for place, calls in zip(places, self.tasks, strict=True):
            for call in calls[: place // 2]:
                left |= 1 << call.place
            if place % 2:
                entered |= 1 << calls[place // 2].place
        entered |= left
        if ended == self._all and all(place == 2 * len(calls) for place, calls in zip(places, self.tasks, strict=True)):
            self.can_end = True
        for task, (place, calls) in enumerate(zip(places, self.tasks, strict=True)):
            if place == 2 * len(calls):
                continue
            number = calls[place // 2].place
            moved = (*places[:task], place + 1, *places[task + 1 :]), begun, ended, levels
            if place % 2:
                if self._awaits[number] & ended == self._awaits[number] and not self._called[number] & ~(begun | ended):
                    yield moved
            elif self._held_by[number] & left == self._held_by[number]:
                self.ended_at[number] &= ended
                self.left_at[number] &= left
                yield moved
        for number, entry in self.entries.items():
            bit = 1 << number
            if ended & bit or not entered & bit:
                continue
            if begun & bit:
                yield from self._end(state, bit, entry, entered)
            elif self._turn[number] & ended == self._turn[number]:
                self.begun |= bit
                self.ended_before[number] &= ended
                self.left_before[number] &= left
                yield places, begun | bit, ended, levels

    def _end(self, state: State, bit: int, entry: Entry, entered: int) -> Iterator[State]:
        """The state in which *entry* has ended, if it may end now; *entered* has the calls that were entered."""
        places, begun, ended, levels = state
        if entry.role == "wait" and entry.behind is not None and not ended >> entry.behind.call.place & 1:
            return
        if entry.blocks and (entry.until is None or not entered >> entry.until.place & 1):
            return
        if entry.signal is not None and entry.role in ("set", "clear", "await"):
            number = self.signals.index(entry.signal)
            level = levels[number]
            if entry.role == "await":
                if not satisfies(level, entry.need):
                    return
                level = 0 if entry.signal.consumed else level
            else:
                level = entry.value if entry.role == "set" else 0
            levels = (*levels[:number], level, *levels[number + 1 :])
        yield places, begun & ~bit, ended | bit, levels


def _is_beside(stream: Stream, legacy: Stream) -> bool:
    return stream.kind == "blocking" and stream.device == legacy.device


def _comes_behind(entry: Entry, other: Stream | None) -> bool:
    """Whether *entry* waits for all that was put into *other* before it."""
    stream = entry.stream
    if stream is None or other is None:
        return False
    if stream.kind == "legacy" and _is_beside(other, stream):
        return entry.role != "alloc"
    return stream is other or (other.kind == "legacy" and _is_beside(stream, other))
