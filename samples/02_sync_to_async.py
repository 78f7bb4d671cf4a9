"""Shows: how a synchronous program becomes an asynchronous one, in four steps, and what each step gains.

Scenario: four chunks are copied to the device, go through a kernel, and are copied back. Step 1 waits in every copy.
Step 2 queues a whole chunk and then waits for it, as a cautious port does. Step 3 waits once, at the end: the host is
free early, and the device never waits for it. Step 4 gives each chunk a stream, so the engines work side by side.
"""

import numpy as np

import acl_py
from acl_py import Array, Cost, InOut, MemcpyKind
from acl_py.trace import chart

NBYTES = 1 << 20
TO_DEVICE, TO_HOST = MemcpyKind.HOST_TO_DEVICE, MemcpyKind.DEVICE_TO_HOST


@acl_py.kernel(cost=Cost(us=20))
def negate(x: InOut):
    np.negative(x, out=x)


async def step_1(chunks, _):
    for host, device in chunks:
        await acl_py.Memcpy(device, NBYTES, host, NBYTES, TO_DEVICE)
        await negate[64](Array(device, np.int32))
        await acl_py.Memcpy(host, NBYTES, device, NBYTES, TO_HOST)


async def queue(host, device, stream):
    await acl_py.MemcpyAsync(device, NBYTES, host, NBYTES, TO_DEVICE, stream)
    await negate[64, stream](Array(device, np.int32))
    await acl_py.MemcpyAsync(host, NBYTES, device, NBYTES, TO_HOST, stream)


async def step_2(chunks, streams):
    for host, device in chunks:
        await queue(host, device, streams[0])
        await acl_py.SynchronizeStream(streams[0])


async def step_3(chunks, streams):
    for host, device in chunks:
        await queue(host, device, streams[0])
    await acl_py.SynchronizeStream(streams[0])


async def step_4(chunks, streams):
    for (host, device), stream in zip(chunks, streams, strict=True):
        await queue(host, device, stream)
    await acl_py.SynchronizeDevice()


async def measure(step):
    sim = acl_py.current_simulation()
    chunks = [(await acl_py.MallocHost(NBYTES), await acl_py.Malloc(NBYTES)) for _ in range(4)]
    for host, _ in chunks:
        host.numpy(np.int32)[:] = 7
    streams = [await acl_py.CreateStream() for _ in chunks]
    start = sim.now_ns
    await step(chunks, streams)
    right = all((host.numpy(np.int32) == -7).all() for host, _ in chunks)
    print(f"{step.__name__}: {(sim.now_ns - start) / 1000:.1f} us, {'right' if right else 'wrong'}")
    print(chart.lanes(sim.trace, width=80), end="\n\n")


for step in (step_1, step_2, step_3, step_4):
    acl_py.run(measure, step, device="h200")
