"""auto_sync: flags between the scalar pipe and others are inserted where accesses to UB need them, and nowhere else."""

import numpy as np
import pytest
from cores import found, launch, names, prewritten
from tiles import N, gm

from acl_py import asc
from device_model.aicore.core.names import HardEvent, Pipe, TPosition
from device_model.aicore.core.tensors import LocalTensor, float32
from device_model.aicore.flags.sync import PipeBarrier, SetFlag, WaitFlag
from device_model.aicore.moving.copies import DataCacheCleanAndInvalid, DataCopy
from device_model.aicore.vector.elementwise import Adds, Muls
from device_model.aicore.vector.fill import Duplicate


def tile():
    return LocalTensor(float32, TPosition.VECCALC, 0, N)


def copies_in_and_scales_by_what_it_finds(x, z):
    """The scalar pipe reads what MTE2 wrote, and writes what V and MTE3 read; nothing but V to MTE3 has a flag."""
    a, (g, h) = tile(), gm(x, z)
    DataCopy(a, g, N)
    factor = a.GetValue(1)
    a.SetValue(0, 5.0)
    Muls(a, a, float(factor), N)
    a.SetValue(1, 7.0)
    SetFlag(HardEvent.V_MTE3, 0)
    WaitFlag(HardEvent.V_MTE3, 0)
    DataCopy(h, a, N)


def test_the_flags_of_the_scalar_pipe_are_inserted_where_they_are_needed():
    x, z = np.full(N, 2, np.float32), np.zeros(N, np.float32)
    result = launch(copies_in_and_scales_by_what_it_finds, x, z, auto_sync=True)
    assert found(result) == []
    assert names(result) == [
        "DataCopy",
        "SetFlag<MTE2_S>", "WaitFlag<MTE2_S>", "GetValue", "SetValue",
        "SetFlag<S_V>", "WaitFlag<S_V>", "Muls",
        "SetFlag<V_S>", "WaitFlag<V_S>", "SetValue",
        "SetFlag<V_MTE3>", "WaitFlag<V_MTE3>",
        "SetFlag<S_MTE3>", "WaitFlag<S_MTE3>", "DataCopy",
    ]  # fmt: skip
    assert z.tolist() == [10, 7, *[4] * (N - 2)]


def test_without_it_one_finding_says_so():
    result = launch(copies_in_and_scales_by_what_it_finds, np.full(N, 2, np.float32), np.zeros(N, np.float32))
    assert found(result) == [("RAW", "MTE2_S"), ("RAW", "MTE2_V")]  # the second follows from the first
    flags, _ = result.findings
    assert flags.count == 6
    assert "@asc.kernel(auto_sync=True) does so, here and wherever else" in flags.text


def test_an_inserted_wait_costs_the_time_that_it_waits():
    def kernel(x, waits):
        a, (g,) = tile(), gm(x)
        DataCopy(a, g, N)
        if waits:
            SetFlag(HardEvent.MTE2_S, 0)
            WaitFlag(HardEvent.MTE2_S, 0)
        a.GetValue(0)

    x = np.ones(N, np.float32)
    inserted = launch(kernel, x, False, auto_sync=True)
    assert inserted.timeline.duration_ns == launch(kernel, x, True).timeline.duration_ns
    assert inserted.timeline.duration_ns > launch(kernel, x, False).timeline.duration_ns


def test_accesses_that_are_in_order_get_no_flag():
    def kernel(x):
        a, (g,) = tile(), gm(x)
        DataCopy(a, g, N)
        PipeBarrier(Pipe.ALL)
        a.GetValue(0)
        a.SetValue(N - 1, 1.0)
        Duplicate(LocalTensor(float32, TPosition.VECCALC, 4 * N, N), 0.0, N)

    result = launch(kernel, np.ones(N, np.float32), auto_sync=True)
    assert found(result) == []
    assert names(result) == ["DataCopy", "PipeBarrier<ALL>", "GetValue", "SetValue", "Duplicate"]


def test_what_overwrites_bytes_that_the_scalar_pipe_has_read_waits_for_it():
    def kernel(x):
        a, (g,) = prewritten(tile()), gm(x)
        a.GetValue(0)
        DataCopy(a, g, N)

    result = launch(kernel, np.ones(N, np.float32), auto_sync=True)
    assert found(result) == []
    assert names(result) == ["GetValue", "SetFlag<S_MTE2>", "WaitFlag<S_MTE2>", "DataCopy"]


def test_in_gm_flags_are_not_inserted():
    def kernel(x):
        (g,) = gm(x)
        g.SetValue(0, 1.0)
        DataCacheCleanAndInvalid(g)
        DataCopy(tile(), g, N)

    assert found(launch(kernel, np.ones(N, np.float32), auto_sync=True)) == [("RAW", "S_MTE2")]


def test_flags_between_other_pipes_are_still_missing():
    def kernel(x):
        a, (g,) = tile(), gm(x)
        DataCopy(a, g, N)
        Adds(a, a, 1.0, N)

    assert found(launch(kernel, np.ones(N, np.float32), auto_sync=True))[0] == ("RAW", "MTE2_V")


def test_it_needs_the_checks():
    with pytest.raises(ValueError, match="auto_sync=True needs hazards=True"):
        asc.kernel(auto_sync=True, hazards=False)
    with pytest.raises(ValueError, match="auto_sync=True needs hazards=True"):
        launch(lambda: None, auto_sync=True, hazards=False)


def test_a_kernel_that_is_tuned_keeps_it():
    @asc.kernel(auto_sync=True)
    def sums(x: asc.In, count: int):
        a = asc.LocalTensor(asc.half, asc.TPosition.VECCALC, 0, 128)
        asc.DataCopy(a, asc.GlobalTensor().SetGlobalBuffer(x), 128)
        for index in range(count):
            a.GetValue(index)

    (row,) = asc.tune(sums, 1, [np.ones(128, np.float16)], {"count": (3,)}, device="ascend910b1").rows
    assert row.failure == ""
