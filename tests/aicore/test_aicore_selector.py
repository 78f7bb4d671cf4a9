"""The selector of row kernels: what it chooses computes right, and is what simulation finds fastest, or near it."""

import numpy as np
import pytest
from cores import SPEC, found, launch
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from device_model.aicore.core.blocks import GetBlockIdx
from device_model.aicore.core.names import HardEvent, TPosition
from device_model.aicore.core.tensors import GlobalTensor, float32
from device_model.aicore.flags.crossing import SyncAll
from device_model.aicore.flags.queues import TBuf, TQue
from device_model.aicore.flags.sync import SetFlag, WaitFlag
from device_model.aicore.flags.tpipe import TPipe
from device_model.aicore.moving.copies import DataCopyExtParams, DataCopyPad
from device_model.aicore.shaping.selector import RowKind, RowTiling, select_rows
from device_model.aicore.vector.elementwise import Adds
from device_model.aicore.vector.reduce import ReduceMax

TENSORS = 5  # in and out, two of each, and what ReduceMax works in
VECTOR_CYCLES = 8  # of ReduceMax and Adds
SLOT = 8  # floats


class MinusMax:
    """y = x - the largest of its row, in each of the four kinds, which all are this with other tilings."""

    def __init__(self, tiling: RowTiling, columns, x, y, workspace):
        self.tiling, self.columns = tiling, columns
        self.x, self.y, self.workspace = (GlobalTensor(float32).SetGlobalBuffer(each) for each in (x, y, workspace))
        # A whole row counts blocks of its own in the UB; of a piece there is one at a time.
        width = -(-min(columns, tiling.by_columns.tile) // SLOT) * SLOT
        room = width * 4 * min(tiling.by_rows.tile, tiling.by_rows.former_length)
        self.width = width
        pipe = TPipe()
        self.arriving, self.leaving = TQue(TPosition.VECIN, 1), TQue(TPosition.VECOUT, 1)
        self.slots = TQue(TPosition.VECIN, 1)
        pipe.InitBuffer(self.arriving, 2, room)
        pipe.InitBuffer(self.leaving, 2, room)
        pipe.InitBuffer(self.slots, 1, SPEC.vector_cores * SLOT * 4)
        work, number = TBuf(), TBuf()
        pipe.InitBuffer(work, room)
        pipe.InitBuffer(number, 32)
        self.work, self.number = work.Get(float32), number.Get(float32)

    def run(self):
        pieces = list(self.tiling.pieces(GetBlockIdx()))
        for first, count in self.tiling.rows(GetBlockIdx()):
            if len(pieces) == self.tiling.blocks_per_row == 1:
                self.whole(first, count)
            else:
                self.in_pieces(first, pieces)

    def load(self, row, rows, column, columns):
        tensor = self.arriving.AllocTensor(float32)
        gap = (self.columns - columns) * 4
        DataCopyPad(tensor, self.x[row * self.columns + column :], DataCopyExtParams(rows, columns * 4, gap, 0))
        self.arriving.EnQue(tensor)
        return self.arriving.DeQue()

    def store(self, result, row, rows, column, columns):
        self.leaving.EnQue(result)
        result = self.leaving.DeQue()
        gap = (self.columns - columns) * 4
        DataCopyPad(self.y[row * self.columns + column :], result, DataCopyExtParams(rows, columns * 4, 0, gap))
        self.leaving.FreeTensor(result)

    def largest(self, tensor, count):
        ReduceMax(self.number, tensor, self.work, count)
        SetFlag(HardEvent.V_S, 0)
        WaitFlag(HardEvent.V_S, 0)
        value = float(self.number.GetValue(0))
        SetFlag(HardEvent.S_V, 0)
        WaitFlag(HardEvent.S_V, 0)
        return value

    def whole(self, first, count):
        tensor, result = self.load(first, count, 0, self.columns), self.leaving.AllocTensor(float32)
        for row in range(count):
            part = tensor[row * self.width :]
            Adds(result[row * self.width :], part, -self.largest(part, self.columns), self.columns)
        self.arriving.FreeTensor(tensor)
        self.store(result, first, count, 0, self.columns)

    def in_pieces(self, row, pieces):
        values = []
        for column, columns in pieces:
            tensor = self.load(row, 1, column, columns)
            values.append(self.largest(tensor, columns))
            if len(pieces) > 1:
                self.arriving.FreeTensor(tensor)
        value = max(values)
        if self.tiling.blocks_per_row > 1:
            value = self.meet(value)
        for column, columns in pieces:
            if len(pieces) > 1:
                tensor = self.load(row, 1, column, columns)
            result = self.leaving.AllocTensor(float32)
            Adds(result, tensor, -value, columns)
            self.arriving.FreeTensor(tensor)
            self.store(result, row, 1, column, columns)

    def meet(self, value):
        """The largest of all cores of a row."""
        mine = self.leaving.AllocTensor(float32)
        Adds(mine, self.number, 0.0, SLOT)
        SetFlag(HardEvent.V_S, 0)
        WaitFlag(HardEvent.V_S, 0)
        mine.SetValue(0, value)
        SetFlag(HardEvent.S_MTE3, 0)
        WaitFlag(HardEvent.S_MTE3, 0)
        self.leaving.EnQue(mine)
        mine = self.leaving.DeQue()
        DataCopyPad(self.workspace[GetBlockIdx() * SLOT :], mine, DataCopyExtParams(1, 32, 0, 0))
        self.leaving.FreeTensor(mine)
        SyncAll()
        blocks = self.tiling.blocks_per_row
        slots = self.slots.AllocTensor(float32)
        first = GetBlockIdx() // blocks * blocks
        DataCopyPad(slots, self.workspace[first * SLOT :], DataCopyExtParams(1, blocks * SLOT * 4, 0, 0))
        self.slots.EnQue(slots)
        slots = self.slots.DeQue()
        SetFlag(HardEvent.MTE2_S, 0)
        WaitFlag(HardEvent.MTE2_S, 0)
        value = max(float(slots.GetValue(block * SLOT)) for block in range(blocks))
        SetFlag(HardEvent.S_V, 0)
        WaitFlag(HardEvent.S_V, 0)
        self.slots.FreeTensor(slots)
        return value


def minus_max(x, y, workspace, tiling, columns):
    MinusMax(tiling, columns, x, y, workspace).run()


def select(rows, columns, **options):
    usual = {"tensors": TENSORS, "vector_cycles": VECTOR_CYCLES, "workspace": SPEC.vector_cores * 32}
    return select_rows(SPEC, rows, columns, np.float32, **usual | options)


def run(tiling, rows, columns):
    """The kernel's time, once its result is right."""
    x = np.random.default_rng(rows * columns).normal(size=(rows, columns)).astype(np.float32)
    y, workspace = np.zeros_like(x), np.zeros(max(SLOT, tiling.workspace_bytes // 4), np.float32)
    result = launch(minus_max, x, y, workspace, tiling, columns, blocks=tiling.block_num)
    assert found(result) == []
    np.testing.assert_array_equal(y, x - x.max(axis=1, keepdims=True))
    return result.timeline.duration_ns / 1000


SHAPES = {  # rows, columns: what is chosen
    (96, 768): RowKind.FULL_LOAD,
    (96, 770): RowKind.PAD,
    (24, 8192): RowKind.FULL_LOAD,
    (12, 3001): RowKind.PAD,
    (400, 64): RowKind.FULL_LOAD,
    (60, 20001): RowKind.SPLIT,
    (1, 65536): RowKind.SPLIT_CORES,
    (8, 65537): RowKind.SPLIT_CORES,
    (1, 64): RowKind.FULL_LOAD,
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_what_is_chosen_is_fastest_in_simulation_or_within_two_per_cent(shape):
    chosen = select(*shape)
    assert chosen.kind is SHAPES[shape]
    times = {kind: run(select(*shape, kinds=(kind,)), *shape) for kind, us, _ in chosen.candidates if us is not None}
    assert times[chosen.kind] <= 1.02 * min(times.values())
    for kind, us, _ in chosen.candidates:
        if us is not None:
            assert us == pytest.approx(times[kind], rel=0.2)


@pytest.mark.slow
@settings(max_examples=25)
@given(st.integers(1, 60), st.integers(1, 1500), st.sampled_from(RowKind), st.integers(1, 48))
def test_every_kind_that_is_possible_computes_right(rows, columns, kind, cores):
    try:
        tiling = select(rows, columns, kinds=(kind,), cores=cores)
    except ValueError:
        reject()
    assert tiling.block_num <= cores
    run(tiling, rows, columns)


@given(
    st.integers(1, 10**6), st.integers(1, 10**6), st.sampled_from(["int8", "float16", "float32"]), st.integers(0, 2048)
)
def test_a_tiling_is_found_for_any_shape_and_keeps_to_its_limits(rows, columns, dtype, workspace):
    tiling = select_rows(SPEC, rows, columns, dtype, tensors=4, vector_cycles=3, workspace=workspace)
    assert tiling.block_num <= SPEC.vector_cores
    assert tiling.workspace_bytes <= workspace
    width = min(columns, tiling.by_columns.tile) * np.dtype(dtype).itemsize
    assert 4 * -(-width // 32) * 32 * tiling.by_rows.tile <= SPEC.ub_bytes


def test_without_workspace_nothing_is_shared_and_it_says_why():
    tiling = select(1, 65536, workspace=100)
    assert str(tiling).splitlines()[0] == "SPLIT (key 12) on 1 blocks: each row passes through the UB twice, in pieces"
    assert str(tiling).splitlines()[-1] == (
        "  SPLIT_CORES: not possible, it needs 1,536 bytes of workspace, and there are 100"
    )


def test_a_kernel_that_has_no_kind_for_a_shape_hears_of_each():
    with pytest.raises(ValueError, match=r"FULL_LOAD: rows of 154 bytes are not a multiple of 32 bytes"):
        select_rows(SPEC, 5, 77, "float16", tensors=2, vector_cycles=1, kinds=(RowKind.FULL_LOAD,))
