"""Small programs on managed memory, and what they move, counted by hand.

A page has 4 KB, a region 64 KB (16 pages) and a block 2 MB (32 regions). `device(...)` is what an operation of a device
did with pages, `host(...)` what an access of the host did.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

import acl_py
from acl_py import Advice, Array, Cost, In, InOut, MemAdvise, MemPrefetchAsync, Out, kernel
from device_model.memory import Moves

KIB, MIB = 1 << 10, 1 << 20
CPU, DEFAULT = acl_py.CPU_DEVICE_ID, acl_py.MemcpyKind.DEFAULT


@dataclass(frozen=True)
class Program:
    """A function of a buffer and a stream, the size of the buffer, and the moves that it makes."""

    title: str
    nbytes: int
    body: Any
    moves: tuple[Moves, ...]


PROGRAMS: list[Program] = []


def moves(title, nbytes, *expected):
    """Add the decorated function to the programs."""

    def add(body):
        PROGRAMS.append(Program(title, nbytes, body, expected))
        return body

    return add


def device(**counts):
    return Moves(**counts)


host = device
FIRST_USE_BY_HOST = {"mapped": 256}  # of 1 MB: 256 pages get an entry in the host's page table
FIRST_USE_BY_DEVICE = {"to_device": 256, "rounds": 5}  # 16 regions of one block: 1, 1, 2, 4 and 8 at a time


@kernel(cost=Cost(us=10))
def read(x: In):
    assert x.size


@kernel(cost=Cost(us=10))
def change(x: InOut):
    x += 1


@kernel(cost=Cost(us=10))
def write(x: Out):
    x[:] = 5


@kernel(cost=Cost(us=10))
def add(x: In, y: InOut):
    y += x


def sync(stream):
    return acl_py.SynchronizeStream(stream)


@moves("the host writes, then writes again", MIB, host(**FIRST_USE_BY_HOST), host())
async def _(buffer, stream):
    buffer.numpy()[:] = 1
    buffer.numpy()[:] = 2


@moves("the host writes one value", MIB, host(mapped=1))
async def _(buffer, stream):
    buffer.numpy()[5000] = 1


@moves("two values on the border of two pages", MIB, host(mapped=2))
async def _(buffer, stream):
    buffer.numpy()[4095:4097] = 1


@moves("every other page", MIB, host(mapped=128))
async def _(buffer, stream):
    buffer.numpy(shape=(256, 4096))[::2, 0] = 1


@moves("a kernel is the first to use memory, then uses it again", MIB, device(**FIRST_USE_BY_DEVICE), device())
async def _(buffer, stream):
    await write[4, stream](buffer)
    await change[4, stream](buffer)


@moves("a kernel faults on one byte: a region moves", MIB, device(to_device=16, rounds=1))
async def _(buffer, stream):
    await write[1, stream](buffer[70_000:70_001])


@moves("less memory than a region has fewer pages", 6 * KIB, device(to_device=2, rounds=1))
async def _(buffer, stream):
    await write[1, stream](buffer)


@moves("three regions take three rounds: 1, 1 and 1 of up to 2", MIB, device(to_device=48, rounds=3))
async def _(buffer, stream):
    await write[1, stream](buffer[: 192 * KIB])


@moves("blocks fault side by side: 4 MB take the six rounds of 2 MB", 4 * MIB, device(to_device=1024, rounds=6))
async def _(buffer, stream):
    await write[4, stream](buffer)


@moves(
    "to the device and back by faults",
    MIB,
    host(**FIRST_USE_BY_HOST),
    device(**FIRST_USE_BY_DEVICE),
    host(to_host=256, host_faults=16, mapped=256),
)
async def _(buffer, stream):
    buffer.numpy()[:] = 1
    await change[4, stream](buffer)
    await sync(stream)
    buffer.numpy()[:] = 2


@moves(
    "the host reads one value of what a kernel wrote: a region moves",
    MIB,
    device(**FIRST_USE_BY_DEVICE),
    host(to_host=16, host_faults=1, mapped=16),
    device(to_device=16, rounds=1),
)
async def _(buffer, stream):
    await write[4, stream](buffer)
    await sync(stream)
    assert buffer.numpy()[0] == 5
    await change[4, stream](buffer)


@moves("a prefetch, and the kernel faults on nothing", MIB, device(to_device=256), device())
async def _(buffer, stream):
    await MemPrefetchAsync(buffer, MIB, 0, stream)
    await write[4, stream](buffer)


@moves("a prefetch of 10,000 bytes moves three pages, the kernel the rest of the region", 64 * KIB,
       device(to_device=3), device(to_device=13, rounds=1))  # fmt: skip
async def _(buffer, stream):
    await MemPrefetchAsync(buffer, 10_000, 0, stream)
    await write[1, stream](buffer)


@moves(
    "a prefetch to the host leaves its page table empty",
    MIB,
    device(**FIRST_USE_BY_DEVICE),
    device(to_host=256),
    host(mapped=256),
)
async def _(buffer, stream):
    await write[4, stream](buffer)
    await MemPrefetchAsync(buffer, MIB, CPU, stream)
    await sync(stream)
    assert buffer.numpy().sum() == 5 * MIB


@moves("pages that are there stay", MIB, device(to_device=256), device(), device(to_host=256), device())
async def _(buffer, stream):
    for location in (0, 0, CPU, CPU):
        await MemPrefetchAsync(buffer, MIB, location, stream)


@moves(
    "read-mostly pages are copied: nobody waits for them twice",
    MIB,
    host(**FIRST_USE_BY_HOST),
    device(**FIRST_USE_BY_DEVICE),
    host(),
    device(),
)
async def _(buffer, stream):
    buffer.numpy()[:] = 1
    await MemAdvise(buffer, MIB, Advice.SET_READ_MOSTLY)
    await read[4, stream](buffer)
    await sync(stream)
    assert buffer.numpy().sum() == MIB
    await read[4, stream](buffer)


@moves(
    "a write of the host gives up the copies: of one page",
    MIB,
    device(to_device=256),
    host(mapped=1, unshared=1),
    device(to_device=1, rounds=1),
)
async def _(buffer, stream):
    await MemAdvise(buffer, MIB, Advice.SET_READ_MOSTLY)
    await MemPrefetchAsync(buffer, MIB, 0, stream)
    await sync(stream)
    buffer.numpy()[0] = 1
    await read[4, stream](buffer)


@moves(
    "a write of a kernel gives up the copy of the host",
    MIB,
    device(to_device=256),
    device(rounds=5),
    host(to_host=256, host_faults=16, mapped=256),
)
async def _(buffer, stream):
    await MemAdvise(buffer, MIB, Advice.SET_READ_MOSTLY)
    await MemPrefetchAsync(buffer, MIB, 0, stream)
    await change[4, stream](buffer)
    await sync(stream)
    assert buffer.numpy().sum() > 0


@moves("a device that accesses the host's pages reaches 1 MB over the bus", MIB, device(remote=MIB), device(remote=MIB))
async def _(buffer, stream):
    await MemAdvise(buffer, MIB, Advice.SET_ACCESSED_BY, 0)
    await change[4, stream](buffer)
    await change[4, stream](buffer)


@moves(
    "pages that prefer the host fault once, and stay there",
    MIB,
    device(rounds=5, remote=MIB),
    device(remote=MIB),
    host(mapped=256),
)
async def _(buffer, stream):
    await MemAdvise(buffer, MIB, Advice.SET_PREFERRED_LOCATION, CPU)
    await change[4, stream](buffer)
    await change[4, stream](buffer)
    await sync(stream)
    assert buffer.numpy().sum() > 0


@moves("advice that is taken back has no effect", MIB, device(**FIRST_USE_BY_DEVICE))
async def _(buffer, stream):
    for advice in (Advice.SET_ACCESSED_BY, Advice.UNSET_ACCESSED_BY):
        await MemAdvise(buffer, MIB, advice, 0)
    await MemAdvise(buffer, MIB, Advice.SET_PREFERRED_LOCATION, CPU)
    await MemAdvise(buffer, MIB, Advice.UNSET_PREFERRED_LOCATION)
    await change[4, stream](buffer)


@moves("two halves of an allocation fault in the same rounds", MIB, device(to_device=256, rounds=4))
async def _(buffer, stream):
    await add[4, stream](Array(buffer[: MIB // 2]), Array(buffer[MIB // 2 :]))


@moves("a copy from pinned memory faults as a kernel does", MIB, device(**FIRST_USE_BY_DEVICE))
async def _(buffer, stream):
    pinned = await acl_py.MallocHost(MIB)
    await acl_py.MemcpyAsync(buffer, MIB, pinned, MIB, DEFAULT, stream)


@moves(
    "a copy of pageable memory faults with its first chunk",
    16 * KIB,
    device(to_device=4, rounds=1),
    *[device()] * 3,
)
async def _(buffer, stream):
    await acl_py.MemcpyAsync(buffer, 16 * KIB, np.zeros(16 * KIB, np.uint8), 16 * KIB, DEFAULT, stream)


@moves("a fill of two pages moves their region", MIB, device(to_device=16, rounds=1))
async def _(buffer, stream):
    await acl_py.MemsetAsync(buffer, MIB, 7, 2 * 4096, stream)


@moves(
    "the second device takes the pages of the first",
    MIB,
    device(**FIRST_USE_BY_DEVICE),
    device(**FIRST_USE_BY_DEVICE),
    host(to_host=256, host_faults=16, mapped=256),
)
async def _(buffer, stream):
    await change[4, stream](buffer)
    await sync(stream)
    await acl_py.SetDevice(1)
    await change[4](buffer)
    await acl_py.SynchronizeDevice()
    assert buffer.numpy().sum() > 0


@moves("a device of 64 MB has no room for 66: the block used first leaves it", 66 * MIB,
       device(to_device=512, rounds=6), device(to_device=64 * 256, rounds=6, to_host=512),
       device(to_device=512, rounds=6, to_host=512))  # fmt: skip
async def _(buffer, stream):
    await change[4, stream](buffer[: 2 * MIB])
    await change[4, stream](buffer[2 * MIB :])
    await change[4, stream](buffer[: 2 * MIB])
