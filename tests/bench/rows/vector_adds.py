"""y = x + bias on halves, with queues: the samples of the vendor's profiler (910B4)."""

from functools import partial

import numpy as np

from device_model.aicore.core.blocks import GetBlockIdx, GetBlockNum
from device_model.aicore.core.names import TPosition
from device_model.aicore.core.tensors import GlobalTensor, half
from device_model.aicore.flags.queues import TQue
from device_model.aicore.flags.tpipe import TPipe
from device_model.aicore.moving.copies import DataCopy
from device_model.aicore.runner import run
from device_model.aicore.vector.elementwise import Add
from device_model.profile import load
from tests.bench.rows import Row

CARD = "ascend910b4"
SIZE = 80 << 20


def vector_add(size, tile, buffers, adds, share, x, bias, y):
    """*tile* halves in, *adds* additions, and out again; 1/*share* of the tiles of each core."""
    pipe, in_x, in_bias = TPipe(), TQue(TPosition.VECIN, buffers), TQue(TPosition.VECIN, buffers)
    out = TQue(TPosition.VECOUT, buffers)
    for queue in (in_x, in_bias, out):
        pipe.InitBuffer(queue, buffers, tile * 2)
    length = size // GetBlockNum()
    first = GetBlockIdx() * length
    x, bias, y = (GlobalTensor(half).SetGlobalBuffer(each[first:], length) for each in (x, bias, y))
    for start in range(0, length // share, tile):
        for queue, source in ((in_x, x), (in_bias, bias)):
            local = queue.AllocTensor(half)
            DataCopy(local, source[start:], tile)
            queue.EnQue(local)
        a, b, c = in_x.DeQue(half), in_bias.DeQue(half), out.AllocTensor(half)
        for _ in range(adds):
            Add(c, a, b, tile)
        out.EnQue(c)
        in_x.FreeTensor(a)
        in_bias.FreeTensor(b)
        c = out.DeQue(half)
        DataCopy(y[start:], c, tile)
        out.FreeTensor(c)


def add(size, cores, tile, buffers, adds, share=1):
    x, bias, y = (np.full(size, value, np.float16) for value in (1, 2, 0))
    kernel = partial(vector_add, size, tile, buffers, adds, share)
    result = run(kernel, cores, (x, bias, y), load(CARD).aicore, hazards=False)
    assert np.count_nonzero(y == 3) == size // share
    return result


def row(what, published, cores, tile, buffers=1, adds=1, share=1, fitted=False, size=SIZE, **columns):
    ours = partial(add, size, cores, tile, buffers, adds, share)
    return Row("VectorAdd", what, CARD, published, ours, share, "task", fitted, columns)


ROWS = [
    row("1 core, 4 KB", 14975.22, 1, 2048, share=16, fitted=True, vec=1664, mte2=12734, mte3=5924),
    row("8 cores, 4 KB", 2041.40, 8, 2048, vec=208, mte2=1741, mte3=767),
    row("8 cores, 40 KB", 892.02, 8, 20480, fitted=True, vec=110, mte2=713, mte3=225),
    row("8 cores, 40 KB, 8 Adds", 1378.09, 8, 20480, 1, 8, vec=844, mte2=509, mte3=204),
    row("8 cores, 20 KB, 8 Adds, double buffer", 959.62, 8, 10240, 2, 8, vec=888, mte2=793, mte3=249),
    row("1 core, 10 tiles of 1 KB", 5.18, 1, 512, size=5120, vec=0.284, scalar=2.58, mte2=2.51, mte3=1.62),
]
