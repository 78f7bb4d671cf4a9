"""Shows: memory that is allocated and freed in the order of a stream.

Scenario: each of four steps needs a temporary buffer. With Malloc and Free, the host waits in every Free until the
device is idle, and the device then waits for the host. MallocAsync and FreeAsync take their place in the order of the
stream. So the host runs ahead, and all steps get the same block from the pool, one after another. The first MallocAsync
is expensive because the pool has to grow, so the first step starts late. From the second step on, the block is in the
pool.
"""

import numpy as np

import acl_py
from acl_py import Array, Cost, InOut, Out
from acl_py.trace import chart

NBYTES = 2 << 20


@acl_py.kernel(cost=Cost(us=150))
def step(total: InOut, temporary: Out):
    temporary[:] = 1
    total += temporary.sum()


async def with_malloc(total, stream):
    temporary = await acl_py.Malloc(NBYTES)
    await step[64, stream](total, Array(temporary, np.int64))
    await acl_py.Free(temporary)
    return temporary.address


async def with_the_pool(total, stream):
    temporary = await acl_py.MallocAsync(NBYTES, stream)
    await step[64, stream](total, Array(temporary, np.int64))
    await acl_py.FreeAsync(temporary, stream)
    return temporary.address


async def four_steps(way):
    sim = acl_py.current_simulation()
    stream, total = await acl_py.CreateStream(), await acl_py.Malloc(8)
    await acl_py.Memset(total, 8, 0, 8)
    await acl_py.SynchronizeDevice()
    start = sim.now_ns
    blocks = {await way(Array(total, np.int64), stream) for _ in range(4)}
    await acl_py.SynchronizeStream(stream)
    print(f"{way.__name__}: {(sim.now_ns - start) / 1000:,.1f} us, addresses: {len(blocks)}")
    print(chart.lanes(sim.trace, width=90, since_ns=start), end="\n\n")


for way in (with_malloc, with_the_pool):
    acl_py.run(four_steps, way, device="h200")
