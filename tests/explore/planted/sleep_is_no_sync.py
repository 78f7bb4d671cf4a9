"""The host sleeps instead of waiting for the copy back, which is over by then."""

import asyncio

import acl_py as acl

N = 1 << 20


@acl.kernel(cost=acl.Cost(us=100))
def fill(x: acl.Out):
    x[:] = 7


async def main():
    x, host, stream = await acl.Malloc(N), await acl.MallocHost(N), await acl.CreateStream()
    host.numpy()[:] = 0
    await acl.LaunchKernel(fill, 1, (x,), stream)
    await acl.MemcpyAsync(host, N, x, N, acl.MemcpyKind.DEVICE_TO_HOST, stream)
    await asyncio.sleep(0.0005)
    assert (host.numpy() == 7).all(), "the copy is not there yet"
    await acl.SynchronizeStream(stream)


acl.run(main, device="h200")
