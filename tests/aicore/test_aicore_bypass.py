"""Scalar accesses to GM past the data cache, and DataSyncBarrier."""

import numpy as np
import pytest
from cores import found, launch

from device_model.aicore.core.blocks import GetBlockIdx
from device_model.aicore.core.names import TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, int32
from device_model.aicore.flags.bypass import DataSyncBarrier, MemDsbT, ReadGmByPassDCache, WriteGmByPassDCache
from device_model.aicore.moving.copies import DataCopy
from device_model.kernel.findings import KernelError, KernelHangError

DDR = MemDsbT.DDR
FLAG = 123


def pass_on(gm, out, sender, delay=0):
    """One core writes data and then a flag; the other one polls the flag and doubles the data."""
    if GetBlockIdx() == sender:
        for number in range(delay):
            WriteGmByPassDCache(out + (8 + number), number)
        WriteGmByPassDCache(gm + 1, 21)
        DataSyncBarrier(DDR)
        WriteGmByPassDCache(gm, FLAG)
    else:
        while ReadGmByPassDCache(gm) != FLAG:
            pass
        WriteGmByPassDCache(out, 2 * ReadGmByPassDCache(gm + 1))


@pytest.mark.parametrize("sender", [0, 1])
def test_a_core_polls_a_flag_that_another_one_writes(sender):
    gm, out = np.zeros(16, int32), np.zeros(16, int32)
    result = launch(pass_on, gm, out, sender, 4, blocks=2)
    assert (out[0], found(result)) == (42, [])
    sent = [each.end for each in result.programs[sender].instructions if each.name == "WriteGmByPassDCache"]
    last = result.programs[1 - sender].instructions[-1]
    assert last.name == "WriteGmByPassDCache"
    assert last.start >= sent[-1]


def test_a_flag_that_nobody_writes_is_a_hang_with_its_line():
    def kernel(gm):
        while ReadGmByPassDCache(gm) != FLAG:
            pass

    with pytest.raises(KernelHangError, match=r"ReadGmByPassDCache of .* waits for a write that does not come"):
        launch(kernel, np.zeros(8, int32), blocks=2)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_core_polls_several_places_in_turn(place):
    """It reads a place again behind the others, and issues nothing else: then it lets the other core go on."""
    seen = []

    def kernel(gm):
        if GetBlockIdx() == 1:
            WriteGmByPassDCache(gm + (3 + place), 1)
            WriteGmByPassDCache(gm + place, FLAG)
            return
        flags = [0, 0, 0]
        while FLAG not in flags:
            flags = [ReadGmByPassDCache(gm + each) for each in range(3)]
        seen.append(flags.index(FLAG))

    result = launch(kernel, np.zeros(8, int32), blocks=2)
    assert seen == [place]
    assert len(result.programs[0].instructions) <= 12


def test_flags_that_nobody_writes_are_a_hang_with_a_line():
    def kernel(gm):
        while ReadGmByPassDCache(gm) != FLAG and ReadGmByPassDCache(gm + 1) != FLAG:
            pass

    with pytest.raises(KernelHangError, match=r"ReadGmByPassDCache of .* waits for a write that does not come"):
        launch(kernel, np.zeros(8, int32), blocks=2)


def test_a_place_that_is_read_twice_is_no_hang():
    seen = []

    def kernel(gm):
        seen.append([ReadGmByPassDCache(gm + each) for each in (0, 0, 1, 0)])

    launch(kernel, np.arange(8, dtype=int32))
    assert seen == [[0, 0, 1, 0]]


def test_a_place_may_be_read_again_between_other_work():
    seen = []

    def kernel(gm):
        for number in range(3):
            seen.append(ReadGmByPassDCache(gm))
            WriteGmByPassDCache(gm, number + 5)

    launch(kernel, np.zeros(8, int32))
    assert seen == [0, 5, 6]


def test_without_the_barrier_the_data_are_not_known_to_be_there():
    def kernel(gm, has_barrier):
        if GetBlockIdx() == 0:
            for number in range(8):
                WriteGmByPassDCache(gm + (8 + number), number)
            if has_barrier:
                DataSyncBarrier(DDR)
            WriteGmByPassDCache(gm, FLAG)
        else:
            while ReadGmByPassDCache(gm) != FLAG:
                pass
            tile = LocalTensor(int32, TPosition.VECCALC, 0, 8)
            DataCopy(tile, GlobalTensor(int32).SetGlobalBuffer(gm)[8:], 8)

    rules = [[rule for rule, _ in found(launch(kernel, np.zeros(16, int32), each, blocks=2))] for each in (True, False)]
    assert rules == [[], ["RAW"]]


def test_places_and_barriers_that_cannot_be_are_refused():
    for wrong, dtype, message in (
        (lambda gm: WriteGmByPassDCache(gm, 1), np.float32, "a place of integers in GM"),
        (lambda gm: ReadGmByPassDCache(gm + 8), int32, "there is no element"),
        (lambda gm: DataSyncBarrier(1), int32, "give it a MemDsbT"),
    ):
        with pytest.raises(KernelError, match=message):
            launch(wrong, np.zeros(8, dtype))
