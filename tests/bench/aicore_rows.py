"""Published times of element-wise kernels, and what the same kernels take here: `python -m tests.bench.aicore_rows`.

No constant was fitted on these rows for this table: all are those of the profiles. Kernels move all their bytes and add
all their numbers; single-core rows run an eighth of the work, which they do in an eighth of the time.
"""

import numpy as np

from device_model.aicore.blocks import GetBlockIdx, GetBlockNum
from device_model.aicore.copies import DataCopy
from device_model.aicore.names import TPosition
from device_model.aicore.queues import TPipe, TQue
from device_model.aicore.runner import run
from device_model.aicore.tensors import GlobalTensor, half
from device_model.aicore.vector import Add
from device_model.profile import load

A2, VECTOR_ADD = 8192 * 8192, 80 << 20
# what, card, elements, cores, elements of a tile, buffers, Adds per tile, share of the work that is run, measured us
ROWS = [
    ("Add, 1 core, 8 KB", "ascend910b1", A2, 1, 4096, 1, 1, 8, 6909.1),
    ("Add, 48 cores, 8 KB", "ascend910b1", A2, 48, 4096, 1, 1, 1, 297.1),
    ("Add, 48 cores, 32 KB", "ascend910b1", A2, 48, 16384, 1, 1, 1, 261.5),
    ("Add, 48 cores, 32 KB, double buffer", "ascend910b1", A2, 48, 16384, 2, 1, 1, 257.6),
    ("VectorAdd, 1 core, 4 KB", "ascend910b4", VECTOR_ADD, 1, 2048, 1, 1, 8, 14975.2),
    ("VectorAdd, 8 cores, 4 KB", "ascend910b4", VECTOR_ADD, 8, 2048, 1, 1, 1, 2041.0),
    ("VectorAdd, 8 cores, 40 KB", "ascend910b4", VECTOR_ADD, 8, 20480, 1, 1, 1, 892.0),
    ("8 Adds, 8 cores, 40 KB", "ascend910b4", VECTOR_ADD, 8, 20480, 1, 8, 1, 1378.1),
    ("8 Adds, 8 cores, 20 KB, double buffer", "ascend910b4", VECTOR_ADD, 8, 10240, 2, 8, 1, 959.6),
]


def add_kernel(tile, buffers, adds):
    """AddCustom: tiles of *tile* halves in, *adds* additions, and out again."""

    def add(x, y, z, size):
        pipe, in_x, in_y = TPipe(), TQue(TPosition.VECIN, 1), TQue(TPosition.VECIN, 1)
        out = TQue(TPosition.VECOUT, 1)
        for queue in (in_x, in_y, out):
            pipe.InitBuffer(queue, buffers, tile * 2)
        length = size // GetBlockNum()
        first = GetBlockIdx() * length
        sources = [GlobalTensor(half).SetGlobalBuffer(each[first:], length) for each in (x, y)]
        target = GlobalTensor(half).SetGlobalBuffer(z[first:], length)
        for start in range(0, length // tile * tile, tile):
            for queue, source in zip((in_x, in_y), sources, strict=True):
                local = queue.AllocTensor(half)
                DataCopy(local, source[start:], tile)
                queue.EnQue(local)
            a, b, c = in_x.DeQue(half), in_y.DeQue(half), out.AllocTensor(half)
            for _ in range(adds):
                Add(c, a, b, tile)
            out.EnQue(c)
            in_x.FreeTensor(a)
            in_y.FreeTensor(b)
            c = out.DeQue(half)
            DataCopy(target[start:], c, tile)
            out.FreeTensor(c)

    return add


def measure(card, size, cores, tile, buffers, adds, share):
    """Microseconds of aiv_time for the whole work."""
    size = size // share // (cores * tile) * cores * tile
    x, y, z = (np.full(size, value, np.float16) for value in (1, 2, 0))
    kernel = add_kernel(tile, buffers, adds)
    result = run(kernel, cores, (x, y, z, size), load(card).aicore, hazards=False)
    assert (z == 3).all()
    return result.timeline.busy_us["aiv_time"] * share


def table():
    """A row for each, and the root mean square of the errors."""
    errors = []
    yield "| kernel | card | published us | here us | error |\n| --- | --- | --- | --- | --- |"
    for what, card, *shape, published in ROWS:
        here = measure(card, *shape)
        errors.append(here / published - 1)
        yield f"| {what} | {card} | {published:,.1f} | {here:,.1f} | {errors[-1]:+.1%} |"
    yield f"\nroot mean square {np.sqrt(np.mean(np.square(errors))):.1%}, largest {max(map(abs, errors)):.1%}"


if __name__ == "__main__":
    for line in table():
        print(line, flush=True)
