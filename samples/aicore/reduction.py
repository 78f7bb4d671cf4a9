"""Shows: blocks that wait for each other. The sum of a million numbers, on all vector cores, in one launch.

Scenario: each core adds up its part, tile by tile, and writes one number to a workspace in GM, in its own block of 32
bytes. SyncAll waits for all cores; then the first core adds up the numbers. A kernel with SyncAll must not have more
blocks than there are cores. The second version forgets SyncAll: it may read the workspace before the other cores have
written to it. The check for hazards reports this.
"""

import numpy as np

import acl_py as acl
from acl_py import Array, MemcpyKind, asc

BLOCKS = 48
TILE = 8192  # floats
LENGTH = BLOCKS * 3 * TILE
SLOT = 8  # floats of a block of 32 bytes


def add_up(x, total, workspace, meet):
    block, blocks = asc.GetBlockIdx(), asc.GetBlockNum()
    part = LENGTH // blocks
    x_gm = asc.GlobalTensor(asc.float32).SetGlobalBuffer(x[block * part :], part)
    slots = asc.GlobalTensor(asc.float32).SetGlobalBuffer(workspace)
    total_gm = asc.GlobalTensor(asc.float32).SetGlobalBuffer(total)
    pipe = asc.TPipe()
    arriving, leaving = asc.TQue(asc.TPosition.VECIN, 1), asc.TQue(asc.TPosition.VECOUT, 1)
    scratch, sums = asc.TBuf(asc.TPosition.VECCALC), asc.TBuf(asc.TPosition.VECCALC)
    pipe.InitBuffer(arriving, 2, TILE * 4)
    pipe.InitBuffer(leaving, 1, SLOT * 4)
    pipe.InitBuffer(scratch, TILE * 4)
    pipe.InitBuffer(sums, SLOT * 4)
    work, one = scratch.Get(asc.float32), sums.Get(asc.float32)

    def sum_of(source, count):
        tile = arriving.AllocTensor(asc.float32)
        asc.DataCopy(tile, source, count)
        arriving.EnQue(tile)
        tile = arriving.DeQue(asc.float32)
        asc.ReduceSum(one, tile, work, count)
        arriving.FreeTensor(tile)

    def store(target, result):
        leaving.EnQue(result)
        result = leaving.DeQue(asc.float32)
        asc.DataCopy(target, result, SLOT)
        leaving.FreeTensor(result)

    own = leaving.AllocTensor(asc.float32)
    asc.Duplicate(own, 0.0, SLOT)
    for at in range(0, part, TILE):
        sum_of(x_gm[at:], TILE)
        asc.Add(own, own, one, 1)
    store(slots[block * SLOT :], own)
    if meet:
        asc.SyncAll()
    if block == 0:
        result = leaving.AllocTensor(asc.float32)
        asc.Duplicate(result, 0.0, SLOT)
        sum_of(slots, blocks * SLOT)  # the other elements of a slot are zero
        asc.Add(result, result, one, 1)
        store(total_gm, result)


@asc.kernel
def total_of(x: asc.In, total: asc.Out, workspace: asc.InOut):
    add_up(x, total, workspace, meet=True)


@asc.kernel
def hasty_total_of(x: asc.In, total: asc.Out, workspace: asc.InOut):
    add_up(x, total, workspace, meet=False)


async def main():
    values = np.random.default_rng(0).integers(0, 8, LENGTH).astype(np.float32)  # so small that sums are exact
    result = np.empty(SLOT, np.float32)
    sim = acl.current_simulation()
    x = Array(await acl.Malloc(values.nbytes), np.float32)
    total = Array(await acl.Malloc(result.nbytes), np.float32)
    workspace = Array(await acl.Malloc(BLOCKS * SLOT * 4), np.float32)
    await acl.Memcpy(x, x.nbytes, values, values.nbytes, MemcpyKind.HOST_TO_DEVICE)
    for kernel in (total_of, hasty_total_of):
        await acl.Memset(workspace, workspace.nbytes, 0, workspace.nbytes)
        asc.reset_l2()  # so that both read the numbers from HBM
        launch = await kernel[BLOCKS](x, total, workspace)
        await acl.SynchronizeDevice()
        await acl.Memcpy(result, result.nbytes, total, total.nbytes, MemcpyKind.DEVICE_TO_HOST)
        verdict = "right" if result[0] == values.sum(dtype=np.float64) else "wrong"
        print(f"{kernel.name}: {verdict}, {(launch.end_ns - launch.start_ns) / 1000:.2f} us")
    print(f"{LENGTH:,} numbers; {len(sim.findings)} findings: {', '.join(each.rule.name for each in sim.findings)}")


acl.run(main, device="ascend910b1")
