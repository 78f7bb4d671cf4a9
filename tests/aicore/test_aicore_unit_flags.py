"""Unit flags: Mmad and Fixpipe take turns at L0C block by block, without M_FIX and FIX_M."""

import numpy as np
import pytest
from cores import SPEC, found
from hypothesis import given, settings
from hypothesis import strategies as st
from instructions import after, half, on_core, single

from device_model.aicore.core.names import HardEvent, KernelType, TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor
from device_model.aicore.cube.fixpipe import CO2Layout, Fixpipe, FixpipeParams, QuantMode, SetFixPipeConfig
from device_model.aicore.cube.loads import LoadData, LoadData2DParams
from device_model.aicore.cube.mmad import Mmad, MmadParams
from device_model.aicore.moving.copies import DataCopy, Nd2NzParams
from device_model.kernel.findings import KernelError


def factors_in_place(x, m, k):
    """x (m x k) in L0A, and x transposed in L0B."""
    a1 = LocalTensor(half, TPosition.A1, 0, m * k)
    a2, b2 = LocalTensor(half, TPosition.A2, 0, m * k), LocalTensor(half, TPosition.B2, 0, m * k)
    DataCopy(a1, GlobalTensor(half).SetGlobalBuffer(x), Nd2NzParams(1, m, k, 0, k, m, 1, 0))
    after(HardEvent.MTE2_MTE1)
    for row in range(m // 16):
        LoadData(a2[row * k * 16 :], a1, LoadData2DParams(row, k // 16, m // 16))
    LoadData(b2, a1, LoadData2DParams(0, m * k // 256))
    after(HardEvent.MTE1_M)
    return a2, b2


def results(x, c, m, k, results, rounds, flags, events):
    """*results* times x * x', each summed up in *rounds* Mmads, through the same place in L0C."""
    a2, b2 = factors_in_place(x, m, k)
    c1 = LocalTensor(single, TPosition.CO1, 0, m * m)
    out = GlobalTensor(single).SetGlobalBuffer(c)
    for index in range(results):
        for turn in range(rounds):
            unit_flag = flags[0 if turn < rounds - 1 else 1]
            if index and not turn and events:
                after(HardEvent.FIX_M)
            Mmad(c1, a2, b2, MmadParams(m, m, k, turn == 0, unit_flag))
        if events:
            after(HardEvent.M_FIX)
        Fixpipe(out[index * m * m :], c1, FixpipeParams(m, m, unit_flag=flags[2]))


def run_results(flags, events, count=3, rounds=4, m=64, k=64):
    x = np.random.default_rng(1).normal(size=(m, k)).astype(half)
    c = np.zeros((count, m, m), np.float32)
    result = on_core(results, x, c, m, k, count, rounds, flags, events, kind=KernelType.AIC_ONLY)
    wide = x.astype(np.float32)
    assert np.allclose(c, rounds * (wide @ wide.T), rtol=1e-5, atol=1e-4)
    return result


def test_no_events_are_needed_and_the_result_is_right():
    assert found(run_results((2, 3, 3), events=False)) == []


def test_without_unit_flags_the_events_are_missing():
    assert sorted(found(run_results((0, 0, 0), events=False))) == [("RAW", "M_FIX"), ("WAR", "FIX_M")]
    assert found(run_results((0, 0, 0), events=True)) == []


def test_fixpipe_and_the_next_mmad_overlap():
    """A result leaves while it is computed and the next is computed while it leaves; in order all the same."""
    flagged, waiting = (
        run_results(flags, events, count=6) for flags, events in (((2, 3, 3), False), ((0, 0, 0), True))
    )
    (program,) = flagged.programs
    mmads = [each for each in program.instructions if each.name == "Mmad"]
    pipes = [each for each in program.instructions if each.name == "Fixpipe"]
    for last, fix in zip(mmads[3::4], pipes, strict=True):
        assert last.start < fix.start < last.end < fix.end
        assert fix.waits == (last,)
    for fix, following in zip(pipes, mmads[4::4], strict=False):
        assert fix.start < following.start < fix.end < following.end
        assert following.waits == (fix,)
    assert all(each.waits == () for index, each in enumerate(mmads) if index % 4 or not index)
    assert flagged.timeline.duration_ns < waiting.timeline.duration_ns


@pytest.mark.parametrize(
    ("columns", "waits", "findings"),
    [
        (32, True, []),
        (32, False, [("WAR", "M_MTE1")]),
        (16, True, [("WAR", "M_MTE1"), ("FLAG_LEFT_SET", "Fixpipe with unit_flag 3")]),
    ],
)
def test_what_waits_for_the_last_blocks_is_behind_the_mmad(columns, waits, findings):
    """When Fixpipe has taken all that an Mmad computes, that has read its factors."""

    def kernel(x, c):
        a2, b2 = factors_in_place(x, 32, 32)
        c1 = LocalTensor(single, TPosition.CO1, 0, 1024)
        Mmad(c1, a2, b2, MmadParams(32, 32, 32, unit_flag=3))
        Fixpipe(GlobalTensor(single).SetGlobalBuffer(c), c1, FixpipeParams(columns, 32, unit_flag=3))
        if waits:
            after(HardEvent.FIX_MTE1)
        LoadData(a2, LocalTensor(half, TPosition.A1, 0, 1024), LoadData2DParams(0, 4))

    result = on_core(kernel, np.ones((32, 32), half), np.zeros((32, 32), single), kind=KernelType.AIC_ONLY)
    assert found(result) == findings


def test_fixpipe_to_l1_follows_too():
    def kernel(x):
        a2, b2 = factors_in_place(x, 128, 64)
        c1 = LocalTensor(single, TPosition.CO1, 0, 128 * 128)
        a1 = LocalTensor(half, TPosition.A1, 0x10000, 128 * 128)
        for _ in range(2):
            Mmad(c1, a2, b2, MmadParams(128, 128, 64, unit_flag=3))
            params = FixpipeParams(128, 128, quant_pre=QuantMode.F322F16, unit_flag=3)
            Fixpipe(a1, c1, params, CO2Layout.NZ)
            after(HardEvent.FIX_MTE1)

    result = on_core(kernel, np.ones((128, 64), half), kind=KernelType.AIC_ONLY)
    assert found(result) == [("WAW", "PipeBarrier<FIX>")]  # of a1
    first, fix, second, _ = (each for each in result.programs[0].instructions if each.name in ("Mmad", "Fixpipe"))
    assert first.start < fix.start < first.end < fix.end
    assert fix.start < second.start
    assert second.end > fix.end


@settings(max_examples=25)
@given(
    splits=st.lists(st.sampled_from([16, 32, 48, 64]), min_size=1, max_size=4),
    rounds=st.integers(1, 3),
    repeat=st.integers(1, 3),
)
def test_one_result_leaves_in_parts(splits, rounds, repeat):
    """Each part turns its own blocks; the next result waits for all of them."""
    m, n, k = 32, sum(splits), 32
    x = np.random.default_rng(n).integers(-3, 4, (n, k)).astype(half)
    c = np.zeros((repeat, m, n), np.float32)

    def kernel(x, c):
        a1 = LocalTensor(half, TPosition.A1, 0, n * k)
        a2, b2 = LocalTensor(half, TPosition.A2, 0, m * k), LocalTensor(half, TPosition.B2, 0, n * k)
        c1 = LocalTensor(single, TPosition.CO1, 0, m * n)
        DataCopy(a1, GlobalTensor(half).SetGlobalBuffer(x), Nd2NzParams(1, n, k, 0, k, n, 1, 0))
        after(HardEvent.MTE2_MTE1)
        for row in range(min(m, n) // 16):
            LoadData(a2[row * k * 16 :], a1, LoadData2DParams(row, k // 16, n // 16))
        LoadData(b2, a1, LoadData2DParams(0, n * k // 256))
        after(HardEvent.MTE1_M)
        out = GlobalTensor(single).SetGlobalBuffer(c)
        for index in range(repeat):
            for turn in range(rounds):
                Mmad(c1, a2, b2, MmadParams(min(m, n), n, k, turn == 0, 3 if turn == rounds - 1 else 2))
            left = 0
            for width in splits:
                params = FixpipeParams(width, min(m, n), 0, n, unit_flag=3)
                Fixpipe(out[index * m * n + left :], c1[left * min(m, n) :], params)
                left += width

    result = on_core(kernel, x, c, kind=KernelType.AIC_ONLY)
    wide = x.astype(np.float32)
    assert np.array_equal(c[:, : min(m, n)], np.broadcast_to(rounds * (wide[:m] @ wide.T), (repeat, min(m, n), n)))
    assert found(result) == []


def wrong_pair(mmad_flags, fixpipe_flags, between=lambda c1: None):
    def kernel(x, c):
        a2, b2 = factors_in_place(x, 32, 32)
        c1 = LocalTensor(single, TPosition.CO1, 0, 1024)
        for turn, unit_flag in enumerate(mmad_flags):
            Mmad(c1, a2, b2, MmadParams(32, 32, 32, turn == 0, unit_flag))
        between(c1)
        for unit_flag in fixpipe_flags:
            Fixpipe(GlobalTensor(single).SetGlobalBuffer(c), c1, FixpipeParams(32, 32, unit_flag=unit_flag))

    return on_core(kernel, np.ones((32, 32), half), np.zeros((32, 32), single), kind=KernelType.AIC_ONLY)


@pytest.mark.parametrize(
    ("mmad_flags", "fixpipe_flags", "message"),
    [
        ((2,), (3,), "no Mmad filled all of L0C[0:4096]; issue an Mmad with unit_flag 3 before it"),
        ((0,), (3,), "no Mmad filled all of L0C[0:4096]"),
        ((3,), (3, 3), "no Mmad filled all of L0C[0:4096]"),
        ((3, 3), (3,), "only the last has unit_flag 3"),
        ((3, 2), (3,), "filled L0C[0:4096]; a Fixpipe with unit_flag 3 must read a result before"),
        ((1,), (3,), "unit_flag 1; it is 0 (off), 2"),
    ],
)
def test_a_pair_that_waits_for_ever_is_named(mmad_flags, fixpipe_flags, message):
    with pytest.raises(KernelError) as refused:
        wrong_pair(mmad_flags, fixpipe_flags)
    assert message in str(refused.value)
    if "filled L0C[0:4096]" in message and "no Mmad" not in message:
        assert "Mmad (M) at test_aicore_unit_flags.py" in str(refused.value)


@pytest.mark.parametrize("fixpipe_flags", [(), (2,), (0,)])
def test_blocks_left_full_are_reported(fixpipe_flags):
    result = wrong_pair((3,), fixpipe_flags, lambda c1: after(HardEvent.M_FIX))
    assert found(result) == [("FLAG_LEFT_SET", "Fixpipe with unit_flag 3")]


def test_a_fixpipe_without_the_flag_needs_the_event():
    assert ("RAW", "M_FIX") in found(wrong_pair((3,), (0,)))


def test_an_mmad_without_the_flag_is_not_waited_for():
    assert found(wrong_pair((3, 0), (3,))) == [("RAW", "M_FIX")]


def test_of_two_fixpipes_of_one_result_the_first_keeps_the_flags():
    assert found(wrong_pair((3,), (2, 3))) == [("WAW", "PipeBarrier<FIX>")]  # to one place in GM


def test_all_blocks_can_be_made_empty():
    result = wrong_pair((3,), (), lambda c1: SetFixPipeConfig(c1, is_unit_flag=True))
    assert found(result) == []


def test_blocks_made_empty_are_waited_for_no_more():
    def kernel(x, c):
        a2, b2 = factors_in_place(x, 32, 32)
        c1 = LocalTensor(single, TPosition.CO1, 0, 1024)
        out = GlobalTensor(single).SetGlobalBuffer(c)
        for index in range(2):
            Mmad(c1, a2, b2, MmadParams(32, 32, 32, unit_flag=3))
            Fixpipe(out[index * 1024 :], c1, FixpipeParams(32, 32, unit_flag=3))
            SetFixPipeConfig(c1, is_unit_flag=True)

    result = on_core(kernel, np.ones((32, 32), half), np.zeros((64, 32), single), kind=KernelType.AIC_ONLY)
    assert found(result) == [("WAR", "FIX_M")]


@pytest.mark.parametrize("position", ["GM", "L1"])
def test_what_leaves_fast_ends_when_the_last_block_has_come(position):
    """1,331 cycles of Mmad, and fewer to bring its result away."""
    size = 176

    def kernel(x, c):
        a2, b2 = factors_in_place(x, size, size)
        c1 = LocalTensor(single, TPosition.CO1, 0, size * size)
        Mmad(c1, a2, b2, MmadParams(size, size, size, unit_flag=3))
        params = FixpipeParams(size, size, quant_pre=QuantMode.F322F16, unit_flag=3)
        if position == "GM":
            Fixpipe(GlobalTensor(half).SetGlobalBuffer(c), c1, params)
        else:
            Fixpipe(LocalTensor(half, TPosition.A1, 0x20000, size * size), c1, params, CO2Layout.NZ)

    x = np.random.default_rng(2).normal(size=(size, size)).astype(half)
    result = on_core(kernel, x, np.zeros((size, size), half), kind=KernelType.AIC_ONLY)
    mmad, fix = (each for each in result.programs[0].instructions if each.name in ("Mmad", "Fixpipe"))
    assert mmad.end - mmad.start == pytest.approx(SPEC.mmad_startup + 11**3)
    assert fix.start == mmad.start + SPEC.flag_latency
    assert fix.end == mmad.end + SPEC.flag_latency
    assert found(result) == []
