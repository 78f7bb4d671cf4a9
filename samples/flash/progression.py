"""Shows: FlashAttention for blocks of threads, one improvement of the kernel after the other.

Scenario: attention of one head on a card with SMs; each step is a change to the one before. The base kernel copies a
tile, waits, multiplies, and copies the next. Then pieces of shared memory are swizzled, so that ldmatrix has no bank
conflicts; copies start as soon as a tile is free; fragments are loaded by part, then one part ahead of the product; and
the softmax has one multiply-add and one exponential of base 2 for each score. forward.py is the kernel, shared_tiles.py
its copies and fragments, config.py what may be chosen.

With one block on an SM, as here, the double buffer gains nothing: while one warp multiplies, the others load.
"""

import numpy as np
from aicore import Shape, random_inputs, reference
from config import StaticForwardKernelConfig, progression
from forward import grid_of, kernel_of, shape_of

import acl_py as acl
from acl_py import Array, MemcpyKind

DEVICE = "h200"


async def attend(shape: Shape, config: StaticForwardKernelConfig, seed: int = 0):
    """Launch the kernel on random inputs; return the completion of the launch, and the error as part of its bound."""
    inputs = random_inputs(shape.check(), config.dtype, seed)
    buffers, arrays = [], []
    for numbers in (*inputs, np.zeros_like(inputs[0])):
        heads, length, _ = numbers.shape
        buffers.append(await acl.Malloc(numbers.nbytes))
        arrays.append(Array(buffers[-1], config.dtype, shape_of(config, heads, length)))
        await acl.Memcpy(arrays[-1], numbers.nbytes, numbers, numbers.nbytes, MemcpyKind.HOST_TO_DEVICE)
    launch = await kernel_of(config)[grid_of(config, shape.heads, shape.queries)](*arrays, shape)
    await launch
    out = np.zeros_like(inputs[0])
    await acl.Memcpy(out, out.nbytes, arrays[-1], out.nbytes, MemcpyKind.DEVICE_TO_HOST)
    for buffer in buffers:
        await acl.Free(buffer)
    expected, bound = reference(*inputs, shape)
    return launch, np.max(np.abs(out.astype(np.float64) - expected) / bound)


async def main():
    for shape in (Shape(1, 256, 256, 128), Shape(1, 200, 250, 64, causal=True)):
        mask = ", causal" if shape.causal else ""
        print(f"{shape.queries} queries, {shape.keys} keys, d {shape.d}{mask}")
        for name, config in progression(d_head=shape.d):
            launch, error = await attend(shape, config)
            findings = len(launch.work.result.findings)
            us = (launch.end_ns - launch.start_ns) / 1000
            print(f"  {name:18} {us:6.2f} us, right: {error <= 1}, findings {findings}")


if __name__ == "__main__":
    acl.run(main, device=DEVICE)
