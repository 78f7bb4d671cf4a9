"""Two simpler detectors, to compare with: what they know, and what they do not.

`by_pointer` works as PyTorch's stream sanitizer is described to: it keys on base pointers, keeps the last write and the
reads since, and learns order from events and synchronisation. It knows no default-stream rule, no accesses of the host
and no lifetimes. `by_last_writer` has the exact order and the exact bytes, but remembers only who wrote each byte last.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.sanitizer.oracle.promises import Promises
from tests.sanitizer.oracle.reading import Call, Entry, Life
from tests.sanitizer.oracle.verdicts import Touch, touches

Clock = dict[object, int]  # for each stream, the number of its last operation that is known to have ended
Pairs = set[tuple[int, int]]  # the indices of two steps


@dataclass
class _Tensor:
    """Who wrote a tensor last, and who has read it since: step, stream and number of each operation."""

    write: tuple[int, object, int] | None = None
    reads: list[tuple[int, object, int]] = field(default_factory=list)


def by_pointer(calls: Sequence[Call]) -> Pairs:
    """The pairs that a detector with base pointers and events reports."""
    return _ByPointer().run(calls)


class _ByPointer:
    def __init__(self) -> None:
        self.number = 0
        self.clocks: defaultdict[object, Clock] = defaultdict(dict)
        self.host: Clock = {}  # what the host has waited for
        self.records: dict[Entry, Clock] = {}
        self.tensors: defaultdict[Life, _Tensor] = defaultdict(_Tensor)
        self.pairs: Pairs = set()

    def run(self, calls: Sequence[Call]) -> Pairs:
        for call in calls:
            if call.entry is not None:
                self._take(call, call.entry)
            for target in (*call.first, *call.last):
                if target.entry is not None and target.entry in self.records:
                    self._learn(self.records[target.entry])
                elif target.stream is not None:
                    self._learn(self._clock(target.stream))
                elif target.entry is None:
                    self._learn(dict.fromkeys(self.clocks, self.number))
        return self.pairs

    def _clock(self, stream: object) -> Clock:
        """A stream that is new knows what the host knows."""
        if stream not in self.clocks:
            self.clocks[stream] = dict(self.host)
        return self.clocks[stream]

    def _learn(self, clock: Clock) -> None:
        """The host has waited: every stream's later work comes behind *clock*."""
        for known in (self.host, *self.clocks.values()):
            _merge(known, clock)

    def _take(self, call: Call, entry: Entry) -> None:
        clock = self._clock(entry.stream)
        self.number += 1
        if entry.role in ("record", "set"):
            self.records[entry] = dict(clock)
        elif entry.role == "wait" and entry.behind is not None:
            _merge(clock, self.records[entry.behind])
        elif entry.role == "work":
            clock[entry.stream] = self.number
            for access in sorted(entry.accesses, key=lambda access: access.writes):
                self._touch(call, entry.stream, self.tensors[access.life], clock, writes=access.writes)

    def _touch(self, call: Call, stream: object, tensor: _Tensor, clock: Clock, *, writes: bool) -> None:
        rivals = tensor.reads if writes and tensor.reads else [tensor.write] if tensor.write is not None else []
        for index, other, number in rivals:
            if index != call.index and clock.get(other, 0) < number:
                self.pairs.add((index, call.index))
        if writes:
            tensor.write, tensor.reads = (call.index, stream, self.number), []
        else:
            tensor.reads.append((call.index, stream, self.number))


def _merge(clock: Clock, other: Clock) -> None:
    for stream, number in other.items():
        clock[stream] = max(clock.get(stream, 0), number)


def by_last_writer(calls: Sequence[Call], promises: Promises) -> Pairs:
    """The pairs that a detector reports which remembers the last writer of each byte, and nothing else."""
    writers: dict[tuple[Life, int], Touch] = {}
    pairs: Pairs = set()
    for touch in touches(calls):
        if touch.how != "access":
            continue
        for low, high in touch.bytes:
            for byte in range(low, high):
                writer = writers.get((touch.life, byte), touch)
                if writer.call is not touch.call and not promises.is_before(writer.until, touch.since):
                    pairs.add((writer.call.index, touch.call.index))
                if touch.writes:
                    writers[touch.life, byte] = touch
    return pairs
