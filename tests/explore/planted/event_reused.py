"""One event is recorded for two copies, and the consumer of the first waits after the event has been recorded again
on another stream."""

import acl_py as acl

N = 4096


@acl.kernel(cost=acl.Cost(us=5))
def copy(x: acl.In, y: acl.Out):
    y[:] = x


async def main():
    host, back = await acl.MallocHost(2 * N), await acl.MallocHost(2 * N)
    host.numpy()[:] = 9
    back.numpy()[:] = 0
    sources = [await acl.Malloc(N) for _ in range(2)]
    results = [await acl.Malloc(N) for _ in range(2)]
    uploads = [await acl.CreateStream(name=f"upload {part}") for part in range(2)]
    compute, event = await acl.CreateStream(name="compute"), await acl.CreateEvent()
    for part in range(2):
        await acl.MemcpyAsync(sources[part], N, host[:N], N, acl.MemcpyKind.HOST_TO_DEVICE, uploads[part])
        await acl.RecordEvent(event, uploads[part])
    await acl.StreamWaitEvent(compute, event)
    for part in range(2):
        await acl.LaunchKernel(copy, 1, (sources[part], results[part]), compute)
        await acl.MemcpyAsync(back[part * N : (part + 1) * N], N, results[part], N,
                              acl.MemcpyKind.DEVICE_TO_HOST, compute)  # fmt: skip
    await acl.SynchronizeStream(compute)
    assert (back.numpy() == 9).all(), "a part is missing"
    await acl.SynchronizeDevice()


acl.run(main, device="h200")
