"""Effects of which only some bytes are there: the others are still on their way.

An engine moves blocks of 32 bytes: a sector of a cache, a block of GM. No vendor promises their order. So a reader
that no order puts behind a copy may find any of its blocks. A block itself is whole.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from device_model import memory
from device_model.engines.workers import perform
from device_model.errors import DeviceError
from device_model.ops import Op
from device_model.work import Copy, CoreKernel, Extent

BLOCK = 32  # bytes

_Mask = npt.NDArray[np.bool_]
_Cells = npt.NDArray[np.uint8]
Late = Callable[[int, int], _Mask]  # tells of the bytes from a start to a stop which of them come late


def every_byte(start: int, stop: int) -> _Mask:
    """Return a mask of the bytes from *start* to *stop* that has all of them."""
    return np.ones(stop - start, bool)


def every_other_block(start: int, stop: int) -> _Mask:
    """Return a mask that has the last block, and every other one before it. A single block is there or not."""
    blocks = np.arange(start // BLOCK, (stop - 1) // BLOCK + 1)
    mask = np.repeat((blocks[-1] - blocks) % 2 == 0, BLOCK)
    first = start % BLOCK
    return mask[first : first + stop - start]


class PartialEffect:
    """Performs *op*, and takes back the bytes that come *late*, until `complete`. *error* is how it has failed."""

    __slots__ = ("_late", "_new", "_op", "_rows", "error")

    def __init__(self, op: Op, late: Late) -> None:
        work = op.work
        written = work.bytes_written() if isinstance(work, CoreKernel) else work.written_rows()
        self._op = op
        self._rows = [row for row in written if row[1] < row[2] and not row[0].is_dropped]
        self._late = [late(start, stop) for _, start, stop in self._rows]
        old = self._cells(self._late)
        self.error: DeviceError | None = perform(op)
        if self.error is None:
            self._new = self._cells(self._late)
            self._put(self._late, old)

    def complete(self) -> DeviceError | None:
        """Write the bytes that were late; return how the operation has failed.

        A copy moves its late bytes only now: its source may have changed.
        """
        if self.error is not None:
            return self.error
        if not isinstance(self._op.work, Copy):
            self._put(self._late, self._new)
            return None
        early = [~mask for mask in self._late]
        there = self._cells(early)
        error = perform(self._op)
        self._put(early, there)
        return error

    def _cells(self, masks: Sequence[_Mask]) -> list[_Cells]:
        return [_array(row)[mask] for row, mask in zip(self._rows, masks, strict=True)]

    def _put(self, masks: Sequence[_Mask], cells: Sequence[_Cells]) -> None:
        for row, mask, values in zip(self._rows, masks, cells, strict=True):
            if not row[0].is_dropped:
                _array(row)[mask] = values


def _array(row: Extent) -> _Cells:
    allocation, start, stop = row
    return memory.array(allocation, start, np.uint8, stop - start)
