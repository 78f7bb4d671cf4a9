"""A copy reads the old bytes while a long kernel runs that will overwrite them: some time before its end."""

import acl_py as acl

N = 4096


@acl.kernel(cost=acl.Cost(us=400))
def overwrite(x: acl.Out):
    x[:] = 2


async def main():
    x, back = await acl.Malloc(N), await acl.MallocHost(N)
    await acl.Memset(x, N, 1, N)
    await acl.SynchronizeDevice()
    compute, copies = await acl.CreateStream(name="compute"), await acl.CreateStream(name="copies")
    await acl.LaunchKernel(overwrite, 1, (x,), compute)
    await acl.MemcpyAsync(back, N, x, N, acl.MemcpyKind.DEVICE_TO_HOST, copies)
    await acl.SynchronizeStream(copies)
    assert (back.numpy() == 1).all(), "the kernel has written already"
    await acl.SynchronizeDevice()


acl.run(main, device="h200")
