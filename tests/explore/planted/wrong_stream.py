"""The wait for the kernel is given to the wrong stream. Other work of the right one takes long enough to hide that."""

import acl_py as acl

N = 4096


@acl.kernel(cost=acl.Cost(us=2))
def fill(x: acl.Out):
    x[:] = 7


@acl.kernel(cost=acl.Cost(us=30))
def busy(x: acl.InOut):
    x += 1


async def main():
    x, other, host = await acl.Malloc(N), await acl.Malloc(N), await acl.MallocHost(N)
    await acl.Memset(other, N, 0, N)
    await acl.SynchronizeDevice()
    compute, back, aside = [await acl.CreateStream(name=name) for name in ("compute", "back", "aside")]
    event = await acl.CreateEvent()
    await acl.LaunchKernel(fill, 1, (x,), compute)
    await acl.RecordEvent(event, compute)
    await acl.StreamWaitEvent(aside, event)
    await acl.LaunchKernel(busy, 1, (other,), back)
    await acl.MemcpyAsync(host, N, x, N, acl.MemcpyKind.DEVICE_TO_HOST, back)
    await acl.SynchronizeStream(back)
    assert (host.numpy() == 7).all(), "the copy did not wait for the kernel"


acl.run(main, device="h200")
