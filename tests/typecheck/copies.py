"""A program that copies, with three mistakes. Everything else is right, in all the ways that memory can be given."""

from array import array

import numpy as np

import acl_py as acl
from acl_py import MemcpyKind


async def main() -> None:
    sizes = np.array([4096, 8192])
    device, pinned = await acl.Malloc(sizes.sum()), await acl.MallocHost(int(sizes.max()))
    stream, event = await acl.CreateStream(), await acl.CreateEvent()
    values = np.arange(1024, dtype=np.float32)
    for src in (values, pinned, pinned[:4096], acl.Array(pinned, np.float32), pinned.address, device + 4096):
        await acl.MemcpyAsync(device, sizes[0], src, 4096, MemcpyKind.DEFAULT, stream)
    for raw in (bytes(64), bytearray(64), memoryview(bytes(64)), array("f", [0] * 16)):
        await acl.Memcpy(device, 64, raw, 64, MemcpyKind.HOST_TO_DEVICE)
    await acl.MemsetAsync(acl.Array(device, np.float32)[:16], 64, 0, 64)
    await acl.RecordEvent(event, stream)

    await acl.MemcpyAsync(stream, 4096, pinned, 4096, MemcpyKind.DEFAULT)  # planted: a stream for the destination
    await acl.MemcpyAsync(device, pinned, 4096, 4096, MemcpyKind.DEFAULT)  # planted: no dest_max, so src has its place
    acl.SynchronizeStream(stream)  # planted: await forgotten
    await acl.Free(device)
    await acl.FreeHost(None)
