"""Registers of a core: the system counter, saturation, and facts of the card."""

import numpy as np
import pytest
from cores import SPEC, found, launch
from instructions import bfloat16, half, in_ub, on_core, single, vector

from device_model.aicore.core.debug import printf
from device_model.aicore.core.names import KernelType, RoundMode, TPosition
from device_model.aicore.core.names import Pipe as P
from device_model.aicore.core.registers import (
    GetCtrlSpr,
    GetDataBlockSizeInBytes,
    GetSaturationFlag,
    GetSystemCycle,
    ICachePreLoad,
    SetCtrlSpr,
    SetNextTaskStart,
    SetSaturationFlag,
    WaitPreTaskEnd,
)
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, int64
from device_model.aicore.flags.sync import PipeBarrier
from device_model.aicore.vector.elementwise import Add, Cast, Div, Exp, Muls
from device_model.kernel.findings import KernelError


def counted(kernel, turns=1):
    """The ticks that *turns* of *kernel* take, as the kernel itself has written them to GM."""
    ticks = np.zeros(1, int64)

    def measure(out):
        PipeBarrier(P.ALL)
        before = GetSystemCycle()
        for _ in range(turns):
            kernel()
        PipeBarrier(P.ALL)
        GlobalTensor(int64).SetGlobalBuffer(out).SetValue(0, GetSystemCycle() - before)

    return ticks, launch(measure, ticks)


def test_a_kernel_measures_itself_in_ticks_of_50_mhz():
    def add():
        tensors = [LocalTensor(single, TPosition.VECCALC, at, 4096) for at in (0, 16_640, 65_536)]
        in_ub(np.ones(4096, single), 0), in_ub(np.ones(4096, single), 16_640)
        Add(tensors[2], tensors[0], tensors[1], 4096)

    ticks, result = counted(add, turns=100)
    read = [each for each in result.programs[0].instructions if each.name == "GetSystemCycle"]
    assert ticks[0] == int(read[1].start * 50 / SPEC.mhz) - int(read[0].start * 50 / SPEC.mhz)
    assert 220 <= ticks[0] <= 250  # 64 cycles each, after the first 24, in ticks of 37 cycles: 2390 for 1,000 on a card


def test_a_read_of_the_counter_takes_time():
    ticks, _ = counted(lambda: None)
    assert ticks[0] == 7  # 150 ns


def test_the_counter_is_printed_and_computed_with_and_never_compared():
    def kernel():
        one = GetSystemCycle()
        halves = (GetSystemCycle() - one) / 2
        printf("%d, %.1f, %d", one, halves, 1_000 + one * 0 % 7 - 2 * one // 10**9)
        for look in (lambda: one > 3, lambda: bool(one), lambda: range(one)):
            with pytest.raises(KernelError, match=r"is compared at .*; times are known after the kernel has run"):
                look()
        with pytest.raises(KernelError, match=r"is looked at at .*; times are known after the kernel has run"):
            int(one)
        with pytest.raises(KernelError, match="or write it to GM with SetValue"):
            LocalTensor(single, TPosition.VECCALC, 0, 8).SetValue(0, one)

    result = on_core(kernel)
    assert result.output.rstrip().endswith("] 60, 3.5, 1000")


def test_what_is_stored_over_the_counter_stays():
    def kernel(out):
        tensor = GlobalTensor(int64).SetGlobalBuffer(out)
        tensor.SetValue(0, GetSystemCycle())
        tensor.SetValue(0, -1)

    out = np.zeros(1, int64)
    launch(kernel, out)
    assert out.tolist() == [-1]


def test_results_saturate_where_the_kernel_asks_for_it():
    def modes(name, dtype):
        SetCtrlSpr(48, 48, int(name == "not"))
        assert GetSaturationFlag() is (name != "not")
        source = in_ub(np.array([1e30, -1e30, np.nan, 2], single), 0)
        out = LocalTensor(dtype, TPosition.VECCALC, 64, 16)
        Cast(out, source, RoundMode.CAST_RINT, 4)
        results.append(out.view[:4].astype(single).tolist())

    results = []
    on_core(modes, "do", half)
    on_core(modes, "not", half)
    on_core(modes, "do", bfloat16)
    assert results[0] == [65504, -65504, 0, 2]
    assert results[1][:2] == [np.inf, -np.inf]
    assert np.isnan(results[1][2])
    assert np.isfinite(results[2]).all()
    assert results[2][2:] == [0, 2]


def test_a_saturated_result_is_what_the_next_instruction_reads():
    def instruction(dst, src):
        SetSaturationFlag(is_saturated=True)
        Exp(dst, src, 16)
        Muls(dst, dst, -1, 16)
        SetSaturationFlag(is_saturated=False)
        Div(src, src, dst, 16)  # no half saturates any more

    out, _ = vector(instruction, np.zeros(16, half), np.full(16, 20, half))
    assert out.tolist() == [-65504] * 16


def test_the_control_register_has_one_bit_on_these_cards():
    assert found(on_core(lambda: seen.append((GetCtrlSpr(48, 48), GetSaturationFlag())))) == []
    assert seen == [(1, False)]
    for wrong, message in (
        (lambda: SetCtrlSpr(60, 60, 0), r"SetCtrlSpr of bits 60 to 60; Atlas A2 and A3 have bit 48.*Ascend 950"),
        (lambda: GetCtrlSpr(6, 8), r"GetCtrlSpr of bits 6 to 8; Atlas A2 and A3 have bit 48"),
        (lambda: SetCtrlSpr(48, 48, 2), r"SetCtrlSpr of 2; bit 48 is 0 or 1"),
    ):
        with pytest.raises(KernelError, match=message):
            on_core(wrong)


seen = []


def test_what_only_a_card_does_costs_nothing_here():
    def kernel():
        assert GetDataBlockSizeInBytes() == 32
        WaitPreTaskEnd()
        ICachePreLoad(2)
        SetNextTaskStart()

    assert on_core(kernel).programs[0].instructions == []
    with pytest.raises(KernelError, match=r"ICachePreLoad\(8\); pre_fetch_len is 1 to 7 on AIV: units of 2 KiB"):
        on_core(lambda: ICachePreLoad(8))
    on_core(lambda: ICachePreLoad(15), kind=KernelType.AIC_ONLY)
