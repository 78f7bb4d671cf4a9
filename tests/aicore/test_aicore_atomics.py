"""Atomic copies: what several cores add to the same bytes of GM, and who must be ordered with them."""

import numpy as np
import pytest
from cores import found, launch, prewritten

from device_model.aicore.core.blocks import GetBlockIdx
from device_model.aicore.core.names import Pipe, TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, bfloat16, float32, half, int8, int16, int32
from device_model.aicore.flags.crossing import CrossCoreSetFlag, CrossCoreWaitFlag
from device_model.aicore.flags.sync import PipeBarrier
from device_model.aicore.moving.atomics import DisableDmaAtomic, SetAtomicAdd, SetAtomicMax, SetAtomicMin, SetAtomicNone
from device_model.aicore.moving.copies import DataCacheCleanAndInvalid, DataCopy, DataCopyExtParams, DataCopyPad
from device_model.kernel.findings import KernelError


def ub(dtype, size, address=0):
    return prewritten(LocalTensor(dtype, TPosition.VECIN, address, size))


@pytest.mark.parametrize(
    ("set_atomic", "how"), [(SetAtomicAdd, np.add), (SetAtomicMax, np.maximum), (SetAtomicMin, np.minimum)]
)
@pytest.mark.parametrize("dtype", [half, bfloat16, float32, int8, int16, int32], ids=str)
def test_atomic_copies_of_all_blocks_meet_in_gm_and_are_no_hazard(set_atomic, how, dtype):
    def kernel(x, z):
        a, rows = ub(dtype, 64), DataCopyExtParams(2, 20 * dtype.itemsize, 0, 5 * dtype.itemsize)
        DataCopy(a, GlobalTensor().SetGlobalBuffer(x)[64 * GetBlockIdx() :], 64)
        PipeBarrier(Pipe.ALL)
        set_atomic(dtype)
        DataCopyPad(GlobalTensor().SetGlobalBuffer(z), a, rows)
        SetAtomicNone()
        if GetBlockIdx() == 2:
            DataCopyPad(GlobalTensor().SetGlobalBuffer(z)[45:], a, DataCopyExtParams(1, dtype.itemsize))

    x = np.random.default_rng(0).integers(-9, 9, (3, 64)).astype(dtype)
    z = np.arange(46).astype(dtype)
    expected = z.copy()
    skip = -(-20 * dtype.itemsize // 32) * 32 // dtype.itemsize  # each row begins at a block in UB
    for row in x:
        for start, source in ((0, 0), (25, skip)):
            expected[start : start + 20] = how(expected[start : start + 20], row[source : source + 20])
    expected[45] = x[2, 0]
    result = launch(kernel, x, z, blocks=3)
    assert z.tolist() == expected.tolist()
    assert found(result) == []


def test_who_reads_or_overwrites_a_sum_must_be_behind_all_that_add_to_it():
    def kernel(z, reads):
        a, gm = ub(float32, 8), GlobalTensor(float32).SetGlobalBuffer(z)
        SetAtomicAdd(float32)
        if GetBlockIdx() < 2:
            DataCopy(gm, a, 8)
        DisableDmaAtomic()
        if GetBlockIdx() == 1:
            CrossCoreSetFlag(0, Pipe.MTE3, 0)
        else:
            CrossCoreSetFlag(0, Pipe.MTE2, 0)  # which knows nothing of what block 0 adds
        CrossCoreWaitFlag(0)
        if GetBlockIdx() == 2:
            DataCopy(*((a, gm) if reads else (gm, a)), 8)

    for reads, rule in ((True, "RAW"), (False, "WAW")):
        (finding,) = launch(kernel, np.zeros(8, np.float32), reads, blocks=3).findings
        assert finding.rule.name == rule
        assert [each.core for each in finding.instructions] == [0, 2]


def test_an_atomic_copy_takes_whole_elements_of_its_type():
    def kernel(z, dtype, first, nbytes):
        SetAtomicAdd(dtype)
        DataCopyPad(GlobalTensor(half).SetGlobalBuffer(z)[first:], ub(half, 16), DataCopyExtParams(1, nbytes))

    with pytest.raises(KernelError, match="of 2 bytes to byte 0 of GM argument 0; it takes whole elements of float32"):
        launch(kernel, np.zeros(16, half), float32, 0, 2)
    with pytest.raises(KernelError, match="of 4 bytes to byte 2 of GM argument 0; it takes whole elements of float32"):
        launch(kernel, np.zeros(16, half), float32, 1, 4)
    with pytest.raises(KernelError, match="SetAtomicAdd of uint32; it takes float16, bfloat16, float32, int8"):
        launch(kernel, np.zeros(16, half), np.uint32, 0, 2)


@pytest.mark.parametrize(
    ("steps", "hazards"),
    [
        (("write", "add"), [("WAW", 0, 1, 1)]),
        (("read", "add"), [("WAR", 0, 1, 1)]),
        (("add", "add", "add"), []),
        # Each that adds must be behind what was there before all of them.
        (("write", "add", "add"), [("WAW", 0, 1, 2)]),
        (("read", "add", "add"), [("WAR", 0, 1, 2)]),
        # Who is behind the reader is behind what that has read.
        (("write", "read", "add"), [("RAW", 0, 1, 1), ("WAR", 1, 2, 1)]),
        (("add", "read", "add"), [("RAW", 0, 1, 1), ("WAR", 1, 2, 1)]),
    ],
)
def test_adding_is_ordered_with_everything_but_adding(steps, hazards):
    """Block by block, nobody waits for anybody: (rule, first core, second core, how often at these lines)."""

    def kernel(z):
        a, gm, step = ub(float32, 8), GlobalTensor(float32).SetGlobalBuffer(z), steps[GetBlockIdx()]
        if step == "add":
            SetAtomicAdd(float32)
        DataCopy(*((a, gm) if step == "read" else (gm, a)), 8)

    result = launch(kernel, np.zeros(8, np.float32), blocks=len(steps))
    seen = [(each.rule.name, *(i.core for i in each.instructions), each.count) for each in result.findings]
    assert seen == hazards


def test_who_adds_to_a_part_is_no_matter_to_the_rest():
    def kernel(z):
        a, gm = ub(float32, 16), GlobalTensor(float32).SetGlobalBuffer(z)
        SetAtomicAdd(float32)
        if GetBlockIdx() == 0:
            DataCopy(gm, a, 16)
        CrossCoreSetFlag(0, Pipe.MTE3, 0)
        if GetBlockIdx() == 1:  # nobody is behind this
            DataCopy(gm, a, 8)
        CrossCoreWaitFlag(0)
        if GetBlockIdx() == 2:
            DataCopy(a, gm[8:], 8)

    assert found(launch(kernel, np.zeros(16, np.float32), blocks=3)) == []


def test_the_scalar_pipe_overwrites_all_the_same():
    def kernel(z):
        gm = GlobalTensor(float32).SetGlobalBuffer(z)
        SetAtomicAdd(float32)
        gm.SetValue(0, 5)
        DataCacheCleanAndInvalid(gm)

    z = np.ones(8, np.float32)
    assert found(launch(kernel, z)) == []
    assert z.tolist() == [5] + [1] * 7


def test_in_weak_mode_a_sum_has_no_old_bytes():
    """What was there before the write that it was added to is long gone."""

    def kernel(x, z):
        a, b, gm = ub(float32, 8), ub(float32, 8, 32), GlobalTensor(float32).SetGlobalBuffer(z)
        DataCopy(a, GlobalTensor(float32).SetGlobalBuffer(x), 8)
        PipeBarrier(Pipe.ALL)
        DataCopy(gm, a, 8)
        PipeBarrier(Pipe.MTE3)
        SetAtomicAdd(float32)
        DataCopy(gm, a, 8)
        DataCopy(b, gm, 8)  # too early
        SetAtomicNone()
        PipeBarrier(Pipe.ALL)
        DataCopy(gm[8:], b, 8)

    z = np.zeros(16, np.float32)
    assert found(launch(kernel, np.ones(8, np.float32), z, weak=True)) == [("RAW", "MTE3_MTE2")]
    assert z.tolist() == [2] * 16
