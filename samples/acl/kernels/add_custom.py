"""What the kernels of add_custom.o do."""

import numpy as np

from acl_py import asc

BUFFERS = 2  # of each queue


@asc.kernel
def add_custom(x: asc.In, y: asc.In, z: asc.Out, tiling: asc.In) -> None:
    """z = x + y, tile by tile: each block has its part of the *tiling*, a length and a number of tiles."""
    numbers = asc.GlobalTensor(np.uint32).SetGlobalBuffer(tiling)
    length, tiles = (int(numbers.GetValue(index)) for index in range(2))
    part = length // asc.GetBlockNum()
    tile = part // tiles
    first = part * asc.GetBlockIdx()
    x_gm, y_gm, z_gm = (asc.GlobalTensor(asc.half).SetGlobalBuffer(each[first:], part) for each in (x, y, z))
    pipe = asc.TPipe()
    x_queue, y_queue = asc.TQue(asc.TPosition.VECIN, 1), asc.TQue(asc.TPosition.VECIN, 1)
    z_queue = asc.TQue(asc.TPosition.VECOUT, 1)
    for queue in (x_queue, y_queue, z_queue):
        pipe.InitBuffer(queue, BUFFERS, tile * 2)
    for number in range(tiles):
        at = number * tile
        for gm, queue in ((x_gm, x_queue), (y_gm, y_queue)):
            local = queue.AllocTensor(asc.half)
            asc.DataCopy(local, gm[at:], tile)
            queue.EnQue(local)
        x_local, y_local = x_queue.DeQue(asc.half), y_queue.DeQue(asc.half)
        z_local = z_queue.AllocTensor(asc.half)
        asc.Add(z_local, x_local, y_local, tile)
        z_queue.EnQue(z_local)
        x_queue.FreeTensor(x_local)
        y_queue.FreeTensor(y_local)
        z_local = z_queue.DeQue(asc.half)
        asc.DataCopy(z_gm[at:], z_local, tile)
        z_queue.FreeTensor(z_local)


def scale(x, factor, length):  # noqa: ARG001 - the length is the shape of x
    """Multiply all of *x* by *factor*, in place."""
    x *= np.float16(factor)
