"""Shows: a producer and consumers in one block, which hand buffers over at mbarriers.

Scenario: one warp of a block only copies tiles into shared memory, and four warps only compute with them (warp
specialisation). Each buffer has two mbarriers. `full` is complete when the producer's copies are done; `empty` is
complete when all consumers have read the buffer. A wait names a phase of an mbarrier by its parity, which flips each
time that a buffer is used again. More buffers let the producer run ahead. In the last version the consumers arrive at
`empty` before they read: the producer may overwrite what they still read, which is a finding.
"""

import numpy as np

import acl_py as acl
from acl_py import Array, MemcpyKind, cta

WARP, CONSUMERS, TILES = 32, 128, 24
TILE = 4 * CONSUMERS  # numbers: each consumer reads four


@cta.kernel(threads=WARP + CONSUMERS)
def specialised(x: cta.In, y: cta.Out, buffers: int, is_hasty: bool):
    s = cta.shared(np.float32, (buffers, CONSUMERS, 4), "tiles")
    full = [cta.mbarrier(WARP) for _ in range(buffers)]
    empty = [cta.mbarrier(CONSUMERS) for _ in range(buffers)]
    cta.syncthreads()

    def produce():
        for tile in range(TILES):
            turn, buffer = divmod(tile, buffers)
            if turn:
                empty[buffer].wait((turn - 1) % 2)
            cta.memcpy_async(s[buffer], x[tile], 16)
            cta.cp_async_mbarrier_arrive(full[buffer], noinc=True)

    def consume():
        t = cta.tid - WARP
        for tile in range(TILES):
            turn, buffer = divmod(tile, buffers)
            full[buffer].wait(turn % 2)
            if is_hasty:
                empty[buffer].arrive()
            value = s[buffer, t].sum(axis=1)
            if not is_hasty:
                empty[buffer].arrive()
            for _ in range(32):
                value = cta.fma(value, 0.5, 1)
            y[tile, t] = value

    cta.roles((WARP, produce), (CONSUMERS, consume))


async def main():
    values = np.random.default_rng(0).random((TILES, CONSUMERS, 4), np.float32)
    expected, result = values.sum(axis=2), np.empty((TILES, CONSUMERS), np.float32)
    for _ in range(32):
        expected = expected * np.float32(0.5) + 1
    x, y = [Array(await acl.Malloc(each.nbytes), np.float32, each.shape) for each in (values, result)]
    await acl.Memcpy(x, x.nbytes, values, values.nbytes, MemcpyKind.HOST_TO_DEVICE)
    for buffers, is_hasty in ((1, False), (2, False), (4, False), (2, True)):
        launch = await specialised[1](x, y, buffers, is_hasty)
        await acl.Memcpy(result, result.nbytes, y, y.nbytes, MemcpyKind.DEVICE_TO_HOST)
        us, findings = (launch.end_ns - launch.start_ns) / 1000, len(launch.work.result.findings)
        title = f"{buffers} buffer{'s' * (buffers > 1)}" + ", arrives before it reads" * is_hasty
        print(f"{title}: {us:.2f} us, right: {np.allclose(result, expected)}, findings {findings}")


acl.run(main, device="h200")
