"""Streams of a card, and how the host finds out what they have done.

A stream keeps the completions of what it was given, in order and numbered, until it knows that they are done. The card
tells nothing by itself. It answers two questions, each in a microsecond: whether a stream is empty, and whether an
event was reached. So what is waited for needs a *mark* behind it, an event that the card reaches, unless it is the last
entry of its stream. Work of a stream is done in order: a mark that is reached stands for all entries before it.

A mark costs a call, so it is made as late as possible:

* when others follow what is waited for;
* in front of a wait, a host function or work of the legacy stream, if entries before it have no mark: a mark behind
  these would wait for them, too, and they may never end.

A record of a program's own event is a mark at no cost.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from device_model.completions import NOTHING, Completion, Nanoseconds
from device_model.ops import Op
from device_model.queues import HardwareQueue
from device_model.streams import Stream

if TYPE_CHECKING:
    from acl_py.card.contexts import CardContext
    from device_model.streams import LegacyOrder


class Entry(Completion):
    """A record, a wait, or all that a stream was given up to here."""

    __slots__ = ("stream",)

    def __init__(self, stream: "CardStream") -> None:
        super().__init__()
        self.stream: CardStream = stream


class Mark:
    """An event that stands for the entries up to *number*; it is *ours* if no event of the program has it."""

    __slots__ = ("event", "is_ours", "number")

    def __init__(self, number: int, event: Any, is_ours: bool) -> None:
        self.number = number
        self.event = event
        self.is_ours = is_ours


class CardStream(Stream):
    """A stream of a card, by its *handle* in the driver. *order* is None for one outside the default-stream rule."""

    __slots__ = (
        "_asked", "_first", "_last", "_marked", "_marks", "_numbers", "_worked", "driver", "handle", "is_legacy",
    )  # fmt: skip
    context: "CardContext"

    def __init__(
        self,
        context: "CardContext",
        id_: int,
        name: str,
        queues: tuple[HardwareQueue, ...],
        order: "LegacyOrder | None",
        priority: int,
        made: object,
        handle: Any,
    ) -> None:
        super().__init__(context, id_, name, queues, order, priority, made)
        self.driver = context.driver
        self.handle = handle
        self.is_legacy = False  # it is ordered with the blocking streams
        self._numbers: dict[Completion, int] = {}  # of the entries that are not known to be done, in order
        self._first = 0  # the number of the last entry that is known to be done
        self._last = 0  # the number of the last entry
        self._asked = 0  # up to here a host wants to know
        self._worked = 0  # the number of the last entry that is no wait: hosts may come to wait for it
        self._marked = 0  # up to here there are marks
        self._marks: deque[Mark] = deque()

    @property
    def idle(self) -> bool:
        """Whether all of its work is done, and that of blocking streams for the legacy stream; asks the card."""
        if self.count_work():
            return False
        return not self.is_legacy or all(stream.idle for stream in self.context.blocking())

    def count_work(self) -> int:
        """Complete what is done, and return how many entries are left; asks the card."""
        if self._numbers:
            self.look(all_of_it=True)
        return len(self._numbers)

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return the version of this protocol, and the stream of the driver: for torch, CuPy, numba and cuda.core."""
        return 0, int(self.handle)

    @property
    def entries(self) -> Iterable[Completion]:
        """What is not known to be done, in order."""
        return self._numbers

    # --- work

    def enqueue(self, op: Op, ready_ns: Nanoseconds, now: bool = True) -> None:  # noqa: ARG002 - the card decides
        """Make the call that queues *op*."""
        context = self.context
        times, works = context.times, context.works
        op.stream = self
        op.queued_ns = op.ready_ns = self.scheduler.now
        op.queue = self.queues[op.lane]  # the trace tells the engine by it
        maker = works.makers.get(type(op.work)) or works.of(op.work)
        # A mark is needed for what is waited for and will not be the last entry, and in front of what may last.
        if (self._asked > self._first and self._asked > self._marked) or maker.may_last:
            self.mark_all()
        if self.is_legacy:
            self._mark_others()
        if times is not None:
            mark = maker.mark(op.work)
            times.begin(self, mark)
            if op.called_ns >= 0:
                op.called_ns = self.scheduler.now  # the recording is no part of the call
            maker.call(self, op)
            op.queued_ns = op.ready_ns = self.scheduler.now
            times.end(self, op, mark)
        else:
            maker.call(self, op)
        self._last = self._worked = number = self._last + 1
        self._numbers[op] = number
        self.tail = op

    def record(self, event: Any) -> Mark:
        """Record *event*, which belongs to an event of the program; the record is the tail then. Return its mark."""
        if self.is_legacy:
            self._mark_others()
        self.driver.record(event, self.handle)
        self._add()
        return self._mark(event)

    def wait_for(self, event: Any, work: Completion) -> None:
        """Let work that is queued from now on wait for *event*, whose last record is that of *work*."""
        if work.done and not self.is_legacy:  # there a wait is a barrier, whatever it is for
            return
        if self._marked < max(self._worked, self._asked):  # no host comes to wait for a wait alone
            self.mark_all()
        if self.is_legacy:
            self._mark_others()
        self.driver.wait(self.handle, event)
        self._add()

    def take(self, call: Callable[[], object], *, may_last: bool = True) -> Completion:
        """Make a *call* of the driver that queues here what is no operation; return its completion."""
        if may_last:
            self.mark_all()
        if self.is_legacy:
            self._mark_others()
        call()
        self._add()
        self._worked = self._last
        return self.tail

    def lead(self, handle: int) -> None:
        """Let work that another library queues in the stream *handle* wait for all entries."""
        self.mark_all()
        if self._marks and handle != int(self.handle):
            self.driver.wait(handle, self._marks[-1].event)

    def _add(self) -> None:
        self.tail = entry = Entry(self)
        self._last += 1
        self._numbers[entry] = self._last

    def _mark_others(self) -> None:
        """Mark the work of blocking streams, since work of the legacy stream comes behind it."""
        for stream in self.context.blocking():
            stream.mark_all()

    # --- completions

    def backlog(self) -> Completion:
        """Return the completion of all that was queued here so far, which a host is going to wait for."""
        if self.is_legacy and not all(stream.idle for stream in self.context.blocking()):
            self._mark_others()
            self._add()
        if not self._numbers:
            return NOTHING
        self.ask(self.tail)
        return self.tail

    def turn(self) -> Completion:
        """Return the backlog."""
        return self.backlog()

    def ask(self, completion: Completion) -> None:
        """Note that a host waits for *completion*, of this stream."""
        number = self._numbers.get(completion, 0)
        if number > self._asked:
            self._asked = number
        if number:
            self.context.asked[self] = None

    def look(self, *, all_of_it: bool = False) -> bool:
        """Ask the card how far it is, and complete what is done; return whether anything was.

        It asks for what hosts wait for, or for *all_of_it*.
        """
        before, driver = self._first, self.driver
        while self._marks and driver.is_reached(self._marks[0].event):
            mark = self._marks.popleft()
            self._reach(mark.number)
            if mark.is_ours:
                self.context.spare_events.append(mark.event)
        wanted = self._last if all_of_it else self._asked
        if wanted > self._marked and wanted > self._first and driver.is_idle(self.handle):
            self._reach(self._last)
        return self._first > before

    @property
    def is_asked(self) -> bool:
        """Whether a host waits for work that is not known to be done."""
        return self._asked > self._first

    def mark_all(self) -> None:
        """Put a mark behind all entries, if they have none."""
        if self._marked < self._last and self._numbers:
            self._mark(self.new_mark(), is_ours=True)

    def new_mark(self) -> Any:
        """Return an event of ours that is recorded here."""
        event = self.context.take_event()
        self.driver.record(event, self.handle)
        return event

    def last_mark(self) -> Any:
        """Return an event that stands for all entries; there are some that are not known to be done."""
        self.mark_all()
        return self._marks[-1].event

    def _mark(self, event: Any, *, is_ours: bool = False) -> Mark:
        self._marked = self._last
        mark = Mark(self._marked, event, is_ours)
        self._marks.append(mark)
        return mark

    def _reach(self, number: int) -> None:
        """Complete the entries up to *number*, in order."""
        now, finish, numbers = self.scheduler.now, self.context.finish, self._numbers
        while self._first < number:
            entry = next(iter(numbers))
            del numbers[entry]
            self._first += 1
            finish(entry, now)

    def reach(self, completion: Completion) -> None:
        """Complete everything up to *completion*, which the card has done."""
        if completion in self._numbers:
            self._reach(self._numbers[completion])

    def lose(self) -> None:
        """Complete everything: the card has failed, and does nothing more."""
        self._marks.clear()
        self._reach(self._last)
