"""A kernel does not wait for the copy that its input comes from. The copy is fast enough by default."""

import numpy as np

import acl_py as acl

N = 4096


@acl.kernel(cost=acl.Cost(us=5))
def warm_up(x: acl.InOut):
    x += np.float32(0)


@acl.kernel(cost=acl.Cost(us=50))
def double(x: acl.In, y: acl.Out):
    np.multiply(x, 2, out=y)


async def main():
    host = await acl.MallocHost(N * 4)
    host.numpy(np.float32)[:] = 3
    source, result = await acl.Malloc(N * 4), await acl.Malloc(N * 4)
    copies, compute = await acl.CreateStream(name="copies"), await acl.CreateStream(name="compute")
    await acl.MemcpyAsync(source, N * 4, host, N * 4, acl.MemcpyKind.HOST_TO_DEVICE, copies)
    await acl.LaunchKernel(double, 1, (acl.Array(source, np.float32), acl.Array(result, np.float32)), compute)
    await acl.SynchronizeDevice()
    back = np.zeros(N, np.float32)
    await acl.Memcpy(back, N * 4, result, N * 4, acl.MemcpyKind.DEVICE_TO_HOST)
    assert (back == 6).all(), "stale input"


acl.run(main, device="h200")
