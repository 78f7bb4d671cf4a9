"""Shows: tuning a kernel in simulation, and advice on how the slowest choice uses the memory.

Scenario: z = x + y over a million halves on 8 vector cores. How large should a tile be, and how many should be in
flight? asc.tune runs the kernel with each choice, checks its result, and makes a table; choices that do not fit in the
unified buffer have a row too. Then the worst and the best choice are launched. asc.advise says which guidelines the
launch does not follow and what that costs: it plays the launch again as if it did, and compares the times.
"""

import numpy as np

import acl_py as acl
from acl_py import Array, MemcpyKind, asc

DEVICE = "ascend910b1"
BLOCKS = 8
LENGTH = BLOCKS << 17


@asc.kernel
def add(x: asc.In, y: asc.In, z: asc.Out, tile: int, depth: int):
    tiling = asc.block_tiling(LENGTH, asc.GetBlockNum(), unit=256, tile=tile)  # units of 512 bytes: all copies aligned
    x_gm, y_gm, z_gm = (asc.GlobalTensor(asc.half).SetGlobalBuffer(part) for part in (x, y, z))

    def load(part, a, b):
        first, count = part
        asc.DataCopy(a, x_gm[first:], count)
        asc.DataCopy(b, y_gm[first:], count)

    def compute(part, a, b, c):
        asc.Add(c, a, b, part[1])

    def store(part, c):
        first, count = part
        asc.DataCopy(z_gm[first:], c, count)

    pipeline = asc.Pipeline(asc.TPipe(), depth)
    pipeline.AddStage(asc.Pipe.MTE2, load, [(asc.half, tile), (asc.half, tile)])
    pipeline.AddStage(asc.Pipe.V, compute, [(asc.half, tile)])
    pipeline.AddStage(asc.Pipe.MTE3, store)
    pipeline.Run(tiling.tiles(asc.GetBlockIdx()))


def is_right(x, y, z):
    return np.array_equal(z, x + y)


async def main():
    rng = np.random.default_rng(0)
    values = [rng.integers(-99, 100, LENGTH).astype(np.float16) for _ in range(2)]
    choices = {"tile": (1024, 4096, 8192, 16384), "depth": (1, 2, 3)}
    tuning = asc.tune(add, BLOCKS, (*values, np.zeros(LENGTH, np.float16)), choices, device=DEVICE, check=is_right)
    print(tuning)
    x, y, z = [Array(await acl.Malloc(LENGTH * 2), np.float16) for _ in range(3)]
    for array, numbers in zip((x, y), values, strict=True):
        await acl.Memcpy(array, array.nbytes, numbers, numbers.nbytes, MemcpyKind.HOST_TO_DEVICE)
    for row in (tuning.worst, tuning.best):
        asc.reset_l2()  # as it was in each run of tune()
        launch = await add[BLOCKS](x, y, z, *row.choice.values())
        await acl.SynchronizeDevice()
        print(f"\n{row}, launched in {(launch.end_ns - launch.start_ns) / 1000:.2f} us")
        for advice in asc.advise(launch.work.result):
            print(advice)


acl.run(main, device=DEVICE)
