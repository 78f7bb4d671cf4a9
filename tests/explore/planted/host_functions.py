"""Host functions of two streams are taken to run in the order in which they were queued."""

import acl_py as acl


@acl.kernel(cost=acl.Cost(us=10))
def work(x: acl.InOut):
    x += 1


async def main():
    done = []
    x, y = await acl.Malloc(4), await acl.Malloc(4)
    await acl.Memset(x, 4, 0, 4)
    await acl.Memset(y, 4, 0, 4)
    for name, buffer in (("first", x), ("second", y)):
        stream = await acl.CreateStream(name=name)
        await acl.LaunchKernel(work, 1, (buffer,), stream)
        await acl.LaunchHostFunc(stream, done.append, (name,))
    await acl.SynchronizeDevice()
    assert done == ["first", "second"], done


acl.run(main, device="h200")
