"""Two buffers take turns, and nothing keeps the third upload from overtaking the kernel that reads the first."""

import acl_py as acl

N = 4096


@acl.kernel(cost=acl.Cost(us=3))
def total(x: acl.In, y: acl.InOut, part):
    y[part] = x[0]


async def main():
    host, back = await acl.MallocHost(3 * N), await acl.MallocHost(4)
    for part in range(3):
        host.numpy()[part * N : (part + 1) * N] = part + 1
    buffers = [await acl.Malloc(N) for _ in range(2)]
    sums = await acl.Malloc(4)
    await acl.Memset(sums, 4, 0, 4)
    uploads, compute = await acl.CreateStream(name="uploads"), await acl.CreateStream(name="compute")
    for part in range(3):
        event, buffer = await acl.CreateEvent(), buffers[part % 2]
        await acl.MemcpyAsync(buffer, N, host[part * N : (part + 1) * N], N, acl.MemcpyKind.HOST_TO_DEVICE, uploads)
        await acl.RecordEvent(event, uploads)
        await acl.StreamWaitEvent(compute, event)
        await acl.LaunchKernel(total, 1, (buffer, sums, part), compute)
        await acl.Sleep(20)
    await acl.MemcpyAsync(back, 4, sums, 4, acl.MemcpyKind.DEVICE_TO_HOST, compute)
    await acl.SynchronizeStream(compute)
    assert list(back.numpy()[:3]) == [1, 2, 3], list(back.numpy()[:3])


acl.run(main, device="h200")
