"""Shows: one buffer per queue against two, on a few cores and on all.

Scenario: z = x + y, tile by tile. With one buffer, AllocTensor has to wait until the previous tile has left it, so the
pipes take turns. With two, MTE2 fills one while V and MTE3 work on the other. A third buffer hides the rest of the
latency, which is long compared with such small copies. On all 48 cores the gain is smaller: the copies of one core fill
the gaps of another, and together they reach the bandwidth of the memory.
"""

from functools import partial

import numpy as np

import acl_py as acl
from acl_py import Array, MemcpyKind, asc
from acl_py.trace import pipes

TILE = 4096  # halves, 8 KiB
TILES = 12  # of a block


@asc.kernel
def add_custom(x: asc.In, y: asc.In, z: asc.Out, buffers: int):
    first = asc.GetBlockIdx() * TILES * TILE
    x_gm, y_gm, z_gm = (asc.GlobalTensor(asc.half).SetGlobalBuffer(part[first:], TILES * TILE) for part in (x, y, z))
    pipe = asc.TPipe()
    x_queue, y_queue = asc.TQue(asc.TPosition.VECIN, 1), asc.TQue(asc.TPosition.VECIN, 1)
    z_queue = asc.TQue(asc.TPosition.VECOUT, 1)
    for queue in (x_queue, y_queue, z_queue):
        pipe.InitBuffer(queue, buffers, TILE * 2)
    for at in range(0, TILES * TILE, TILE):
        for queue, source in ((x_queue, x_gm), (y_queue, y_gm)):
            tile = queue.AllocTensor(asc.half)
            asc.DataCopy(tile, source[at:], TILE)
            queue.EnQue(tile)
        a, b, c = x_queue.DeQue(asc.half), y_queue.DeQue(asc.half), z_queue.AllocTensor(asc.half)
        asc.Add(c, a, b, TILE)
        z_queue.EnQue(c)
        x_queue.FreeTensor(a)
        y_queue.FreeTensor(b)
        c = z_queue.DeQue(asc.half)
        asc.DataCopy(z_gm[at:], c, TILE)
        z_queue.FreeTensor(c)


async def launched(blocks, buffers):
    """Launch the kernel and check its result; return the launch and a chart of the pipes of its first core."""
    length = blocks * TILES * TILE
    values = [(np.arange(length) % number).astype(np.float16) for number in (99, 77)]
    result = np.empty_like(values[0])
    sim = acl.current_simulation()
    x, y, z = [Array(await acl.Malloc(result.nbytes), np.float16) for _ in range(3)]
    for array, numbers in zip((x, y), values, strict=True):
        await acl.Memcpy(array, array.nbytes, numbers, numbers.nbytes, MemcpyKind.HOST_TO_DEVICE)
    launch = await add_custom[blocks](x, y, z, buffers)
    await acl.SynchronizeDevice()
    await acl.Memcpy(result, result.nbytes, z, z.nbytes, MemcpyKind.DEVICE_TO_HOST)
    assert np.array_equal(result, values[0] + values[1])
    return launch, pipes.lanes(sim.trace, width=100, core="AIV 0")


run = partial(acl.run, launched, device="ascend910b1", instructions=2_000)
print("cores  buffers  core busy   launch")
for blocks in (1, 8, 48):
    for buffers in (1, 2, 3):
        launch, _ = run(blocks, buffers)
        busy = launch.work.result.timeline.busy_us["aiv_time"]
        print(f"{blocks:5}  {buffers:7}  {busy:6.2f} us  {(launch.end_ns - launch.start_ns) / 1000:6.2f} us")
for buffers in (1, 2):
    print(f"\nOne core with {buffers} for each queue:")
    print(run(1, buffers)[1])
