"""Shows: a core kernel written as in Ascend C, with queues between its three stages.

Scenario: z = x + y over 16,384 halves on 8 vector cores. Each block has a part of the data and goes through it tile by
tile: CopyIn copies a tile of x and y to the unified buffer, Compute adds them, CopyOut copies the result back. Each
stage runs on its own pipe. EnQue tells the next pipe that a tile is ready, and FreeTensor tells the pipe before that
the buffer is free. The last tile of a part may be shorter.
"""

import numpy as np

import acl_py as acl
from acl_py import Array, MemcpyKind, asc
from acl_py.trace import pipes

BLOCKS = 8
TILE = 512  # halves
BUFFERS = 2  # per queue


class KernelAdd:
    """The kernel as the samples of Ascend C write it: Init, then Process."""

    def Init(self, x, y, z, length):
        self.length = length // asc.GetBlockNum()
        first = self.length * asc.GetBlockIdx()
        self.x, self.y, self.z = (
            asc.GlobalTensor(asc.half).SetGlobalBuffer(part[first:], self.length) for part in (x, y, z)
        )
        self.pipe = asc.TPipe()
        self.x_queue, self.y_queue = asc.TQue(asc.TPosition.VECIN, 1), asc.TQue(asc.TPosition.VECIN, 1)
        self.z_queue = asc.TQue(asc.TPosition.VECOUT, 1)
        for queue in (self.x_queue, self.y_queue, self.z_queue):
            self.pipe.InitBuffer(queue, BUFFERS, TILE * 2)

    def Process(self):
        for first in range(0, self.length, TILE):
            count = min(TILE, self.length - first)
            self.CopyIn(first, count)
            self.Compute(count)
            self.CopyOut(first, count)

    def CopyIn(self, first, count):
        x, y = self.x_queue.AllocTensor(asc.half), self.y_queue.AllocTensor(asc.half)
        asc.DataCopy(x, self.x[first:], count)
        asc.DataCopy(y, self.y[first:], count)
        self.x_queue.EnQue(x)
        self.y_queue.EnQue(y)

    def Compute(self, count):
        x, y = self.x_queue.DeQue(asc.half), self.y_queue.DeQue(asc.half)
        z = self.z_queue.AllocTensor(asc.half)
        asc.Add(z, x, y, count)
        self.z_queue.EnQue(z)
        self.x_queue.FreeTensor(x)
        self.y_queue.FreeTensor(y)

    def CopyOut(self, first, count):
        z = self.z_queue.DeQue(asc.half)
        asc.DataCopy(self.z[first:], z, count)
        self.z_queue.FreeTensor(z)


@asc.kernel
def add_custom(x: asc.In, y: asc.In, z: asc.Out, length: int):
    op = KernelAdd()
    op.Init(x, y, z, length)
    op.Process()


async def main():
    rng = np.random.default_rng(0)
    length = BLOCKS * 2048
    values = [rng.uniform(-1, 1, length).astype(np.float16) for _ in range(2)]
    result = np.empty_like(values[0])
    sim = acl.current_simulation()
    x, y, z = [Array(await acl.Malloc(result.nbytes), np.float16) for _ in range(3)]
    for array, numbers in zip((x, y), values, strict=True):
        await acl.Memcpy(array, array.nbytes, numbers, numbers.nbytes, MemcpyKind.HOST_TO_DEVICE)
    launch = await add_custom[BLOCKS](x, y, z, length)
    await acl.SynchronizeDevice()
    await acl.Memcpy(result, result.nbytes, z, z.nbytes, MemcpyKind.DEVICE_TO_HOST)
    print("as NumPy's:", np.array_equal(result, values[0] + values[1]))
    print(f"the launch took {(launch.end_ns - launch.start_ns) / 1000:.2f} us")
    print(pipes.lanes(sim.trace, width=80))


acl.run(main, device="ascend910b1", instructions=1_000)
