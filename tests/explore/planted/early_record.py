"""The event is recorded before the second copy is queued, so the kernel waits for the first copy only."""

import numpy as np

import acl_py as acl

N = 4096


@acl.kernel(cost=acl.Cost(us=50))
def add(x: acl.In, y: acl.In, z: acl.Out):
    np.add(x, y, out=z)


async def main():
    host = await acl.MallocHost(N)
    host.numpy()[:] = 1
    x, y, z = [await acl.Malloc(N) for _ in range(3)]
    copies, compute, event = await acl.CreateStream(), await acl.CreateStream(), await acl.CreateEvent()
    await acl.MemcpyAsync(x, N, host, N, acl.MemcpyKind.HOST_TO_DEVICE, copies)
    await acl.RecordEvent(event, copies)
    await acl.MemcpyAsync(y, N, host, N, acl.MemcpyKind.HOST_TO_DEVICE, copies)
    await acl.StreamWaitEvent(compute, event)
    await acl.LaunchKernel(add, 1, (x, y, z), compute)
    await acl.SynchronizeDevice()
    back = np.zeros(N, np.uint8)
    await acl.Memcpy(back, N, z, N, acl.MemcpyKind.DEVICE_TO_HOST)
    assert (back == 2).all(), "a summand is missing"


acl.run(main, device="h200")
