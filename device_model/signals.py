"""Signals between streams that are not events: notifies, which exist under ACL only, and words of device memory.

A *notify* is a binary semaphore. A record sets it. A wait lasts until it is set, and clears it. So one record lets one
wait pass, and two records before a wait count once. The notify may belong to another device than the stream that
records it or waits for it.

A *word* is eight bytes of device memory, read as an unsigned number. A stream can write one in its turn, and it can
wait until a word compares with a value in one of four ways. A waiting stream compares again whenever an operation that
writes memory has ended on the device, and whenever another stream has written a word.

All of these are steps: they take their turn in a stream and no time on an engine.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from device_model import memory
from device_model.completions import Completion, Nanoseconds
from device_model.handles import Handle
from device_model.memory import Allocation
from device_model.names import named
from device_model.observe import Hooks, Observer
from device_model.ops import Op
from device_model.scheduler import Scheduler
from device_model.steps import Level, StepKind, recording, until
from device_model.streams import Stream

if TYPE_CHECKING:
    from device_model.device import Device

_WRITE = "write that word, from a stream that does not wait itself"  # to break a deadlock


class Notify(Handle):
    """A binary semaphore that streams set and wait for, made on one device."""

    __slots__ = ("_record", "destroyed", "device", "given_name", "id", "level", "made")

    def __init__(self, device: "Device", id_: int, made: object, name: str | None = None) -> None:
        self.device = device
        self.id = id_
        self.made = made
        self.given_name = name  # as the program calls it
        self.destroyed: object = None  # the line that destroyed it
        self.level = Level()
        self._record: Completion | None = None  # the last record, which a hang report names

    @property
    def name(self) -> str:
        """As messages call it, whatever its state."""
        return named("Notify", self.id, self.given_name)

    def __repr__(self) -> str:
        made = f" made at {self.made}" if self.made is not None else ""
        gone = f" destroyed at {self.destroyed}" if self.destroyed is not None else ""
        return f"<{self.name} of device {self.device.ordinal}{made}{gone}>"

    def record(self, stream: Stream, site: object) -> Completion:
        """Queue a step in *stream* that sets the notify, and return its completion."""
        self._record = stream.step(
            StepKind.NOTIFY, self.name, f"record of {self.name}", site, self.level.raising(stream.scheduler)
        )
        return self._record

    def wait(self, stream: Stream, site: object, limit_ns: Nanoseconds) -> Completion:
        """Queue a step in *stream* that waits until the notify is set and then clears it; return its completion.

        If the wait takes longer than *limit_ns*, it is a failure of *stream*, and the notify is not cleared; 0 sets no
        limit.
        """
        generator = self._wait(stream, limit_ns)
        what = f"wait for {self.name}"
        return stream.step(
            StepKind.NOTIFY_WAIT, self.name, what, site, generator, lambda: self._record, recording(self.name)
        )

    def reset(self) -> None:
        """Clear the notify at once."""
        self.level.is_set = False

    def destroy(self, site: object) -> None:
        """Destroy the notify, and give its id back to the device. Streams that wait for it still do."""
        self.destroyed = site
        self.device.notify_ids.give(self.device.scheduler.now)

    def _wait(self, stream: Stream, limit_ns: Nanoseconds) -> Iterator[Completion]:
        if (yield from self.level.until_set(stream, limit_ns, repr(self))):
            self.level.is_set = False


class Compare(IntEnum):
    """How a word is compared with the value that a stream waits for. The numbers are the flags of aclrtValueWait."""

    GEQ = 0  # the word is at least the value
    EQ = 1  # they are equal
    AND = 2  # they have a bit in common
    NOR = 3  # some bit is 0 in both


_MASK = (1 << 64) - 1
_COMPARE: Mapping[Compare, Callable[[int, int], bool]] = MappingProxyType(
    {
        Compare.GEQ: lambda word, value: (word - value) & _MASK < 1 << 63,  # cyclic, so that counters may wrap
        Compare.EQ: lambda word, value: word == value,
        Compare.AND: lambda word, value: bool(word & value),
        Compare.NOR: lambda word, value: bool(~(word | value) & _MASK),
    }
)


def satisfies(how: Compare, value: int, word: int) -> bool:
    """Whether *word* compares with *value* as a wait asks."""
    return _COMPARE[how](word, value)


class Words(Observer):
    """The waits of streams for words of one device's memory.

    It is an observer of the device only while a stream waits, so programs without such waits do not pay for it.
    *flush* lets bodies that are over in simulated time have their effect on an allocation. *written* is called when a
    stream has written a word.
    """

    def __init__(
        self, scheduler: Scheduler, hooks: Hooks, flush: Callable[[Allocation], None], written: Callable[[], None]
    ) -> None:
        self._written = written
        self._scheduler = scheduler
        self._hooks = hooks
        self._flush = flush
        self._changed = Completion()
        self._waits = 0

    def write(self, stream: Stream, site: object, allocation: Allocation, offset: int, value: int) -> Completion:
        """Queue a step in *stream* that writes *value*, and return its completion."""
        what = f"write of {value} at {offset} of {allocation.name}"
        return stream.step(StepKind.VALUE, allocation.name, what, site, self._write(allocation, offset, value))

    def wait(
        self, stream: Stream, site: object, allocation: Allocation, offset: int, value: int, how: Compare,
        limit_ns: Nanoseconds,
    ) -> Completion:  # fmt: skip
        """Queue a step in *stream* that waits until the word compares with *value* as *how* says.

        Returns the completion of the step. If the wait takes longer than *limit_ns*, it is a failure of *stream*; 0
        sets no limit.
        """
        word = f"the word at {offset} of {allocation.name} to be {how.name} {value}"
        generator = self._wait(stream, word, allocation, offset, value, how, limit_ns)
        name = allocation.name
        return stream.step(StepKind.VALUE_WAIT, name, f"wait for {word}", site, generator, remedy=_WRITE)

    def op_ended(self, op: Op) -> None:
        """Let waiting streams compare again if *op* has written memory."""
        if op.work.writes():
            self._look()

    def _look(self) -> None:
        changed, self._changed = self._changed, Completion()
        changed.complete(self._scheduler.now)

    def _write(self, allocation: Allocation, offset: int, value: int) -> Iterator[Completion]:
        if allocation.has_values:
            self._word(allocation, offset)[0] = value
        self._look()
        self._written()
        yield from ()

    def _wait(
        self, stream: Stream, what: str, allocation: Allocation, offset: int, value: int, how: Compare,
        limit_ns: Nanoseconds,
    ) -> Iterator[Completion]:  # fmt: skip
        compare = _COMPARE[how]
        self._listen(1)
        yield from until(
            lambda: compare(int(self._word(allocation, offset)[0]), value),
            lambda: self._changed,
            stream,
            limit_ns,
            what,
        )
        self._listen(-1)

    def _word(self, allocation: Allocation, offset: int) -> npt.NDArray[np.uint64]:
        self._flush(allocation)
        return memory.array(allocation, offset, np.dtype("<u8"), 1)

    def _listen(self, more: int) -> None:
        if not self._waits:
            self._hooks.add(self)
        self._waits += more
        if not self._waits:
            self._hooks.remove(self)
