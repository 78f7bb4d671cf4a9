"""Groups of vector cores that wait for each other: GroupBarrier, and turns in the order of the blocks."""

import numpy as np
import pytest
from cores import found, launch
from instructions import after, single

from device_model.aicore.core.blocks import GetBlockIdx
from device_model.aicore.core.names import HardEvent, KernelType, TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, int32
from device_model.aicore.flags.groups import (
    GroupBarrier,
    InitDetermineComputeWorkspace,
    NotifyNextBlock,
    WaitPreBlock,
)
from device_model.aicore.moving.atomics import SetAtomicAdd, SetAtomicNone
from device_model.aicore.moving.copies import DataCopy
from device_model.kernel.findings import KernelError, KernelHangError

AIV = KernelType.AIV_ONLY


def gm(array):
    return GlobalTensor(array.dtype).SetGlobalBuffer(array)


def copy(x, y, source, target):
    """64 floats from *x* to *y* through the UB."""
    tile = LocalTensor(single, TPosition.VECCALC, 0, 64)
    after(HardEvent.MTE3_MTE2)
    DataCopy(tile, gm(x)[source * 64 :], 64)
    after(HardEvent.MTE2_MTE3)
    DataCopy(gm(y)[target * 64 :], tile, 64)


def hand_over(x, middle, y, workspace, rounds, is_emptied):
    """Cores 0 and 1 write a part of *middle* each; then cores 2, 3 and 4 read both; in rounds."""
    filled = GroupBarrier(workspace, 2, 3)
    emptied = GroupBarrier(workspace[filled.GetWorkspaceLen() :], 3, 2)
    number = GetBlockIdx()
    for each in range(rounds):
        if number < 2:
            if each and is_emptied:
                emptied.Wait(number)
            copy(x, middle, 2 * each + number, number)
            filled.Arrive(number)
        else:
            filled.Wait(number - 2)
            for part in range(2):
                copy(middle, y, part, (each * 3 + number - 2) * 2 + part)
            emptied.Arrive(number - 2)


@pytest.mark.parametrize("is_emptied", [True, False])
def test_a_group_waits_for_another_in_rounds(is_emptied):
    x, middle = np.arange(4 * 64, dtype=single), np.zeros(2 * 64, single)
    y, workspace = np.zeros(2 * 3 * 2 * 64, single), np.zeros(2 * 3 * 512, np.uint8)
    if not is_emptied:
        with pytest.raises(KernelHangError, match="Arrive of <GroupBarrier of 3 and 2 cores, round 1> at "):
            launch(hand_over, x, middle, y, workspace, 2, is_emptied, blocks=5)
        return
    result = launch(hand_over, x, middle, y, workspace, 2, is_emptied, blocks=5)
    assert found(result) == []
    assert np.array_equal(y.reshape(2, 3, 128), np.broadcast_to(x.reshape(2, 1, 128), (2, 3, 128)))
    stored = [[each for each in program.instructions if each.name == "DataCopy"][1] for program in result.programs[:2]]
    waited = [next(each for each in program.instructions if each.name == "Wait") for program in result.programs[2:]]
    assert min(each.end for each in waited) >= max(each.end for each in stored)


def both(x, y, workspace):
    """Each core arrives and waits, as in the gradient of attention: then it reads what the other has written."""
    barrier = GroupBarrier(workspace, 2, 2)
    copy(x, y, GetBlockIdx(), GetBlockIdx())
    barrier.Arrive(GetBlockIdx())
    barrier.Wait(GetBlockIdx())
    copy(y, y, 1 - GetBlockIdx(), 2 + GetBlockIdx())


def test_cores_of_both_groups_arrive_and_then_wait():
    x, y = np.arange(2 * 64, dtype=single), np.zeros(4 * 64, single)
    result = launch(both, x, y, np.zeros(1024, np.uint8), blocks=2)
    assert found(result) == []
    assert y.tolist() == [*range(128), *range(64, 128), *range(64)]


def test_without_the_wait_the_order_is_missing():
    x, middle = np.arange(2 * 64, dtype=single), np.zeros(2 * 64, single)
    y, workspace = np.zeros(3 * 2 * 64, single), np.zeros(3 * 512, np.uint8)

    def kernel(*args):
        barrier = GroupBarrier(args[3], 2, 3)
        if GetBlockIdx() < 2:
            copy(args[0], args[1], GetBlockIdx(), GetBlockIdx())
            barrier.Arrive(GetBlockIdx())
        else:
            copy(args[1], args[2], 0, GetBlockIdx() - 2)

    assert ("RAW", None) in [(rule, None) for rule, _ in found(launch(kernel, x, middle, y, workspace, blocks=5))]


