"""When the card has done an operation, by CUPTI: the vendor's records of what each call has made the card do.

A record costs less time on the card than the pair of events that stands around an operation otherwise (times.py), and
has the times of the work alone. CUPTI hands the records of the whole process over when it is asked. So an operation
gets its times some time after it has ended: when many have ended, at the end of the run, or when somebody looks at the
trace.

The records of a stream come in the order of their calls, and so do the operations. A record must also be of the same
kind, with the same bytes or the same kernel. Any other record is of another library's work in the stream, and is left.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import groupby, islice
from operator import attrgetter
from time import perf_counter_ns
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from acl_py.card.cuda.driver import LEGACY, PER_THREAD
from acl_py.card.times import EventTimes
from acl_py.card.work import Mark
from acl_py.late_imports import import_late
from acl_py.log import note
from device_model.completions import Nanoseconds
from device_model.ops import Op

if TYPE_CHECKING:
    from acl_py.card.cuda.contexts import CudaContext
    from acl_py.card.streams import CardStream

_BUFFER = 8 << 20  # bytes that CUPTI fills at a time
_MANY = 4096  # operations that have ended without times
_AHEAD = 64  # so many operations may have no record
_IN_BYTES = ("copy", "fill")
_READINGS = 50  # of both clocks, of which the quickest counts


Place: TypeAlias = tuple[int, int]  # of a stream: the number of its card, and the number that CUPTI gives it


class Done(NamedTuple):
    """What the card has done for one call, and when."""

    mark: Mark
    start_ns: int
    end_ns: int


class Activities:
    """The records of this process, by the place of the stream; CUPTI's clock is not Python's."""

    def __init__(self, cupti: ModuleType) -> None:
        self.cupti = cupti
        self._new: list[Any] = []
        self._kept: dict[Place, list[Done]] = {}  # of streams of runs
        self._users = 0
        self.cupti.activity_register_callbacks(lambda: (_BUFFER, 0), self._new.extend)
        kinds = self.cupti.ActivityKind
        self._kinds: dict[int, tuple[str, Callable[[Any], Any]]] = {
            int(kinds.CONCURRENT_KERNEL): ("kernel", attrgetter("name")),
            int(kinds.MEMCPY): ("copy", attrgetter("bytes")),
            int(kinds.MEMCPY2): ("copy", attrgetter("bytes")),
            int(kinds.MEMSET): ("fill", attrgetter("bytes")),
            int(kinds.GRAPH_TRACE): ("graph", lambda _: None),
        }

    def begin(self) -> None:
        """Let CUPTI keep records."""
        self._users += 1
        if self._users == 1:
            for kind in self._kinds:
                self.cupti.activity_enable(kind)

    def end(self) -> None:
        """Let CUPTI keep no more records, if no other run needs them."""
        self._users -= 1
        if not self._users:
            for kind in self._kinds:
                self.cupti.activity_disable(kind)

    def take(self, places: Collection[Place]) -> dict[Place, list[Done]]:
        """Return what is new of the streams at *places*, in the order of the calls. Other runs and cards ask for theirs
        with the same records, so these are kept for them.
        """
        self.cupti.activity_flush_all(0)
        records = [record for record in self._new if record.kind in self._kinds]
        self._new.clear()
        order = attrgetter("device_id", "stream_id", "correlation_id")
        for (device, stream, _), parts in groupby(sorted(records, key=order), order):
            if (device, stream) in self._kept:  # otherwise it is a stream of another library
                self._kept[device, stream].append(self._done(list(parts)))
        taken = {place: self._kept.get(place, []) for place in places}
        self._kept.update({place: [] for place in places})
        return taken

    def _done(self, parts: list[Any]) -> Done:
        """Return what *parts*, the records of one call, come to."""
        kind, what = self._kinds[parts[0].kind]
        start_ns, end_ns = min(each.start for each in parts), max(each.end for each in parts)
        values = [what(each) for each in parts]
        return Done((kind, sum(values) if kind in _IN_BYTES else values[0]), start_ns, end_ns)

    def place_of(self, stream: "CardStream") -> Place:
        """Return the place of *stream*, of which records are kept from now on."""
        device, is_named = stream.context.device, stream.handle in (LEGACY, PER_THREAD)
        handle = 0 if is_named else int(stream.handle)
        number = self.cupti.get_stream_id_ex(int(device.context_handle), handle, stream.handle == PER_THREAD)
        place = device.ordinal, int(number)
        self._kept.setdefault(place, [])
        return place

    def forget(self, places: Iterable[Place]) -> None:
        """Keep no more records of the streams at *places*."""
        for place in places:
            self._kept.pop(place, None)  # two runs at the same time may share a default stream

    def ahead_ns(self) -> tuple[Nanoseconds, Nanoseconds]:
        """Return by how much CUPTI's clock is ahead of Python's, and within what error."""
        took_ns, ahead_ns = min(map(self._reading, range(_READINGS)))
        return ahead_ns, took_ns // 2

    def _reading(self, _: int) -> tuple[Nanoseconds, Nanoseconds]:
        before = perf_counter_ns()
        there = int(self.cupti.get_timestamp())
        after = perf_counter_ns()
        return after - before, there - (before + after) // 2


_activities: list[Activities] = []  # one in a process, once it is asked for


def activities() -> Activities | None:
    """Return the records of this process; None if CUPTI is not installed, or does not work with this driver."""
    if not _activities:
        try:
            cupti = import_late("cupti.cupti")
        except ImportError:
            return None
        try:
            _activities.append(Activities(cupti))
        except cupti.cuptiError as error:
            note("warning", "events time operations", because=f"CUPTI does not work with this driver: {error}")
            return None
    return _activities[0]


class RecordTimes:
    """The times of the operations of one card, by records; *others* has those that make no record of their own."""

    def __init__(self, context: "CudaContext", records: Activities, others: EventTimes) -> None:
        self._context = context
        self._records = records
        self._others = others
        ahead_ns, self.error_ns = records.ahead_ns()
        self._ahead_ns = ahead_ns + context.device.runtime.scheduler.began_ns
        self._places: dict[CardStream, Place] = {}
        self._queued: dict[Place, deque[tuple[Op, Mark]]] = {}  # without a record so far
        self._times: dict[Op, tuple[Nanoseconds, Nanoseconds]] = {}  # of operations that are not known to be done
        self._ended: list[Op] = []  # without times
        records.begin()

    def begin(self, stream: "CardStream", mark: Mark | None) -> None:
        """Prepare for an operation with *mark*."""
        if mark is None:
            self._others.begin(stream, mark)

    def end(self, stream: "CardStream", op: Op, mark: Mark | None) -> None:
        """Note the place of *op*."""
        if mark is None:
            self._others.end(stream, op, mark)
            return
        place = self._places.get(stream)
        if place is None:
            place = self._places[stream] = self._records.place_of(stream)
        self._queued.setdefault(place, deque()).append((op, mark))

    def finish(self, op: Op) -> None:
        """Note that *op* is done."""
        if self._others.has(op):
            self._others.measure(op)
        self._ended.append(op)  # observers hear of all in the order of their ends
        if len(self._ended) >= _MANY:
            self.settle()

    def settle(self) -> None:
        """Give all that is done its times, and tell of it in the order of the ends."""
        found_in = self._records.take(self._queued) if self._context.error is None else {}
        for place, found in found_in.items():
            for op, done in matched(self._queued[place], found):
                self._times[op] = done.start_ns - self._ahead_ns, done.end_ns - self._ahead_ns
        ended, self._ended = self._ended, []
        for op in ended:
            op.start_ns, op.end_ns = self._times.pop(op, (op.start_ns, op.end_ns))
        for op in sorted(ended, key=attrgetter("end_ns")):
            self._context.tell(op)

    def close(self) -> None:
        """Let CUPTI go."""
        self._records.forget(self._queued)
        self._records.end()
        self._others.close()


def matched(queued: "deque[tuple[Op, Mark]]", found: Iterable[Done]) -> Iterator[tuple[Op, Done]]:
    """Yield the operations of *queued* that have done what was *found*, and take them out; both are in order."""
    for done in found:
        ahead = enumerate(islice(queued, _AHEAD))
        place = next((place for place, (_, mark) in ahead if mark == done.mark), None)
        if place is not None:
            for _ in range(place):
                queued.popleft()  # it has made no record
            yield queued.popleft()[0], done
