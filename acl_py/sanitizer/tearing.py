"""Effects of which only some bytes are there: the others are still on their way.

An engine moves blocks of 32 bytes: a sector of a cache, a block of GM. No vendor promises their order. So a reader
that no order puts behind a copy may find any of its blocks. A block itself is whole.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from device_model import memory
from device_model.core_kernels import CoreKernel
from device_model.engines.workers import perform
from device_model.errors import DeviceError
from device_model.memory import Allocation
from device_model.ops import Op
from device_model.work import Copy, Extent

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
    """Performs *op*, and takes back the bytes of its `rows` that come *late*, until `complete`.

    *error* is how it has failed.
    """

    __slots__ = ("_late", "_new", "_op", "error", "rows")

    def __init__(self, op: Op, late: Late) -> None:
        work = op.work
        written = work.bytes_written() if isinstance(work, CoreKernel) else work.written_rows()
        self._op = op
        self.rows = [row for row in written if row[1] < row[2] and not row[0].is_dropped]
        self._late = [late(start, stop) for _, start, stop in self.rows]
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
        return [_array(row)[mask] for row, mask in zip(self.rows, masks, strict=True)]

    def _put(self, masks: Sequence[_Mask], cells: Sequence[_Cells]) -> None:
        for row, mask, values in zip(self.rows, masks, cells, strict=True):
            if not row[0].is_dropped:
                _array(row)[mask] = values


class CalledEffect(PartialEffect):
    """Calls the host function *op*, and takes back the bytes that it has changed in *host* memory and that come late.

    What a host function writes is not known before it is called. So all of this memory is compared with a copy.
    """

    __slots__ = ()

    def __init__(self, op: Op, late: Late, host: Sequence[Allocation]) -> None:
        before = [_array((each, 0, each.nbytes)).copy() for each in host]
        self._op = op
        self.error = perform(op)
        self.rows, self._late, old = [], [], []
        for allocation, cells in zip(host, before, strict=True):
            if allocation.is_dropped:
                continue
            places = np.flatnonzero(_array((allocation, 0, allocation.nbytes)) != cells)
            if places.size:
                start, stop = int(places[0]), int(places[-1]) + 1
                mask = np.zeros(stop - start, np.bool_)
                mask[places - start] = True
                self.rows.append((allocation, start, stop))
                self._late.append(mask & late(start, stop))
                old.append(cells[start:stop][self._late[-1]])
        if self.error is None:
            self._new = self._cells(self._late)
            self._put(self._late, old)


def _array(row: Extent) -> _Cells:
    allocation, start, stop = row
    return memory.array(allocation, start, np.uint8, stop - start)
