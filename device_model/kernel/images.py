"""One allocation as a launch sees it: the memory itself if it is only read, or a private copy if it is written."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from device_model import memory
from device_model.memory import Allocation
from device_model.work import Extent

Bytes = npt.NDArray[np.uint8]
BLOCK = 32  # bytes of the blocks of InOut arguments that are looked at for poison
_POISON = np.frombuffer(memory.POISON * 4, np.uint64)[0]


class Argument(NamedTuple):
    """An argument in device memory: bytes *start* to *stop* of *allocation*, elements of *dtype* in *shape*."""

    name: str
    allocation: Allocation
    start: int
    stop: int
    dtype: np.dtype[Any]
    is_read: bool
    is_written: bool
    shape: tuple[int, ...] = ()

    @property
    def extent(self) -> Extent:
        """The bytes of the argument."""
        return (self.allocation, self.start, self.stop)


class Shadow(Protocol):
    """What was read and written in one allocation; all ranges are in their order."""

    def contents_read(self) -> Iterator[tuple[int, int]]:
        """Return the ranges that were read before the launch wrote them."""

    def written(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Return the ranges of start:stop that the launch has written."""

    def unwritten(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Return the ranges of start:stop that hold nothing."""


class Memory(Protocol):
    """An allocation in the memory of the device, as the language of a kernel sees it."""

    @property
    def shadow(self) -> Shadow:
        """Its accesses in this launch."""


M = TypeVar("M", bound=Memory)
# Makes a Memory of bytes, a key that tells the allocation from others, a name, and the ranges that hold nothing.
Make = Callable[[Bytes, Hashable, str, Sequence[tuple[int, int]]], M]


class Image(Generic[M]):
    """One allocation as a launch sees it. *memory* is what the language of the kernel makes of it.

    In a run without values it begins with zeros, which nothing may look at, and publishes nothing.
    """

    __slots__ = ("_allocation", "_before", "_has_values", "_only_read", "_only_written", "_private", "memory")

    def __init__(self, allocation: Allocation, arguments: Sequence[Argument], make: Make[M], *, hazards: bool) -> None:
        self._allocation = allocation
        # Ranges of bytes to publish, with their old contents if only changes are published.
        self._before: list[tuple[int, int, Bytes | None]] = []
        self._only_read: list[Argument] = []  # In arguments in an allocation that others write
        self._only_written: list[Argument] = []
        name = "/".join(dict.fromkeys(argument.name for argument in arguments))
        key = (allocation.device, allocation.serial)
        self._has_values = allocation.has_values
        if not any(argument.is_written for argument in arguments):
            view = self._read_only(arguments)
            view.flags.writeable = False
            self.memory = make(view, key, name, ())
            return
        private = self._private = _mapped(allocation)
        if self._has_values:
            self._fill(arguments)
        for argument in arguments:
            if argument.is_written:
                start, stop = argument.start, argument.stop
                self._before.append((start, stop, private[start:stop].copy() if argument.is_read else None))
        self._only_read = [argument for argument in arguments if not argument.is_written]
        self._only_written = [argument for argument in arguments if not argument.is_read]
        self.memory = make(private, key, name, _empty_ranges(private, arguments) if hazards else ())

    def _read_only(self, arguments: Sequence[Argument]) -> Bytes:
        """Return the bytes of the allocation, which holds *arguments* that are read only."""
        if not self._has_values:
            return _mapped(self._allocation)
        for argument in arguments:
            memory.warm(self._allocation, argument.start, argument.stop - argument.start)
        return np.frombuffer(self._allocation.view, np.uint8)

    def _fill(self, arguments: Sequence[Argument]) -> None:
        """Bring what *arguments* hold before the launch to the private copy."""
        private = self._private
        for argument in arguments:
            if argument.is_written and not argument.is_read:
                memory.write_poison(private.data, argument.start, argument.stop)
        for argument in arguments:  # after the poison: an In argument may have the same bytes
            if argument.is_read:
                start, stop = argument.start, argument.stop
                private[start:stop] = memory.array(self._allocation, start, np.uint8, stop - start)

    def changed_inputs(self) -> Iterator[tuple[Argument, int]]:
        """Yield each In argument that a block changed, and the first byte: the change would be lost."""
        if not self._has_values:
            return
        for argument in self._only_read:
            start, stop = argument.start, argument.stop
            changed = self._private[start:stop] != memory.array(self._allocation, start, np.uint8, stop - start)
            for first, last, _ in self._before:  # where another argument may be written
                changed[max(first - start, 0) : max(last - start, 0)] = False
            if changed.any():
                yield argument, start + int(changed.argmax())

    def unwritten_outputs(self) -> Iterator[tuple[Argument, list[tuple[int, int]]]]:
        """Yield each Out argument of which some bytes were not written, and the ranges of these."""
        for argument in self._only_written:
            gaps = list(self.memory.shadow.unwritten(argument.start, argument.stop))
            if gaps:
                yield argument, gaps

    def contents_read(self) -> Iterator[Extent]:
        """Yield the bytes that were read before the launch wrote them."""
        for start, stop in self.memory.shadow.contents_read():
            yield self._allocation, start, stop

    def written(self) -> Iterator[Extent]:
        """Yield the bytes that are published: all of Out arguments, and what was written of InOut arguments."""
        for start, stop, before in self._before:
            ranges = ((start, stop),) if before is None else self.memory.shadow.written(start, stop)
            for first, last in ranges:
                yield self._allocation, first, last

    def publish(self) -> None:
        """Copy the results of the launch to the allocation."""
        if not self._has_values:
            return
        for start, stop, before in self._before:
            into = memory.array(self._allocation, start, np.uint8, stop - start)
            written = self._private[start:stop]
            if before is None:
                into[:] = written
            else:
                np.copyto(into, written, where=written != before)


def _mapped(allocation: Allocation) -> Bytes:
    """Return zeros, as many as *allocation* has bytes, so that addresses agree.

    Pages that no argument names are not touched, and take no memory.
    """
    return np.frombuffer(memory.create_mapping(max(1, allocation.nbytes)), np.uint8)


def _empty_ranges(private: Bytes, arguments: Sequence[Argument]) -> list[tuple[int, int]]:
    """Return the ranges of *arguments* that hold nothing before the launch, in their order.

    These are Out arguments, and blocks of InOut arguments that still hold the poison of unwritten memory.
    """
    read = [(argument.start, argument.stop) for argument in arguments if argument.is_read]
    ranges: list[tuple[int, int]] = []
    for argument in arguments:
        start, stop = argument.start, argument.stop
        if argument.is_read and argument.is_written:
            ranges += _poisoned(private, start, stop)
        elif argument.is_written:
            parts = [(start, stop)]
            for first, last in read:
                parts = [
                    (low, high)
                    for begin, end in parts
                    for low, high in ((begin, min(end, first)), (max(begin, last), end))
                    if low < high
                ]
            ranges += parts
    return _joined(ranges)


def _poisoned(private: Bytes, start: int, stop: int) -> list[tuple[int, int]]:
    """Return the runs of whole blocks in *private*[*start*:*stop*] that hold nothing but poison."""
    first, last = start + -start % BLOCK, stop - stop % BLOCK
    words = private[first : max(first, last)].view(np.uint64).reshape(-1, BLOCK // 8)
    if not (words[:, 0] == _POISON).any():  # so it is with nearly all arguments
        return []
    edges = np.flatnonzero(np.diff((words == _POISON).all(axis=1), prepend=False, append=False))
    return [(first + begin * BLOCK, first + end * BLOCK) for begin, end in edges.reshape(-1, 2).tolist()]


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return *ranges* in their order, with those that overlap made one."""
    joined: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
        else:
            joined.append((start, stop))
    return joined
