"""Pools of buffers, posts from one core to another through GM, and gathered blocks."""

import numpy as np
import pytest
from cores import SPEC, found, launch, names
from instructions import on_core, single, vector

from device_model.aicore.core.blocks import GetBlockIdx
from device_model.aicore.core.names import HardEvent, KernelType, TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, int32, uint16, uint32
from device_model.aicore.flags.bufpool import TBufPool
from device_model.aicore.flags.posting import IBSet, IBWait
from device_model.aicore.flags.queues import TBuf, TQueBind
from device_model.aicore.flags.sync import SetFlag, WaitFlag
from device_model.aicore.flags.tpipe import TPipe
from device_model.aicore.moving.copies import DataCopy
from device_model.aicore.vector.gather import Gatherb, GatherRepeatParams
from device_model.aicore.vector.reduce_repeats import PairReduceSum, ReducePairElem
from device_model.kernel.findings import KernelError, KernelHangError


def gm(array):
    return GlobalTensor(array.dtype).SetGlobalBuffer(array)


@pytest.mark.parametrize("is_reset", [True, False])
def test_two_pools_may_have_the_same_bytes_one_after_the_other(is_reset):
    seen = []

    def kernel(x, y):
        pipe, pools = TPipe(), [TBufPool(TPosition.VECIN) for _ in range(2)]
        pipe.InitBufPool(pools[0], 2_050)
        pipe.InitBufPool(pools[1], 2_048, pools[0])
        for number, pool in enumerate(pools):
            queue = TQueBind(TPosition.VECIN, TPosition.VECOUT, 1)
            pool.InitBuffer(queue, 2, 512)
            tile = queue.AllocTensor(single)
            seen.append(tile.address)
            DataCopy(tile, gm(x)[number * 128 :], 128)
            queue.EnQue(tile)
            tile = queue.DeQue(single)
            DataCopy(gm(y)[number * 128 :], tile, 128)
            queue.FreeTensor(tile)
            if is_reset:
                pool.Reset()
        if not is_reset:
            for pool in pools:
                pool.Reset()

    x, y = np.arange(256, dtype=single), np.zeros(256, single)
    rules = found(launch(kernel, x, y))
    assert seen == [0, 0]
    assert y.tolist() == x.tolist()
    assert rules == ([] if is_reset else [("WAR", "MTE3_MTE2")])


def test_a_pool_is_divided_further():
    def kernel():
        pipe, outer, inner, other, buffer = TPipe(), TBufPool(), TBufPool(), TBufPool(), TBuf()
        pipe.InitBuffer(TBuf(), 64)
        pipe.InitBufPool(outer, 1_024)
        outer.InitBufPool(inner, 512)
        outer.InitBufPool(other, 256, inner)
        inner.InitBuffer(TBuf(), 32)
        inner.InitBuffer(buffer, 100)
        seen.append((buffer.Get(single).address, other.start, pipe.rest(TPosition.VECCALC.space)[0]))
        for wrong, message in (
            (
                lambda: outer.InitBufPool(TBufPool(), 544),
                r"544 bytes of <TBufPool VECCALC 512 of 1024 bytes given",
            ),
            (lambda: outer.InitBufPool(TBufPool(), 1_056, inner), r"shares those of .*; both lie in one memory"),
            (lambda: pipe.InitBufPool(TBufPool(), SPEC.ub_bytes), r"do not fit in UB .*: 1088 of 196608 bytes"),
            (
                lambda: pipe.InitBuffer(TQueBind(TPosition.VECIN, TPosition.VECOUT, 1), 3, 65_536),
                r"3 x 65536 bytes for <TQueBind .* do not fit in UB",
            ),
            (lambda: pipe.InitBufPool(TBufPool(), 0), r"InitBufPool of 0 bytes; it must be 1 or more"),
            (lambda: TBufPool().InitBuffer(TBuf(), 32), r"without memory>; give it some with TPipe.InitBufPool"),
            (lambda: TBufPool(TPosition.CO1), r"a TBufPool at CO1; pools lie in UB"),
            (lambda: TBufPool(buffers=17), r"a TBufPool of 17 buffers; it has 1 to 16"),
            (lambda: [inner.InitBuffer(TBuf(), 32) for _ in range(3)], r"5 buffers in .*; it was made for 4"),
        ):
            with pytest.raises(KernelError, match=message):
                wrong()

    seen = []
    assert found(on_core(kernel)) == []
    assert seen == [(96, 64, 1_088)]


