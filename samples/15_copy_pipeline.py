"""Shows: a pipeline of copies into shared memory (cp.async), and how many of its stages pay.

Scenario: a block takes 32 tiles one after the other. Its threads copy each tile into shared memory, wait for it, and
compute with it. With one stage, the block waits for each tile. With more stages, the next tiles are copied while it
computes. Each stage is a buffer, and costs shared memory. If there is little to compute, memory is the limit, and four
stages are better than three. If there is much to compute, two stages are enough.
"""

import numpy as np

import acl_py as acl
from acl_py import Array, MemcpyKind, cta

THREADS, TILES = 128, 32
TILE = 16 * THREADS  # numbers: 8 KB


@cta.kernel(threads=THREADS)
def copied(x: cta.In, y: cta.Out, stages: int, work: int):
    s, t = cta.shared(np.float32, (stages, TILE)), cta.tid
    for i in range(TILES + stages - 1):
        if i < TILES:
            cta.memcpy_async(s[i % stages], x[i], 16)
        cta.commit_group()  # behind the last tile an empty one, so that the same number may be pending
        if i >= stages - 1:
            tile = i - stages + 1
            cta.wait_group(stages - 1)  # the oldest group is done, for the thread that started it
            cta.syncthreads()  # and now for all
            value = s[tile % stages, t]
            for _ in range(work):
                value = cta.fma(value, 0.5, 1)
            y[tile, t] = value
            cta.syncthreads()  # nobody reads this buffer any more


def computed(values, work):
    values = values[:, :THREADS]
    for _ in range(work):
        values = values * np.float32(0.5) + 1
    return values


async def main():
    values = np.random.default_rng(0).random((TILES, TILE), np.float32)
    result = np.empty((TILES, THREADS), np.float32)
    x, y = [Array(await acl.Malloc(each.nbytes), np.float32, each.shape) for each in (values, result)]
    await acl.Memcpy(x, x.nbytes, values, values.nbytes, MemcpyKind.HOST_TO_DEVICE)
    print("microseconds          1 stage  2 stages  3 stages  4 stages")
    for work in (0, 64, 256):
        times = []
        for stages in (1, 2, 3, 4):
            launch = await copied[1](x, y, stages, work)
            await acl.Memcpy(result, result.nbytes, y, y.nbytes, MemcpyKind.DEVICE_TO_HOST)
            assert np.allclose(result, computed(values, work))
            assert not launch.work.result.findings
            times.append((launch.end_ns - launch.start_ns) / 1000)
        print(f"{work:3} multiply-adds   " + "".join(f"{us:10.2f}" for us in times))


acl.run(main, device="h200")
