"""What the tests of vector and cube instructions share: a core to try one on, and arrays in its memories."""

import ml_dtypes
import numpy as np
from cores import launch, prewritten
from hypothesis import strategies as st

from device_model.aicore.core.machine import running
from device_model.aicore.core.names import KernelType, TPosition
from device_model.aicore.core.tensors import LocalTensor
from device_model.aicore.flags.sync import SetFlag, WaitFlag

half, single, bfloat16 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(ml_dtypes.bfloat16)
seeds = st.integers(0, 2**32 - 1)
floats = st.sampled_from([half, single])


def normal(seed, count, dtype):
    """Normally distributed numbers."""
    return np.random.default_rng(seed).normal(size=count).astype(dtype)


def on_core(kernel, *args, kind=KernelType.AIV_ONLY, **options):
    """Run a kernel on one core."""
    return launch(kernel, *args, kind=kind, **options)


def after(event):
    """Let the destination of *event* wait for its source."""
    SetFlag(event, 0)
    WaitFlag(event, 0)


def in_ub(array, address):
    """A tensor in UB that holds *array*."""
    tensor = prewritten(LocalTensor(array.dtype, TPosition.VECCALC, address, array.size))
    tensor.view[:] = array.ravel()
    return tensor


def issued():
    """The last instruction of the core that is running, as (name, startup, cycles)."""
    last = running().instructions[-1]
    return last.name, last.startup, last.cycles


def vector(instruction, out, *inputs, step=40_960):
    """Run `instruction(dst, *srcs)` in UB, each operand in a part of its own; gives what dst holds, and the launch."""
    result = out.copy()

    def kernel():
        dst = in_ub(out, 0)
        srcs = [in_ub(array, step * index) for index, array in enumerate(inputs, 1)]
        instruction(dst, *srcs)
        result[:] = dst.view

    return result, on_core(kernel)


def same(actual, expected):
    """Are two arrays the same, bit for bit, but for which NaN a NaN is?"""
    return actual.dtype == expected.dtype and np.array_equal(
        actual.astype(np.float64) if actual.dtype.kind not in "iu" else actual,
        expected.astype(np.float64) if actual.dtype.kind not in "iu" else expected,
        equal_nan=actual.dtype.kind not in "iu",
    )
