"""Looking into a kernel: what is printed, where an assertion failed, a debugger that stops."""

import gc
import io
import pdb
import sys

import numpy as np
import pytest
from cores import launch

from device_model.aicore.core.blocks import GetBlockIdx
from device_model.aicore.core.debug import DumpTensor, assert_, printf
from device_model.aicore.core.findings import KernelAssertionError
from device_model.aicore.core.names import KernelType, TPosition
from device_model.aicore.core.tensors import GlobalTensor, LocalTensor, float32
from device_model.aicore.flags.crossing import SyncAll
from device_model.aicore.moving.copies import DataCopy
from device_model.kernel.findings import KernelError


def test_what_is_printed_says_who_said_it():
    def kernel(x):
        a = LocalTensor(float32, TPosition.VECIN, 0, 8)
        DataCopy(a, GlobalTensor().SetGlobalBuffer(x), 8)
        printf("block %-2lld of %s\n", GetBlockIdx(), "two")
        DumpTensor(a, 5, 3)

    x = np.arange(8, dtype=np.float32)
    result = launch(kernel, x, blocks=2, timing=False)
    assert result.output.splitlines() == [
        "[block 0 (AIV)] block 0  of two",
        "[block 0 (AIV)] DumpTensor desc=5 <LocalTensor VECIN UB[0] float32 x 8>: [0.0, 1.0, 2.0]",
        "[block 1 (AIV)] block 1  of two",
        "[block 1 (AIV)] DumpTensor desc=5 <LocalTensor VECIN UB[0] float32 x 8>: [0.0, 1.0, 2.0]",
    ]
    result = launch(kernel, x, blocks=2)
    copy, said, dumped = result.programs[0].instructions
    assert result.output.startswith(f"[block 0 (AIV), cycle {said.start:.0f}] block 0  of two\n")
    assert copy.start <= said.start == said.end == dumped.start  # looking costs nothing


def test_an_assertion_that_holds_says_nothing_and_one_that_fails_stops_the_kernel():
    def kernel():
        assert_(True, "%d", 1)
        printf("before")
        assert_(GetBlockIdx() == 0, "block %d", GetBlockIdx())

    with pytest.raises(
        KernelAssertionError, match=r"failed at test_aicore_debug.py:\d+: \[block 1 \(AIV\), cycle \d+\] block 1"
    ) as raised:
        launch(kernel, blocks=3)
    assert raised.value.__notes__ == ["in block 1 (AIV) of the kernel"]
    assert raised.value.result.output.count("before") == 2


def test_a_debugger_stops_in_a_kernel_and_steps_over_a_wait_for_other_blocks(monkeypatch):
    said = io.StringIO()

    def kernel():
        block = 10 * GetBlockIdx()
        if block == 10:
            breakpoint()
        SyncAll()
        block += 1
        SyncAll()

    def debug():
        debugger = pdb.Pdb(
            stdin=io.StringIO("p block\nnext\nnext\nnext\np block\ncontinue\n"), stdout=said, nosigint=True
        )
        debugger.set_trace(sys._getframe(1))

    monkeypatch.setattr(sys, "breakpointhook", debug)
    launch(kernel, blocks=3)
    values = [line.removeprefix("(Pdb) ") for line in said.getvalue().splitlines() if "(Pdb)" in line]
    assert [value for value in values if value.isdigit()] == ["10", "11"]
    assert "-> SyncAll()" in said.getvalue()


def test_an_exception_of_the_kernel_is_its_own_with_a_note():
    def kernel():
        printf("here")
        return 1 // GetBlockIdx()

    with pytest.raises(ZeroDivisionError) as raised:
        launch(kernel, blocks=2)
    assert raised.value.__notes__ == ["in block 0 (AIV) of the kernel"]
    assert raised.value.result.output == "[block 0 (AIV)] here\n"


def test_outside_of_a_kernel_there_is_no_core():
    with pytest.raises(KernelError, match="outside a core kernel"):
        GetBlockIdx()


def test_blocks_that_wait_are_ended_with_the_kernel_that_fails():
    ended = []

    def kernel():
        try:
            if GetBlockIdx() == 1:
                raise ValueError("wrong")
            SyncAll()
        finally:
            ended.append(GetBlockIdx())

    with pytest.raises(ValueError, match="wrong"):
        launch(kernel, blocks=2)
    assert ended == [1, 0]


def test_launches_refuse_what_makes_no_sense():
    with pytest.raises(ValueError, match="1 block or more"):
        launch(lambda: None, blocks=0)
    with pytest.raises(ValueError, match="weak=True needs hazards=True"):
        launch(lambda: None, weak=True, hazards=False)
    with pytest.raises(TypeError, match="contiguous"):
        launch(lambda x: None, np.ones((4, 4), np.float32)[:, 1])
    with pytest.raises(TypeError, match="complex"):
        launch(lambda x: None, np.ones(4, np.complex64))
    assert launch(lambda: None, kind=KernelType.AIC_ONLY).programs[0].instructions == []


@pytest.mark.parametrize("was_enabled", [True, False])
def test_the_garbage_collector_rests_during_a_launch_and_is_left_as_it_was(was_enabled):
    seen = []

    def kernel():
        seen.append(gc.isenabled())
        assert_(GetBlockIdx() == 0)

    before = gc.isenabled()
    (gc.enable if was_enabled else gc.disable)()
    try:
        with pytest.raises(KernelAssertionError):
            launch(kernel, blocks=2)
        assert (seen, gc.isenabled()) == ([False, False], was_enabled)
    finally:
        (gc.enable if before else gc.disable)()


def test_overflow_is_infinity_and_no_warning():
    def kernel(x):
        with np.errstate():  # as kernels might
            pass
        GlobalTensor().SetGlobalBuffer(x).view[:] *= np.float16(60_000)
        SyncAll()
        GlobalTensor().SetGlobalBuffer(x).view[:] *= np.float16(60_000)

    x = np.ones(8, np.float16)
    launch(kernel, x, blocks=2)
    assert np.isinf(x).all()
