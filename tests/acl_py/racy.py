"""Programs whose result depends on every detail of the order, and digests of all that they did.

`python racy.py` prints the digests, for runs in other processes.
"""

import asyncio
import sys
from hashlib import sha256

import numpy as np

import acl_py as acl

LARGE = 5 << 20  # beyond what is run without a thread
SMALL = 4_000


@acl.kernel(cost=acl.Cost(us=700))
def mix(x: acl.In, y: acl.InOut, n):
    y *= np.uint8(3)
    y += x
    y += np.uint8(n)


@acl.kernel(cost=acl.Cost(us=300))
def turn(x: acl.InOut):
    x[:] = x[::-1]


@acl.kernel(cost=acl.Cost(us=450))
def invert(x: acl.In, y: acl.Out):
    np.invert(x, out=y)


@acl.kernel(cost=acl.Cost(us=500))
def broken(x: acl.InOut):
    x[0] = 1
    raise ArithmeticError("as planned")


async def _memory(size):
    device = [await acl.Malloc(size) for _ in range(3)]
    host = [await acl.MallocHost(size) for _ in range(2)]
    for i, buffer in enumerate(host):
        buffer.numpy()[:] = np.arange(size, dtype=np.uint32).astype(np.uint8) + i
    for buffer in device:
        await acl.Memcpy(buffer, size, host[0], size, acl.MemcpyKind.HOST_TO_DEVICE)
    return device, host


async def _step(rng, stream, device, host, size, events):
    x, y = device[rng.integers(3)], device[rng.integers(3)]
    h, event, n = host[rng.integers(2)], events[rng.integers(2)], int(rng.integers(256))
    match rng.integers(10):
        case 0 | 1:
            await acl.LaunchKernel(mix, 2, (x, y, n), stream)
        case 2:
            await acl.LaunchKernel(turn, 1, (x,), stream)
        case 3:
            await acl.LaunchKernel(invert, 1, (x, y), stream)
        case 4:
            await acl.MemcpyAsync(x, size, h, size, acl.MemcpyKind.HOST_TO_DEVICE, stream)
        case 5:
            await acl.MemcpyAsync(h, size, x, size, acl.MemcpyKind.DEVICE_TO_HOST, stream)
        case 6:
            await acl.MemcpyAsync(x, size, y, size, acl.MemcpyKind.DEVICE_TO_DEVICE, stream)
        case 7:
            temporary = await acl.MallocAsync(size, stream)
            await acl.LaunchKernel(invert, 1, (x, temporary), stream)
            await acl.LaunchKernel(mix, 1, (temporary, y, n), stream)
            await acl.FreeAsync(temporary, stream)
        case 8:
            await acl.RecordEvent(event, stream)
            await acl.LaunchHostFunc(stream, _scribble, (h.numpy(), n), us=n)
        case 9:
            await acl.StreamWaitEvent(stream, event)
            await acl.MemsetAsync(x, size // 2, n, size // 2, stream)


def _scribble(view, n):
    view[n::997] += np.uint8(n)


async def racy(size=LARGE, steps=40, yields=0):
    """One task, three streams, no order between them: whatever happens, it happens the same way."""
    device, host = await _memory(size)
    streams = [await acl.CreateStream(), await acl.CreateStream(), await acl.CreateStream(nonblocking=True)]
    events = [await acl.CreateEvent(), await acl.CreateEvent()]
    rng = acl.current_simulation().rng
    for step in range(steps):
        await _step(rng, streams[rng.integers(3)], device, host, size, events)
        for _ in range(yields):
            await asyncio.sleep(0)
        if step % 10 == 9:
            await acl.SynchronizeStream(streams[rng.integers(3)])
            host[0].numpy()[: size // 3] ^= np.uint8(step)
    await acl.SynchronizeDevice()
    return await _bytes(device, host)


async def tasks(size=LARGE):
    """Four tasks that share the memory."""
    device, host = await _memory(size)
    events = [await acl.CreateEvent(), await acl.CreateEvent()]

    async def work(number):
        rng = np.random.default_rng(number)
        stream = await acl.CreateStream(nonblocking=number == 2)
        for step in range(10):
            await _step(rng, stream, device, host, size, events)
            if step % 3 == number % 3:
                await acl.Sleep(int(rng.integers(900)))
            elif step % 3 == 0:
                await acl.SynchronizeStream(stream)

    await asyncio.gather(*map(work, range(4)))
    await acl.SynchronizeDevice()
    return await _bytes(device, host)


async def failing(size=LARGE):
    """A failure in the middle: what ran beside it has its effect, what began after it has none."""
    device, host = await _memory(size)
    streams = [await acl.CreateStream() for _ in range(3)]
    for stream, x in zip(streams, device, strict=True):
        await acl.LaunchKernel(mix, 1, (x, x, 1), stream)
    await acl.LaunchKernel(broken, 1, (device[0],), streams[0])
    await acl.LaunchKernel(broken, 1, (device[1],), streams[1])
    for stream, x in zip(streams, device, strict=True):
        await acl.LaunchKernel(turn, 1, (x,), stream)
        await acl.MemcpyAsync(host[0], size, x, size, acl.MemcpyKind.DEVICE_TO_HOST, stream)
        await acl.LaunchHostFunc(stream, _scribble, (host[1].numpy(), 3))
    messages = []
    try:
        await acl.SynchronizeDevice()
    except acl.AclError as error:
        messages.append(str(error))
    locate = acl.current_simulation().runtime.memory.locate  # the context is lost: nothing else reads device memory now
    return messages, [digest(bytes(locate(x, size, "x")[0].view)) for x in device], [digest(x.numpy()) for x in host]


async def staged(size=LARGE):
    """Pageable memory, from two tasks, one of which changes it meanwhile."""
    device, host = await _memory(size)
    a, b, array = await acl.CreateStream(), await acl.CreateStream(), np.zeros(size, np.uint8)

    async def copy(stream, x):
        await acl.LaunchKernel(turn, 1, (x,), stream)
        await acl.MemcpyAsync(x, size, array, size, acl.MemcpyKind.HOST_TO_DEVICE, stream)
        await acl.MemcpyAsync(array, size, x, size, acl.MemcpyKind.DEVICE_TO_HOST, stream)

    async def change():
        for step in range(20):
            array[step::1000] += np.uint8(step)
            await acl.Sleep(500)

    await asyncio.gather(copy(a, device[0]), copy(b, device[1]), change())
    await acl.SynchronizeDevice()
    return await _bytes(device, host), digest(array)


async def _bytes(device, host):
    found = [digest(buffer.numpy()) for buffer in host]
    for buffer in device:
        result = np.zeros(buffer.nbytes, np.uint8)
        await acl.Memcpy(result, buffer.nbytes, buffer, buffer.nbytes, acl.MemcpyKind.DEVICE_TO_HOST)
        found.append(digest(result))
    return found


def digest(data):
    return sha256(data).hexdigest()[:16]


def everything(program, **options):
    """All that a run of *program* did: its value, every operation and every call."""

    async def main():
        value = await program()
        trace = acl.current_simulation().trace
        return value, list(trace.ops), [(c.name, c.enter_ns, c.exit_ns, c.line) for c in trace.calls]

    return acl.run(main, **({"device": "tiny"} | options))


PROGRAMS = (racy, tasks, failing, staged)

if __name__ == "__main__":
    for each in PROGRAMS:
        print(each.__name__, digest(repr(everything(each, uvloop="uvloop" in sys.argv, workers=2)).encode()))
