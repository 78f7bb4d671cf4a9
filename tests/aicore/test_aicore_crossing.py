"""Flags between cores: who counts up whose, in what order blocks run, and that it orders memory."""

import numpy as np
import pytest
from cores import found, launch, prewritten, work

from device_model.aicore.core.blocks import (
    ASCEND_IS_AIC,
    ASCEND_IS_AIV,
    GetBlockIdx,
    GetBlockNum,
    GetSubBlockIdx,
    GetSubBlockNum,
    GetTaskRatio,
)
from device_model.aicore.core.names import HardEvent, KernelType, Pipe, TPosition
from device_model.aicore.core.program import Kind
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, float32, int32
from device_model.aicore.flags.crossing import CrossCoreSetFlag, CrossCoreWaitFlag, SyncAll
from device_model.aicore.flags.sync import PipeBarrier, SetFlag, WaitFlag
from device_model.aicore.moving.copies import DataCopy
from device_model.kernel.findings import KernelError

MIX = KernelType.MIX_AIC_1_2


def test_blocks_know_where_they_are():
    seen = []

    def kernel():
        kind = "AIC" if ASCEND_IS_AIC else "AIV"  # as Ascend C's macro; a call says the same
        assert ASCEND_IS_AIV() != ASCEND_IS_AIC()
        seen.append((kind, GetBlockIdx(), GetSubBlockIdx(), GetBlockNum(), GetTaskRatio()))
        assert GetSubBlockNum() == GetTaskRatio()

    launch(kernel, blocks=2, kind=MIX)
    assert seen == [
        ("AIC", 0, 0, 2, 1), ("AIV", 0, 0, 2, 2), ("AIV", 1, 1, 2, 2),
        ("AIC", 1, 0, 2, 1), ("AIV", 2, 0, 2, 2), ("AIV", 3, 1, 2, 2),
    ]  # fmt: skip
    seen.clear()
    launch(kernel, blocks=2, kind=KernelType.MIX_AIC_1_1)
    assert seen == [("AIC", 0, 0, 2, 1), ("AIV", 0, 0, 2, 1), ("AIC", 1, 0, 2, 1), ("AIV", 1, 0, 2, 1)]


def workspaces(gm, size):
    return GlobalTensor(int32).SetGlobalBuffer(gm), LocalTensor(int32, TPosition.VECIN, 0, size)


def test_sync_all_may_count_in_a_workspace_instead_of_with_flags():
    order = []

    def kernel(gm):
        workspace = workspaces(gm, 24)
        for phase in range(2):
            order.append(phase)
            SyncAll(*workspace)
        if GetBlockIdx() < 2:
            order.append(2)
            SyncAll(*workspace, 2)
            order.append(3)
        CrossCoreSetFlag(0, Pipe.MTE3, 12)  # these ids are free: on a card this SyncAll takes none
        CrossCoreWaitFlag(12)

    counts = np.zeros(24, np.int32)
    result = launch(kernel, counts, blocks=3)
    assert order == [0, 0, 0, 1, 1, 1, 2, 2, 3, 3]
    assert counts.reshape(3, 8).tolist() == [[3] + [0] * 7, [3] + [0] * 7, [2] + [0] * 7]
    assert found(result) == []


def test_two_workspaces_are_counted_apart():
    def kernel(gm):
        for first in (0, 16, 0):
            SyncAll(*workspaces(gm[first:], 16))

    counts = np.zeros(32, np.int32)
    launch(kernel, counts, blocks=2)
    assert counts[::8].tolist() == [2, 2, 1, 1]


def test_in_a_mixed_kernel_the_vector_cores_count_in_a_workspace():
    def kernel(gm):
        if ASCEND_IS_AIV:
            SyncAll(*workspaces(gm, 32))

    counts = np.zeros(40, np.int32)
    result = launch(kernel, counts, blocks=2, kind=MIX)
    assert counts.reshape(5, 8)[:, 0].tolist() == [1, 1, 1, 1, 0]
    assert found(result) == []


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (lambda gm: SyncAll(*workspaces(gm, 16)), "ub_workspace .*give it 96 bytes of int32 in UB"),
        (lambda gm: SyncAll(workspaces(gm, 24)[0]), "ub_workspace None"),
        (lambda gm: SyncAll(*workspaces(gm, 24), 2), "used_cores are those from 0 to 1"),
        (lambda gm: SyncAll(*workspaces(gm[8:], 24)), "gm_workspace .*give it 96 bytes"),
        (lambda gm: SyncAll(GlobalTensor(float32).SetGlobalBuffer(gm), workspaces(gm, 24)[1]), "gm_workspace .*int32"),
    ],
)
def test_sync_all_says_what_is_wrong_with_its_workspaces(kernel, words):
    with pytest.raises(KernelError, match=words):
        launch(kernel, np.zeros(24, np.int32), blocks=3)


def test_a_workspace_of_sync_all_must_be_zeros():
    with pytest.raises(KernelError, match="which is not zero; fill it with zeros before"):
        launch(lambda gm: SyncAll(*workspaces(gm, 16)), np.ones(16, np.int32), blocks=2)


def test_sync_all_is_a_meeting_of_all_blocks():
    order = []

    def kernel():
        for phase in range(2):
            order.append((phase, GetBlockIdx()))
            SyncAll()
        order.append((2, GetBlockIdx()))

    result = launch(kernel, blocks=3)
    assert [phase for phase, _ in order] == [0] * 3 + [1] * 3 + [2] * 3
    assert sorted(order) == [(phase, block) for phase in range(3) for block in range(3)]
    instructions = [program.instructions for program in result.programs]
    assert [each.kind for each in instructions[0]] == [Kind.BARRIER_ALL, Kind.CROSS_SET, Kind.CROSS_WAIT] * 2
    arrivals = tuple(each[1] for each in instructions)
    assert [each[2].waits for each in instructions] == [arrivals] * 3


