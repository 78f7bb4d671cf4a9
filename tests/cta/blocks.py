"""What the tests of thread-block kernels share: a launch on NumPy arrays, without a device."""

from inspect import signature

import numpy as np

from device_model.cta.memories import GlobalMemory
from device_model.cta.runner import run
from device_model.cta.tensors import Tensor


def launch(kernel, *args, grid=(1, 1, 1), threads=32, shared=None, hazards=True, out=()):
    """Run *kernel*; arrays are global memory that it changes in place. Names of arguments in *out* hold nothing."""
    names = list(signature(kernel).parameters)
    values = [
        tensor(arg, name, is_empty=name in out) if isinstance(arg, np.ndarray) else arg
        for arg, name in zip(args, names, strict=False)
    ]
    return run(
        kernel,
        grid,
        values,
        threads=threads,
        capacity=shared or 48 * 1024,
        is_dynamic=shared is not None,
        hazards=hazards,
    )


def tensor(array, name, *, is_empty=False):
    data = array.reshape(-1).view(np.uint8)
    memory = GlobalMemory(data, name, name, ((0, len(data)),) if is_empty else ())
    return Tensor(memory, name, 0, array.dtype, array.shape)


def found(result):
    """Rules and what was missing, of each finding."""
    return [(finding.rule.name, finding.missing) for finding in result.findings]


def names(result, block=0):
    """The instructions of a block, each with how often its warps issue it."""
    return [(row.name, row.count) for row in result.blocks[block].rows]