BARRIERS = [
    (lambda w: GroupBarrier(w, 0, 1), 0, "GroupBarrier of 0 and 1 cores.*1 to 2 vector cores"),
    (lambda w: GroupBarrier(w, 1, 3), 0, "GroupBarrier of 1 and 3 cores.*1 to 2 vector cores"),
    (lambda w: GroupBarrier(w[32:], 1, 1), 0, "give it 512 bytes in GM from a multiple of 512 on"),
    (lambda w: GroupBarrier(w, 2, 2), 1, "that is not zero.*fill it with zeros"),
    (lambda w: (GroupBarrier(w, 1, 1), GroupBarrier(w, 1, 1)), 0, "which the one at .* has, too.*that object again"),
    (lambda w: (GroupBarrier(w, 2, 2), GroupBarrier(w[512:], 1, 1)), 0, "which the one at .* has, too"),
    (lambda w: GroupBarrier(w, 1, 1).Arrive(1), 0, r"Arrive\(1\) of .*numbers 0 to 0"),
    (lambda w: GroupBarrier(w, 1, 1).Wait(-1), 0, r"Wait\(-1\) of .*numbers 0 to 0"),
]


@pytest.mark.parametrize(("wrong", "start", "message"), BARRIERS, ids=range(len(BARRIERS)))
def test_barriers_that_cannot_be_are_refused(wrong, start, message):
    with pytest.raises(KernelError, match=message):
        launch(wrong, np.full(1024, start, np.uint8), blocks=2)


def test_a_group_that_does_not_arrive_is_a_hang_with_its_line():
    def kernel(workspace):
        barrier = GroupBarrier(workspace, 2, 1)
        barrier.Arrive(0) if GetBlockIdx() else barrier.Wait(0)

    with pytest.raises(KernelHangError, match=r"Wait of <GroupBarrier of 2 and 1 cores, round 0> at .*groups\.py"):
        launch(kernel, np.zeros(1024, np.uint8), blocks=2)


def in_turn(x, y, workspace, rounds, is_told=True):
    """Each core adds its part to the same place, in the order of the blocks."""
    own = LocalTensor(int32, TPosition.VECCALC, 0x1000, 40)
    tile = LocalTensor(single, TPosition.VECCALC, 0, 64)
    InitDetermineComputeWorkspace(gm(workspace), own)
    for each in range(rounds):
        after(HardEvent.MTE3_MTE2)
        DataCopy(tile, gm(x)[(each * 4 + GetBlockIdx()) * 64 :], 64)
        after(HardEvent.MTE2_MTE3)
        WaitPreBlock(gm(workspace), own)
        SetAtomicAdd(single)
        DataCopy(gm(y), tile, 64)
        SetAtomicNone()
        if is_told:
            NotifyNextBlock(gm(workspace), own)


def test_cores_take_turns_in_the_order_of_their_blocks():
    x, y = np.random.default_rng(1).normal(size=(8, 64)).astype(single), np.zeros(64, single)
    result = launch(in_turn, x, y, np.full(32, 7, int32), 2, blocks=4)
    assert found(result) == []
    expected = np.zeros(64, single)
    for part in x:
        expected += part
    assert np.array_equal(y, expected)  # bit by bit: floats are added in this order
    stored = [[e for e in program.instructions if e.name == "DataCopy"][1::2] for program in result.programs]
    ends = [stored[block][turn].end for turn in range(2) for block in range(4)]
    assert ends == sorted(ends)


def test_a_core_that_does_not_tell_the_next_one_is_a_hang():
    with pytest.raises(KernelHangError, match="WaitPreBlock of vector core 1, behind 0, at "):
        launch(lambda *each: in_turn(*each, is_told=False), np.zeros(512, single), np.zeros(64, single),
               np.zeros(32, int32), 1, blocks=2)  # fmt: skip


def test_turns_that_cannot_be_are_refused():
    def own(size):
        return LocalTensor(int32, TPosition.VECCALC, 0, size)

    for wrong, message in (
        (lambda w: InitDetermineComputeWorkspace(gm(w), own(8)), "ub_workspace .*give it 64 bytes of int32 in UB"),
        (
            lambda w: InitDetermineComputeWorkspace(gm(w)[28:], own(16)),
            "gm_workspace .*give it 32 bytes of int32 in GM",
        ),
        (lambda w: NotifyNextBlock(gm(w), own(16)), "call InitDetermineComputeWorkspace.. first"),
    ):
        with pytest.raises(KernelError, match=message):
            launch(wrong, np.zeros(32, int32))
