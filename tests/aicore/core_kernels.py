"""What the tests of launches share: small core kernels, and arrays for them."""

import numpy as np
from histories import D2H, H2D

import acl_py as acl
from acl_py import asc

DEVICE = "ascend910b1"
TILE = 1024  # halves
POISON = 0x7FFB


def simulation(**options):
    return acl.simulate(**{"device": DEVICE, "rules": "cuda", "workers": 1} | options)


def copy_through(source, target, work):
    """*target* = *work*(*source*), a tile for each block, through one buffer in and one out."""
    pipe = asc.TPipe()
    arriving, leaving = asc.TQue(asc.TPosition.VECIN, 1), asc.TQue(asc.TPosition.VECOUT, 1)
    for queue in (arriving, leaving):
        pipe.InitBuffer(queue, 1, TILE * 2)
    at = TILE * asc.GetBlockIdx()
    tile = arriving.AllocTensor(asc.half)
    asc.DataCopy(tile, asc.GlobalTensor(asc.half).SetGlobalBuffer(source)[at:], TILE)
    arriving.EnQue(tile)
    tile, result = arriving.DeQue(asc.half), leaving.AllocTensor(asc.half)
    work(result, tile)
    leaving.EnQue(result)
    arriving.FreeTensor(tile)
    result = leaving.DeQue(asc.half)
    asc.DataCopy(asc.GlobalTensor(asc.half).SetGlobalBuffer(target)[at:], result, TILE)
    leaving.FreeTensor(result)


@asc.kernel
def add_number(x: asc.In, y: asc.Out, number: float):
    copy_through(x, y, lambda result, tile: asc.Adds(result, tile, number, TILE))


@asc.kernel
def increment(x: asc.InOut):
    copy_through(x, x, lambda result, tile: asc.Adds(result, tile, 1, TILE))


@asc.kernel
def increment_slowly(x: asc.InOut, first: int, times: int = 3000):
    """Takes 50 us and more: it does what it does 3,000 times."""

    def work(result, tile):
        for _ in range(times):
            asc.Adds(result, tile, 1, TILE)

    copy_through(x[first:], x[first:], work)


@asc.kernel
def forgets_a_flag(x: asc.In, y: asc.Out):
    """Copies in and out without a word between the two pipes."""
    tile = asc.LocalTensor(asc.half, asc.TPosition.VECCALC, 0, TILE)
    asc.DataCopy(tile, asc.GlobalTensor(asc.half).SetGlobalBuffer(x), TILE)
    asc.DataCopy(asc.GlobalTensor(asc.half).SetGlobalBuffer(y), tile, TILE)


@asc.kernel
def waits_for_ever(x: asc.In):
    asc.WaitFlag(asc.HardEvent.MTE2_V, 0)
    asc.PipeBarrier(asc.Pipe.ALL)


@asc.kernel
def calls_the_runtime(x: asc.InOut):
    acl.SynchronizeStream().send(None)


@asc.kernel
def speaks(x: asc.InOut, how_much: int):
    if asc.GetBlockIdx() == 1:
        asc.printf("%d of %d", asc.GetBlockIdx(), asc.GetBlockNum())
    asc.assert_(how_much < 3, "it is too much")  # noqa: PT009


async def on_device(values):
    buffer = await acl.Malloc(values.nbytes)
    await acl.Memcpy(buffer, values.nbytes, values, values.nbytes, H2D)
    return acl.Array(buffer, values.dtype)


async def read(array):
    values = np.empty(array.shape, array.dtype)
    await acl.Memcpy(values, values.nbytes, array.buffer, values.nbytes, D2H)
    return values


async def halves(blocks, value=0.0):
    return await on_device(np.full(blocks * TILE, value, np.float16))
