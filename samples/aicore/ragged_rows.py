"""Shows: unequal work over cores. Rows of different lengths, measured, and assigned so that all cores end together.

Scenario: y = exp(x) for 64 rows of up to 46,656 floats, on 8 vector cores. If rows are assigned in turn, some cores get
more long rows than others, and the launch waits for the slowest core. So the kernel is run once with a row for each
block, asc.block_us gives the time of each, and asc.balance assigns the longest rows first, each to the core with the
smallest load so far. The assignment is an argument of the next launch, as a tiling would be.
"""

import numpy as np

import acl_py as acl
from acl_py import Array, MemcpyKind, asc

CORES = 8
TILE = 4096  # floats
LENGTHS = [64 * int(size) for size in np.random.default_rng(7).integers(1, 28, 64) ** 2]  # floats of each row
STARTS = [sum(LENGTHS[:row]) for row in range(len(LENGTHS))]


@asc.kernel
def exp_rows(x: asc.In, y: asc.Out, rows: tuple):
    """Compute y = exp(x) for `rows[block]`, the indices of the block's rows."""
    x_gm, y_gm = (asc.GlobalTensor(asc.float32).SetGlobalBuffer(part) for part in (x, y))

    def load(tile, a):
        asc.DataCopy(a, x_gm[tile[0] :], tile[1])

    def compute(tile, a, b):
        asc.Exp(b, a, tile[1])

    def store(tile, b):
        asc.DataCopy(y_gm[tile[0] :], b, tile[1])

    pipeline = asc.Pipeline(asc.TPipe(), 2)
    pipeline.AddStage(asc.Pipe.MTE2, load, [(asc.float32, TILE)])
    pipeline.AddStage(asc.Pipe.V, compute, [(asc.float32, TILE)])
    pipeline.AddStage(asc.Pipe.MTE3, store)
    pipeline.Run(
        (STARTS[row] + first, count)
        for row in rows[asc.GetBlockIdx()]
        for first, count in asc.block_tiling(LENGTHS[row], 1, tile=TILE).tiles(0)
    )


async def main():
    values = np.random.default_rng(0).normal(size=sum(LENGTHS)).astype(np.float32)
    result = np.empty_like(values)
    x, y = [Array(await acl.Malloc(values.nbytes), np.float32) for _ in range(2)]
    await acl.Memcpy(x, x.nbytes, values, values.nbytes, MemcpyKind.HOST_TO_DEVICE)

    async def launched(rows):
        asc.reset_l2()  # so that each launch reads the rows from HBM
        launch = await exp_rows[len(rows)](x, y, rows)
        await acl.SynchronizeDevice()
        return launch

    alone = await launched(tuple((row,) for row in range(len(LENGTHS))))
    times = asc.block_us(alone.work.result)
    print(f"a row takes {min(times):.2f} to {max(times):.2f} us, all of them {sum(times):.1f} us")
    in_turn = tuple(tuple(range(core, len(LENGTHS), CORES)) for core in range(CORES))
    balanced = asc.balance(times, CORES)
    for name, rows in (("in turn", in_turn), ("balanced", balanced.units)):
        launch = await launched(rows)
        await acl.Memcpy(result, result.nbytes, y, y.nbytes, MemcpyKind.DEVICE_TO_HOST)
        busy = asc.block_us(launch.work.result)
        took = (launch.end_ns - launch.start_ns) / 1000
        print(f"{name}: right {np.allclose(result, np.exp(values))}, the launch takes {took:.1f} us")
        print(f"  its cores work {min(busy):.1f} to {max(busy):.1f} us")
    print(f"planned: {balanced}")


acl.run(main, device="ascend910b1")
