"""TopK of rows in raw instructions, after the public one of PTO-ISA: groups of 32 are sorted and then merged by fours;
what is left over is merged in pairs. A merge goes to a place of its own, and is copied back.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from device_model.aicore.core.blocks import GetBlockIdx, GetBlockNum
from device_model.aicore.core.names import PIPE_V, HardEvent, TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor
from device_model.aicore.flags.sync import PipeBarrier, SetFlag, WaitFlag
from device_model.aicore.moving.copies import (
    DataCopy,
    DataCopyExtParams,
    DataCopyPad,
    DataCopyPadExtParams,
)
from device_model.aicore.runner import Result
from device_model.aicore.vector.gather import GatherMask, GatherMaskParams
from device_model.aicore.vector.sort import GROUP, RECORD, MrgSort, MrgSort4Info, MrgSortSrcList, Sort32
from tests.bench.rows.vectors import on_card, parts, single

ROWS = 2  # that are loaded at a time
BLOCK = 32  # bytes
UB = 192 * 1024
_EVEN, _ODD, _FOURTH = 1, 2, 3  # patterns of GatherMask: of each two elements one, or the first of each four


class _Set:
    """One of two sets of buffers: rows as they come, records, merged records, and what goes out."""

    def __init__(self, number: int, at: int, columns: int, k: int, dtype: Any) -> None:
        self.number, self.columns, self.k, self.dtype = number, columns, k, dtype
        size = np.dtype(dtype).itemsize
        self.per_record = RECORD // size
        self.wide = -(-k * size // BLOCK) * BLOCK // size, -(-k * 4 // BLOCK) * BLOCK // 4  # rows that go out

        def room(kind: Any, count: int) -> LocalTensor:
            nonlocal at
            tensor = LocalTensor(kind, TPosition.VECCALC, at, count)
            at += -(-count * np.dtype(kind).itemsize // BLOCK) * BLOCK
            return tensor

        self.rows = room(dtype, ROWS * columns)
        self.records = room(dtype, ROWS * columns * self.per_record)
        self.merged = room(dtype, ROWS * columns * self.per_record)
        self.work = room(dtype, columns * self.per_record)
        self.values, self.places = room(dtype, ROWS * self.wide[0]), room(np.uint32, ROWS * self.wide[1])
        self.end = at

    def sort(self, row: int, index: LocalTensor) -> None:
        """Sort the groups of a row."""
        columns, per_record = self.columns, self.per_record
        records = self.records[row * columns * per_record :]
        for first in range(0, columns // GROUP, 255):  # an instruction sorts up to 255 groups
            at, count = first * GROUP, min(255, columns // GROUP - first)
            Sort32(records[at * per_record :], self.rows[row * columns + at :], index[at:], count)
        PipeBarrier(PIPE_V)

    def merge(self, row: int) -> None:
        """Merge the groups of a row."""
        columns, per_record = self.columns, self.per_record
        records = self.records[row * columns * per_record :]
        long = GROUP
        while long * 4 <= columns:
            lists = MrgSortSrcList(*(records[each * long * per_record :] for each in range(4)))
            times = columns // (long * 4)
            MrgSort(self.work, lists, MrgSort4Info([long] * 4, False, 15, times))
            self._back(records, times * long * 4)
            long *= 4
        self._merge_rest(records, long)
        DataCopy(self.merged[row * columns * per_record :], records, self._whole(self.k))

    def _merge_rest(self, records: LocalTensor, long: int) -> None:
        """Merge the lists that are left, the long ones first, of each no more than the k largest."""
        lengths = list(_lists(self.columns, long))
        done = lengths[0]
        for length in lengths[1:]:
            pair = records, records[done * self.per_record :]
            least = [min(done, self.k), min(length, self.k)]
            MrgSort(self.work, pair, MrgSort4Info(least, False, 3, 1))
            self._back(records, sum(least))
            done += length

    def _back(self, records: LocalTensor, count: int) -> None:
        PipeBarrier(PIPE_V)
        DataCopy(records, self.work, self._whole(count))
        PipeBarrier(PIPE_V)

    def _whole(self, records: int) -> int:
        """Elements of so many records, in whole blocks."""
        return -(-records * RECORD // BLOCK) * BLOCK // RECORD * self.per_record

    def take(self, row: int, *, places: bool) -> None:
        """Take the values of the k largest out of the records of a row, or where they were."""
        merged = self.merged[row * self.columns * self.per_record :]
        kind, to, pattern = self.dtype, self.values[row * self.wide[0] :], _EVEN if self.dtype == single else _FOURTH
        if places:
            kind, to, pattern = np.uint32, self.places[row * self.wide[1] :], _ODD
        count = self.k * (RECORD // np.dtype(kind).itemsize)
        GatherMask(to, merged.ReinterpretCast(kind), pattern, True, count, GatherMaskParams())


def _lists(columns: int, long: int) -> Iterator[int]:
    """Yield the lengths of the sorted lists of a row: as many of *long* as there are, then shorter ones."""
    while columns:
        yield from [long] * (columns // long)
        columns %= long
        long //= 4


def largest(x: Any, index: Any, out: Any, at: Any, rows: int, columns: int, stride: int, k: int, dtype: Any) -> None:
    """The k largest of the first *columns* elements of each row, and where they are. Each core has its part of rows."""
    first, stop = parts(rows, GetBlockNum(), GetBlockIdx())
    x, out = (GlobalTensor(dtype).SetGlobalBuffer(each) for each in (x, out))
    index, at = (GlobalTensor(np.uint32).SetGlobalBuffer(each) for each in (index, at))
    numbers = LocalTensor(np.uint32, TPosition.VECIN, 0, columns)
    sets = [_Set(0, columns * 4, columns, k, dtype)]
    sets.append(_Set(1, sets[0].end, columns, k, dtype))
    DataCopy(numbers, index, columns)
    for each in sets:
        SetFlag(HardEvent.V_MTE2, each.number)
        SetFlag(HardEvent.MTE3_V, each.number)
    size = np.dtype(dtype).itemsize
    for turn, row in enumerate(range(first, stop, ROWS)):
        one, many = sets[turn % 2], min(ROWS, stop - row)
        WaitFlag(HardEvent.V_MTE2, one.number)
        params = DataCopyExtParams(many, columns * size, (stride - columns) * size, 0)
        DataCopyPad(one.rows, x[row * stride], params, DataCopyPadExtParams())
        SetFlag(HardEvent.MTE2_V, one.number)
        WaitFlag(HardEvent.MTE2_V, one.number)
        for each in range(many):
            one.sort(each, numbers)
        SetFlag(HardEvent.V_MTE2, one.number)
        PipeBarrier(PIPE_V)
        for each in range(many):
            one.merge(each)
        PipeBarrier(PIPE_V)
        WaitFlag(HardEvent.MTE3_V, one.number)
        for places, to, source, of in ((False, out, one.values, size), (True, at, one.places, 4)):
            for each in range(many):
                one.take(each, places=places)
            SetFlag(HardEvent.V_MTE3, one.number + 2 * places)
            PipeBarrier(PIPE_V)
            WaitFlag(HardEvent.V_MTE3, one.number + 2 * places)
            DataCopyPad(to[row * k], source, DataCopyExtParams(many, k * of, 0, 0))
        SetFlag(HardEvent.MTE3_V, one.number)
    for each in sets:
        WaitFlag(HardEvent.V_MTE2, each.number)
        WaitFlag(HardEvent.MTE3_V, each.number)


def arguments(rows: int, columns: int, stride: int, k: int, dtype: Any) -> tuple[Any, ...]:
    """Return rows, the numbers of the columns, values and places, zeros but for the numbers; and the sizes."""
    return (
        np.zeros((rows, stride), dtype), np.arange(columns, dtype=np.uint32), np.zeros((rows, k), dtype),
        np.zeros((rows, k), np.uint32), rows, columns, stride, k, dtype,
    )  # fmt: skip


def fits(columns: int, k: int, dtype: Any) -> bool:
    """Whether the buffers of rows of so many columns fit the UB."""
    size = np.dtype(dtype).itemsize
    going = sum(ROWS * -(-k * each // BLOCK) * BLOCK for each in (size, 4))
    return columns * 4 + 2 * (columns * (ROWS * (size + 2 * RECORD) + RECORD) + going) <= UB


def largest_on_card(card: str, rows: int, columns: int, stride: int, k: int, dtype: Any, cores: int) -> Result:
    """Run it on as many cores as have rows, up to *cores*."""
    return on_card(largest, card, min(cores, rows), *arguments(rows, columns, stride, k, dtype))
