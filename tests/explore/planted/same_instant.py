"""Two kernels of equal length write one flag; the one that was launched last wins, as long as it ends last."""

import acl_py as acl


@acl.kernel(cost=acl.Cost(us=10))
def store(x: acl.Out, value):
    x[:] = value


async def main():
    x, back = await acl.Malloc(4), await acl.MallocHost(4)
    one, two = await acl.CreateStream(name="one"), await acl.CreateStream(name="two")
    gate = await acl.CreateEvent()
    await acl.LaunchKernel(store, 1, (x, 0), one)
    await acl.RecordEvent(gate, one)
    await acl.StreamWaitEvent(two, gate)
    await acl.LaunchKernel(store, 1, (x, 1), one)
    await acl.LaunchKernel(store, 1, (x, 2), two)
    await acl.SynchronizeDevice()
    await acl.Memcpy(back, 4, x, 4, acl.MemcpyKind.DEVICE_TO_HOST)
    assert back.numpy()[0] == 2, back.numpy()[0]


acl.run(main, device="h200")
