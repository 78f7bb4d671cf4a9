"""Memcpy from pageable memory may return before the device has the bytes, and a non-blocking stream does not wait."""

import numpy as np

import acl_py as acl

N = 32 << 10


@acl.kernel(cost=acl.Cost(us=10))
def copy(x: acl.In, y: acl.Out):
    y[:] = x


async def main():
    x, y, back = await acl.Malloc(N), await acl.Malloc(N), await acl.MallocHost(N)
    stream = await acl.CreateStream(nonblocking=True)
    await acl.Memcpy(x, N, np.full(N, 5, np.uint8), N, acl.MemcpyKind.HOST_TO_DEVICE)
    await acl.LaunchKernel(copy, 1, (x, y), stream)
    await acl.MemcpyAsync(back, N, y, N, acl.MemcpyKind.DEVICE_TO_HOST, stream)
    await acl.SynchronizeStream(stream)
    assert (back.numpy() == 5).all(), "the kernel was there before the bytes"


acl.run(main, device="h200")
