"""What the tests of thread-block kernels share: launches on NumPy arrays without a device, tiles, a pipeline."""

from inspect import signature

import numpy as np

import acl_py as acl
from acl_py import cta
from device_model.cta.language.memories import GlobalMemory
from device_model.cta.language.tensors import Tensor
from device_model.cta.runner import run

TILE = 256  # elements


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


def tiles(count, length=TILE):
    """So many tiles of different numbers."""
    return np.arange(count * length, dtype=np.float32).reshape(count, length)


def pipelined(x, y, count, *without):
    """Double the tiles of *x* in two stages; each call in *without* is left out."""
    s, t = cta.shared(np.float32, (2, TILE)), cta.tid
    pipe = cta.pipeline(stages=2)
    for i in range(count + 1):
        if i < count:
            pipe.producer_acquire()
            cta.memcpy_async(s[i % 2], x[i], 16)
            pipe.producer_commit()
        if i:
            if "wait" not in without:
                pipe.consumer_wait()
            if "sync before" not in without:
                cta.syncthreads()
            y[i - 1, t] = s[(i - 1) % 2, t] * 2
            pipe.consumer_release()
            if "sync behind" not in without:
                cta.syncthreads()


async def on_device(values):
    """A copy of *values* in the memory of the device."""
    array = acl.Array(await acl.Malloc(values.nbytes), values.dtype, values.shape)
    await acl.Memcpy(array, array.nbytes, values, values.nbytes, acl.MemcpyKind.HOST_TO_DEVICE)
    return array


async def read(array):
    """What *array*, in the memory of the device, holds."""
    values = np.empty(array.shape, array.dtype)
    await acl.Memcpy(values, values.nbytes, array, array.nbytes, acl.MemcpyKind.DEVICE_TO_HOST)
    return values
