"""Shows: the same calls under CUDA's rules and under ACL's.

Scenario: a kernel fills a buffer, and the host copies the result back with the synchronous copy. Under CUDA's rules
this copy is work of the default stream, which waits for the kernel's stream, so the host reads the result. Under ACL's
rules it is outside all streams and happens at once, so the host reads the old contents. Then the host frees the buffer
while a second kernel is going to write to it. CUDA's free waits; ACL's does not, and the kernel finds its memory gone.
Two more calls make the program right under both.
"""

from functools import partial

import numpy as np

import acl_py
from acl_py import Cost, MemcpyKind

N = 1 << 20


@acl_py.kernel(cost=Cost(us=200))
def fill_with_sevens(out: acl_py.Out):
    out[:] = 7


async def program(*, portable):
    stream = await acl_py.CreateStream()
    buffer, host = await acl_py.Malloc(N), np.zeros(N, np.uint8)
    await acl_py.Memset(buffer, N, 1, N)
    await acl_py.SynchronizeDevice()

    await fill_with_sevens[8, stream](acl_py.Array(buffer, np.uint8))
    if portable:
        await acl_py.SynchronizeStream(stream)
    await acl_py.Memcpy(host, N, buffer, N, MemcpyKind.DEVICE_TO_HOST)
    print(f"  read {host[0]}", end="")

    await fill_with_sevens[8, stream](acl_py.Array(buffer, np.uint8))
    if portable:
        await acl_py.SynchronizeStream(stream)
    await acl_py.Free(buffer)
    try:
        await acl_py.SynchronizeStream(stream)
        print(", and the second kernel is done")
    except acl_py.AclError as error:
        print(f", then {error}")


for portable in (False, True):
    print("\nwith a synchronisation before the copy and before the free" if portable else "as it was written")
    for rules in ("cuda", "acl"):
        print(f" {rules}:", end="")
        acl_py.run(partial(program, portable=portable), device="h200", rules=rules)
