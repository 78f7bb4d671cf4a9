"""Shows: a stream, a kernel, pinned memory, and their timeline.

Scenario: a vector is copied to the device, doubled there, and copied back. The host queues all three in one stream,
where they run one after another, and waits once. The numbers are really computed; the times are the device's.
"""

import numpy as np

import acl_py
from acl_py import Array, Cost, InOut, MemcpyKind
from acl_py.trace import chart

NBYTES = 1 << 20


@acl_py.kernel(cost=Cost(us=25))
def double(x: InOut):
    x *= 2


async def main():
    sim = acl_py.current_simulation()
    host = await acl_py.MallocHost(NBYTES)
    device = await acl_py.Malloc(NBYTES)
    numbers = host.numpy(np.float32)
    numbers[:] = np.arange(numbers.size)

    stream = await acl_py.CreateStream()
    await acl_py.MemcpyAsync(device, NBYTES, host, NBYTES, MemcpyKind.HOST_TO_DEVICE, stream)
    await acl_py.LaunchKernel(double, 64, [Array(device, np.float32)], stream)
    await acl_py.MemcpyAsync(host, NBYTES, device, NBYTES, MemcpyKind.DEVICE_TO_HOST, stream)
    await acl_py.SynchronizeStream(stream)

    print("the last number:", numbers[-1])
    for op in sim.trace.ops:
        print(f"{op.name:8} {op.start_ns:>9,} to {op.end_ns:>9,} ns, queued at {op.queued_ns:>9,} in {op.site}")
    print(chart.lanes(sim.trace))

    await acl_py.DestroyStream(stream)
    await acl_py.Free(device)
    await acl_py.FreeHost(host)


acl_py.run(main, device="h200")
