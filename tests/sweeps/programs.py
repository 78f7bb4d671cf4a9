"""Programs that the tests sweep."""

import asyncio
import os
import signal
import time
from pathlib import Path

import numpy as np

import acl_py as acl

FACTOR = 2


def note(log, what):
    """Add a line to the file *log*."""
    with Path(log).open("a", encoding="utf-8") as file:
        file.write(f"{what}\n")


@acl.kernel(cost=acl.Cost(us=10))
def double(x: acl.InOut):
    x *= FACTOR


async def chunks(count, streams=1, log=None):
    """Copy 64 KiB in so many chunks, over some streams; note each run in the file *log*."""
    if log is not None:
        note(log, f"{count} {streams}")
    size = (1 << 16) // count
    made = [await acl.CreateStream() for _ in range(streams)]
    pinned, buffer = await acl.MallocHost(1 << 16), await acl.Malloc(1 << 16)
    pinned.numpy()[:] = 3
    for index in range(count):
        stream, part = made[index % streams], slice(index * size, (index + 1) * size)
        await acl.MemcpyAsync(buffer[part], size, pinned[part], size, acl.MemcpyKind.HOST_TO_DEVICE, stream)
        await double[1, stream](buffer[part])
    await acl.SynchronizeDevice()
    into = np.empty(1 << 16, np.uint8)
    await acl.Memcpy(into, into.nbytes, buffer, into.nbytes, acl.MemcpyKind.DEVICE_TO_HOST)
    return {"sum": into.sum(dtype=np.int64), "chunk": size}


async def gives(number):
    """Return numbers of several kinds."""
    await acl.CreateStream()
    return {"count": number, "ms": number * 0.27054, "is_right": True, "rate": number * 12345.678}


async def fails(number):
    """Fail for odd numbers."""
    await acl.CreateStream()
    if number % 2:
        raise ArithmeticError(f"{number} is odd")
    return number


async def kills(number, log=None):
    """End the process that runs it for number 3."""
    if log is not None:
        note(log, number)
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


async def slow(number, log):
    """Take 10 ms of the processor; note the end of each run in the file *log*."""
    await acl.CreateStream()
    until = time.process_time() + 0.01
    while time.process_time() < until:
        sum(range(100))
    note(log, number)
    return number


async def held(number, log, marker):
    """Do as `slow` does. Run 60 notes its process in the file *marker* the first time, and waits to be killed."""
    if number == 60:
        wait_for_the_end(marker)
    return await slow(number, log)


def wait_for_the_end(marker):
    """Note this process, unless another one was noted already, and do nothing more."""
    if not Path(marker).exists():
        note(marker, os.getpid())
        time.sleep(300)


async def returns_a_handle():
    """Return what no file can keep."""
    return await acl.CreateStream()


async def waits():
    """Wait for what never happens."""
    await asyncio.get_running_loop().create_future()


def plain():
    """Be no coroutine function."""