def pass_on(x, y, places, *, waits=True):
    """Core 1 copies to y what core 0 has copied to x."""
    tile, own = LocalTensor(single, TPosition.VECCALC, 0, 64), LocalTensor(int32, TPosition.VECCALC, 1_024, 8)
    if GetBlockIdx() == 1:
        if waits:
            IBWait(gm(places), own, 0, 1)
        DataCopy(tile, gm(x)[64:], 64)
        SetFlag(HardEvent.MTE2_MTE3, 0)
        WaitFlag(HardEvent.MTE2_MTE3, 0)
        DataCopy(gm(y), tile, 64)
    else:
        DataCopy(tile, gm(x), 64)
        SetFlag(HardEvent.MTE2_MTE3, 0)
        WaitFlag(HardEvent.MTE2_MTE3, 0)
        DataCopy(gm(x)[64:], tile, 64)
        IBSet(gm(places), own, 0, 1)


def test_a_core_waits_for_what_another_one_posts():
    x, y, places = np.arange(128, dtype=single), np.zeros(64, single), np.zeros(32, int32)
    result = launch(pass_on, x, y, places, blocks=2)
    assert found(result) == []
    assert y.tolist() == list(range(64))
    wait = next(each for each in result.programs[1].instructions if each.name == "IBWait")
    stored = [each for each in result.programs[0].instructions if each.name == "DataCopy"][1]
    assert wait.end >= stored.end
    assert names(result, 0)[-1] == "IBSet"


def test_without_the_wait_the_order_is_missing():
    x, y, places = np.arange(128, dtype=single), np.zeros(64, single), np.zeros(32, int32)
    result = launch(lambda *each: pass_on(*each, waits=False), x, y, places, blocks=2)
    assert [rule for rule, _ in found(result)] == ["RAW", "CROSS_LEFT_SET"]


def test_a_place_is_posted_to_again_when_it_is_clear():
    def kernel(places):
        own = LocalTensor(int32, TPosition.VECCALC, 0, 8)
        for _ in range(3):
            (IBWait if GetBlockIdx() else IBSet)(gm(places), own, 1, 0)

    assert found(launch(kernel, np.zeros(16, int32), blocks=2)) == []


def test_posts_that_cannot_be_are_refused():
    own = (TPosition.VECCALC, 0, 8)

    def post(*numbers, dtype=int32):
        return lambda places: IBSet(gm(places), LocalTensor(dtype, *own), *numbers)

    for wrong, start, message in (
        (post(1, 0), 0, r"IBSet with block_idx 1 and event_id 0; a block_idx is 0 to 0"),
        (post(0, 1), 0, r"IBSet with gm_workspace .*; give it 64 bytes of int32 in GM"),
        (post(0, 0, dtype=single), 0, r"ub_workspace .*; give it 32 bytes of int32 in UB"),
        (post(0, 0), 1, r"which is not zero; fill it with zeros before the launch"),
    ):
        with pytest.raises(KernelError, match=message):
            launch(wrong, np.full(8, start, int32))
    zeros = np.zeros(8, int32)
    with pytest.raises(KernelHangError, match=r"IBWait\(0, 0\) at "):
        launch(lambda places: IBWait(gm(places), LocalTensor(int32, *own), 0, 0), zeros)
    with pytest.raises(KernelError, match=r"only vector cores have it"):
        launch(lambda places: IBSet(gm(places), None, 0, 0), zeros, kind=KernelType.AIC_ONLY)


@pytest.mark.parametrize("dtype", [uint16, uint32], ids=str)
def test_blocks_are_gathered_by_their_offsets(dtype):
    per_block = 32 // dtype.itemsize
    x = np.arange(20 * per_block).astype(dtype)
    offsets = np.random.default_rng(3).permutation(16).astype(uint32) * 32
    seen, launched = vector(
        lambda dst, src, at: Gatherb(dst, src, at, 2, GatherRepeatParams(2, 16)),
        np.zeros(32 * per_block, dtype),
        x,
        offsets,
    )
    expected = x.reshape(20, per_block)[offsets // 32]
    assert np.array_equal(seen.reshape(32, per_block)[::2], expected)
    assert found(launched) == []
    for wrong, message in ((x.nbytes, "up to 608"), (16, "multiples of 32")):
        with pytest.raises(KernelError, match=rf"Gatherb: offset {wrong} from .*{message}"):
            vector(lambda dst, src, at: Gatherb(dst, src, at, 1), np.zeros(128, dtype), x, np.full(8, wrong, uint32))
    with pytest.raises(KernelError, match=r"Gatherb from .* to .*; they must not overlap"):
        vector(lambda dst, at: Gatherb(dst, dst, at, 1), np.zeros(8 * per_block, dtype), offsets)


def test_a_newer_name_of_pair_sums():
    assert ReducePairElem is PairReduceSum