def test_in_a_mixed_kernel_sync_all_is_of_the_vector_cores_unless_told():
    order = []

    def kernel(aiv_only):
        name = f"{'cube' if ASCEND_IS_AIC() else 'vector'} {GetBlockIdx()}"
        order.append(name)
        if not (aiv_only and ASCEND_IS_AIC()):
            SyncAll(aiv_only=aiv_only)
        order.append(name)

    launch(kernel, True, blocks=1, kind=MIX)
    assert order == ["cube 0", "cube 0", "vector 0", "vector 1", "vector 1", "vector 0"]
    order.clear()
    launch(kernel, False, blocks=1, kind=MIX)
    assert order == ["cube 0", "vector 0", "vector 1", "vector 1", "cube 0", "vector 0"]


def test_mode_2_goes_from_the_cube_core_to_each_vector_core_and_back_from_both():
    def kernel(z):
        (a, b) = (LocalTensor(float32, TPosition.VECIN, at, 64) for at in (0, 256)) if ASCEND_IS_AIV() else (None, None)
        g = GlobalTensor(float32).SetGlobalBuffer(z)
        for turn in range(20):
            if ASCEND_IS_AIC():
                if turn:
                    CrossCoreWaitFlag(1)
                c = prewritten(LocalTensor(float32, TPosition.CO1, 0, 128))
                PipeBarrier(Pipe.FIX)
                work(Pipe.FIX, "Fixpipe", g[:128], c, how=lambda c, turn=turn: turn)
                CrossCoreSetFlag(2, Pipe.FIX, 0)
            else:
                CrossCoreWaitFlag(0)
                part = g[64 * GetSubBlockIdx() :][:64]
                DataCopy(a, part, 64)
                SetFlag(HardEvent.MTE2_V, 0)
                WaitFlag(HardEvent.MTE2_V, 0)
                work(Pipe.V, "Adds", b, a, how=lambda v: v + 100)
                SetFlag(HardEvent.V_MTE3, 0)
                WaitFlag(HardEvent.V_MTE3, 0)
                DataCopy(g[128 + 64 * GetSubBlockIdx() :], b, 64)
                PipeBarrier(Pipe.ALL)
                if turn < 19:
                    CrossCoreSetFlag(2, Pipe.MTE2, 1)

    z = np.zeros(256, np.float32)
    result = launch(kernel, z, kind=MIX)
    assert found(result) == []
    assert z.tolist() == [19] * 128 + [119] * 128


def test_mode_1_is_a_meeting_of_the_vector_cores_of_one_block():
    order = []

    def kernel():
        if ASCEND_IS_AIC():
            return
        order.append(GetBlockIdx())
        CrossCoreSetFlag(1, Pipe.MTE3, 4)
        CrossCoreWaitFlag(4)
        order.append(GetBlockIdx())

    launch(kernel, blocks=2, kind=MIX)
    assert order == [0, 1, 1, 2, 3, 3, 0, 2]


def test_a_producer_that_waits_for_room_counts_no_flag_past_its_end():
    def kernel():
        for turn in range(40):
            if ASCEND_IS_AIC():
                if turn >= 4:
                    CrossCoreWaitFlag(1)
                CrossCoreSetFlag(2, Pipe.FIX, 0)
            else:
                CrossCoreWaitFlag(0)
                if turn < 36:
                    CrossCoreSetFlag(2, Pipe.MTE2, 1)

    assert found(launch(kernel, kind=MIX)) == []


def test_a_wait_with_a_time_limit_that_is_in_time_is_a_plain_wait():
    def kernel():
        if ASCEND_IS_AIC():
            CrossCoreSetFlag(2, Pipe.FIX, 0)
        else:
            assert CrossCoreWaitFlag(0, timeout_us=1)
            SetFlag(HardEvent.MTE2_V, 0)
            assert WaitFlag(HardEvent.MTE2_V, 0, timeout_us=1)

    assert found(launch(kernel, kind=MIX)) == []


def test_a_time_limit_that_passes_costs_its_time_and_resets_the_flag():
    def kernel():
        assert not WaitFlag(HardEvent.MTE2_V, 0, timeout_us=2)
        SetFlag(HardEvent.MTE2_V, 0)
        assert WaitFlag(HardEvent.MTE2_V, 0, timeout_us=2)

    result = launch(kernel)
    assert [each.cycles for each in result.programs[0].instructions] == [3700, 0, 0]
    assert found(result) == [("WAIT_TIMEOUT", "MTE2_V")]


def test_a_flag_of_mode_0_needs_all_blocks_at_once():
    def kernel():
        CrossCoreSetFlag(0, Pipe.MTE3, 0)

    with pytest.raises(KernelError, match="49 blocks on AIV and the chip 48 cores"):
        launch(kernel, blocks=49)


def test_modes_need_their_cores():
    def kernel():
        with pytest.raises(KernelError, match="not mixed"):
            CrossCoreSetFlag(2, Pipe.MTE3, 0)
        with pytest.raises(KernelError, match="cross-core mode 3"):
            CrossCoreSetFlag(3, Pipe.MTE3, 0)
        with pytest.raises(KernelError, match="name one pipe"):
            CrossCoreSetFlag(0, Pipe.ALL, 0)

    assert found(launch(kernel)) == []
