"""The program changes a NumPy array after MemcpyAsync, which need not have staged it yet."""

import numpy as np

import acl_py as acl

N = 1 << 20


async def main():
    source, back = np.ones(N, np.uint8), np.zeros(N, np.uint8)
    device, stream = await acl.Malloc(N), await acl.CreateStream()
    await acl.MemcpyAsync(device, N, source, N, acl.MemcpyKind.HOST_TO_DEVICE, stream)
    source[:] = 2
    await acl.SynchronizeStream(stream)
    await acl.Memcpy(back, N, device, N, acl.MemcpyKind.DEVICE_TO_HOST)
    assert (back == 1).all(), "the copy has taken the changed bytes"


acl.run(main, device="h200")
