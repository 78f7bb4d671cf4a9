"""The host fills the pinned source again while its copy may still be on the way."""

import numpy as np

import acl_py as acl

N = 4096


async def main():
    host, device, stream = await acl.MallocHost(N), await acl.Malloc(2 * N), await acl.CreateStream()
    for part in range(2):
        host.numpy()[:] = part + 1
        await acl.MemcpyAsync(device[part * N : (part + 1) * N], N, host, N, acl.MemcpyKind.HOST_TO_DEVICE, stream)
        await acl.Sleep(100)  # long enough on this machine
    await acl.SynchronizeStream(stream)
    back = np.zeros(2 * N, np.uint8)
    await acl.Memcpy(back, 2 * N, device, 2 * N, acl.MemcpyKind.DEVICE_TO_HOST)
    assert (back[:N] == 1).all(), "the first part has bytes of the second"


acl.run(main, device="h200")
