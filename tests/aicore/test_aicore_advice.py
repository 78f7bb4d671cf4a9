"""Advice is right: who follows it saves what it said; who has followed it hears nothing; and asking changes nothing."""

import numpy as np
import pytest
from cores import SPEC, found, launch
from hypothesis import given, settings
from hypothesis import strategies as st

from device_model.aicore.core.blocks import GetBlockIdx
from device_model.aicore.core.names import HardEvent, TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, half
from device_model.aicore.flags.stages import Pipe, Pipeline
from device_model.aicore.flags.sync import SetFlag, WaitFlag
from device_model.aicore.flags.tpipe import TPipe
from device_model.aicore.moving.copies import DataCopy, DataCopyExtParams, DataCopyPad
from device_model.aicore.runner import run
from device_model.aicore.shaping.advice import Guideline, advise
from device_model.aicore.vector.elementwise import Add, Adds, Relu
from device_model.aicore.vector.masks import UnaryRepeatParams

LARGE = 8192  # halves, 16 KB


def add(x, y, z, tile, tiles, depth, apart):
    """z = x + y with src1 so many bytes behind where src0 ends."""
    x_gm, y_gm, z_gm = (GlobalTensor(half).SetGlobalBuffer(each) for each in (x, y, z))
    first = GetBlockIdx() * tile * tiles

    def load(at, a, _, b):
        DataCopy(a, x_gm[first + at * tile :], tile)
        DataCopy(b, y_gm[first + at * tile :], tile)

    def store(at, c):
        DataCopy(z_gm[first + at * tile :], c, tile)

    pipeline = Pipeline(TPipe(), depth)
    pipeline.AddStage(Pipe.MTE2, load, [(half, tile), (half, apart // 2), (half, tile)])
    pipeline.AddStage(Pipe.V, lambda _, a, gap, b, c: Add(c, a, b, tile), [(half, tile)])
    pipeline.AddStage(Pipe.MTE3, store)
    pipeline.Run(range(tiles))


def added(tile, tiles, *, depth=2, apart=256, blocks=1, offset=0):
    x, y, z = (np.ones(blocks * tile * tiles + offset, np.float16)[offset:] for _ in range(3))
    result = launch(add, x, y, z, tile, tiles, depth, apart, blocks=blocks)
    assert found(result) == []
    return result


def duration_us(result):
    return result.timeline.duration_ns / 1000


def of(advice, guideline):
    """The one about *guideline*, or None."""
    return next((each for each in advice if each.guideline is guideline), None)


def test_a_kernel_that_follows_all_guidelines_hears_nothing():
    assert advise(added(LARGE, 6, blocks=4)) == []


def test_moving_an_operand_out_of_the_others_banks_saves_what_was_said():
    bad = added(LARGE, 6, depth=1, apart=32 * 16)
    [advice] = advise(bad)
    assert advice.guideline is Guideline.BANKS_APART
    assert advice.saved_us == pytest.approx(6 * 64 / SPEC.mhz, abs=0.002)
    assert advice.saved_us == pytest.approx(duration_us(bad) - duration_us(added(LARGE, 6, depth=1)), abs=0.002)
    [case] = advice.cases
    assert str(case.site).startswith("test_aicore_advice.py:")
    assert str(advice) == (
        "BANKS_APART costs 0.21 us of the launch: move the operands apart in the UB, for example with a longer buffer "
        "in front of one\n"
        f"  {case.site}: Add (V) with src0 at UB[0], src1 at UB[16896], dst at UB[33280] takes 128 cycles, 64 of them "
        "for operands meeting in banks; src1 belongs 256 bytes further on (6 times)"
    )


def test_what_other_work_hides_costs_next_to_nothing():
    bad = added(LARGE, 8, blocks=48, apart=32 * 16)
    [hidden] = advise(bad)
    vector_us = 8 * 64 / SPEC.mhz
    assert hidden.guideline is Guideline.BANKS_APART
    assert abs(hidden.saved_us) < 0.3 * vector_us


def test_reads_and_writes_that_meet_in_a_bank_are_moved_apart():
    def kernel(at):
        src, dst = (LocalTensor(half, TPosition.VECCALC, address, 2048) for address in (0, at))
        for _ in range(8):
            Adds(dst, src, 1, 1024)

    bad = launch(kernel, 4096 + 32)
    [advice] = advise(bad)
    what = advice.cases[0].what
    assert "64 of them" not in what
    assert "dst belongs" in what
    shift = int(what.split("dst belongs ")[1].split()[0].replace(",", ""))
    good = launch(kernel, 4096 + 32 + shift)
    assert advise(good) == []
    assert advice.saved_us == pytest.approx(duration_us(bad) - duration_us(good), abs=0.002)


def test_a_stride_that_stays_in_one_bank_group_is_told_so():
    def kernel(stride):
        src, dst = (LocalTensor(half, TPosition.VECCALC, at, 32768) for at in (0, 0x12000))
        for _ in range(20):
            Adds(dst, src, 1, 128, 4, UnaryRepeatParams(1, stride, 8, 8))

    bad, good = launch(kernel, 16), launch(kernel, 17)  # 17 blocks are one group further each time
    [advice] = advise(bad)
    assert advice.cases[0].what.endswith("its strides stay in few bank groups")
    assert advice.saved_us == pytest.approx(duration_us(bad) - duration_us(good), abs=0.002)
    assert advise(good) == []


def test_a_tensor_cannot_be_moved_away_from_itself():
    def kernel(apart):
        x, y, z = (LocalTensor(half, TPosition.VECCALC, at, 1024) for at in (0, 8192 + apart, 32768))
        for _ in range(8):
            Add(z, x, x, 1024)  # meets itself, and nothing can be done
            Add(x, x, y, 1024)  # in place: what moves x away from y moves both

    assert advise(launch(kernel, 256)) == []
    [advice] = advise(launch(kernel, 32))
    [case] = advice.cases
    assert case.count == 8
    assert case.what.endswith("src1 belongs 224 bytes further on")


def test_aligning_copies_saves_what_was_said():
    bad, good = added(LARGE, 12, offset=16), added(LARGE, 12)
    [advice] = advise(bad)
    assert advice.guideline is Guideline.ALIGNED_COPIES
    assert [case.name for case in advice.cases] == ["DataCopy (MTE2)", "DataCopy (MTE2)", "DataCopy (MTE3)"]
    assert {case.what for case in advice.cases} == {"begins 32 bytes into a line of 512"}
    assert advice.saved_us == pytest.approx(duration_us(bad) - duration_us(good), rel=0.05)


def columns(x, y, width, tiles):
    """Relu of a matrix of 64 rows, *width* columns at a time; or the same where those lie together."""
    x_gm, y_gm = (GlobalTensor(half).SetGlobalBuffer(each) for each in (x, y))
    rows = 64
    gap = (tiles - 1) * width * 2

    def load(at, a):
        if at < 0:
            DataCopy(a, x_gm[(-1 - at) * rows * width :], rows * width)
        else:
            DataCopyPad(a, x_gm[at * width :], DataCopyExtParams(rows, width * 2, gap))

    def store(at, b):
        DataCopy(y_gm[(at if at >= 0 else -1 - at) * rows * width :], b, rows * width)

    pipeline = Pipeline(TPipe(), 2)
    pipeline.AddStage(Pipe.MTE2, load, [(half, rows * width)])
    pipeline.AddStage(Pipe.V, lambda _, a, b: Relu(b, a, rows * width), [(half, rows * width)])
    pipeline.AddStage(Pipe.MTE3, store)
    return pipeline


def in_columns(x, y, width, tiles):
    columns(x, y, width, tiles).Run(range(tiles))


def in_one_piece(x, y, width, tiles):
    columns(x, y, width, tiles).Run(-1 - at for at in range(tiles))


def test_storing_together_what_is_read_together_saves_what_was_said():
    width, tiles = 16, 16
    x, y = np.ones(64 * width * tiles, np.float16), np.zeros(64 * width * tiles, np.float16)
    bad, good = (launch(kernel, x, y, width, tiles) for kernel in (in_columns, in_one_piece))
    advice = of(advise(bad), Guideline.WHOLE_LINES)
    assert advice.cases[0].what == (
        "has rows of 32 bytes, 512 apart, and asks for 8,192 bytes to get 2,048; "
        "12 of 16 times from the L2, where each row takes as long as 512 bytes"
    )
    assert advice.saved_us == pytest.approx(duration_us(bad) - duration_us(good), rel=0.1)
    assert of(advise(good), Guideline.WHOLE_LINES) is None


@pytest.mark.parametrize("tile", [512, 2048])
def test_larger_copies_save_about_what_was_said(tile):
    bad, good = added(tile, 16 * LARGE // tile, depth=1), added(LARGE, 16, depth=1)
    advice = of(advise(bad), Guideline.LARGE_COPIES)
    assert {case.what for case in advice.cases} == {f"moves {2 * tile:,} bytes at a time"}
    # Larger tiles save more than starts of copies: turns of the loop with their flags.
    assert 0.7 < advice.saved_us / (duration_us(bad) - duration_us(good)) < 1.1
    assert of(advise(good), Guideline.LARGE_COPIES) is None


def test_advice_comes_with_what_saves_most_first():
    advice = advise(added(512, 32, apart=32 * 16, offset=16, blocks=2))
    assert {each.guideline for each in advice} == {
        Guideline.LARGE_COPIES, Guideline.ALIGNED_COPIES, Guideline.BANKS_APART,
    }  # fmt: skip
    assert [each.saved_us for each in advice] == sorted((each.saved_us for each in advice), reverse=True)


def times(result):
    return [
        (each.start, each.end, each.cycles, each.flow) for program in result.programs for each in program.instructions
    ]


@settings(max_examples=20)
@given(
    st.integers(1, 64), st.integers(1, 12), st.integers(1, 3), st.integers(1, 40), st.integers(0, 32), st.integers(1, 3)
)
def test_asking_changes_nothing(units, tiles, depth, apart, offset, blocks):
    result = added(32 * units, tiles, depth=depth, apart=32 * apart, offset=16 * offset, blocks=blocks)
    before, duration = times(result), result.timeline.duration_ns
    first, again = advise(result), advise(result)
    assert [str(each) for each in first] == [str(each) for each in again]
    assert times(result) == before
    assert result.timeline.duration_ns == duration


def test_a_launch_without_times_is_refused():
    with pytest.raises(ValueError, match="this launch has no times"):
        advise(run(lambda: None, 1, (), SPEC, timing=False))


def test_kernels_with_flags_of_their_own_are_read_too():
    def kernel(x):
        x_gm = GlobalTensor(half).SetGlobalBuffer(x)
        local = LocalTensor(half, TPosition.VECCALC, 0, 64)
        for at in range(0, 1024, 64):
            DataCopy(local, x_gm[at:], 64)
            SetFlag(HardEvent.MTE2_MTE3, 0)
            WaitFlag(HardEvent.MTE2_MTE3, 0)
            DataCopy(x_gm[at:], local, 64)
            SetFlag(HardEvent.MTE3_MTE2, 0)
            WaitFlag(HardEvent.MTE3_MTE2, 0)

    [advice] = advise(launch(kernel, np.zeros(1024, np.float16)))
    assert advice.guideline is Guideline.LARGE_COPIES
    assert [(case.name, case.count) for case in advice.cases] == [("DataCopy (MTE2)", 16), ("DataCopy (MTE3)", 16)]
