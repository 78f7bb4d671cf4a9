"""Shows: MemcpyAsync depends on the kind of memory that it is given.

Scenario: the host queues the same copy twice behind a busy stream: from pinned memory, and from a NumPy array, which is
pageable. The copy engine reads pinned memory itself when the stream reaches the copy. So the call returns at once, and
the host must not change the buffer until the copy is done. The host has to stage pageable memory through small buffers,
and waits while they are full. So the call returns late, but the array may be changed right away.
"""

import numpy as np

import acl_py
from acl_py import Cost, MemcpyKind
from acl_py.trace import chart

NBYTES = 8 << 20


@acl_py.kernel(cost=Cost(us=1_000))
def busy():
    pass


async def copy_behind_a_kernel(source, numbers):
    """Copy *source* behind a long kernel, overwrite it as soon as the call returns, and print what arrived."""
    sim, stream = acl_py.current_simulation(), await acl_py.CreateStream()
    device = await acl_py.Malloc(NBYTES)
    arrived = await acl_py.MallocHost(NBYTES)
    numbers[:] = 1
    await busy[1, stream]()
    before = sim.now_ns
    await acl_py.MemcpyAsync(device, NBYTES, source, NBYTES, MemcpyKind.HOST_TO_DEVICE, stream)
    call_us = (sim.now_ns - before) / 1000
    numbers[:] = 2
    await acl_py.MemcpyAsync(arrived, NBYTES, device, NBYTES, MemcpyKind.DEVICE_TO_HOST, stream)
    await acl_py.SynchronizeStream(stream)
    print(f"MemcpyAsync returned after {call_us:7,.1f} us; written 1, then 2, arrived {arrived.numpy()[0]}")
    print(chart.lanes(sim.trace, width=80))


async def copy_pinned_memory():
    pinned = await acl_py.MallocHost(NBYTES)
    print("from pinned memory:", end=" ")
    await copy_behind_a_kernel(pinned, pinned.numpy())


async def copy_pageable_memory():
    pageable = np.empty(NBYTES, np.uint8)
    print("\nfrom pageable memory:", end=" ")
    await copy_behind_a_kernel(pageable, pageable)


acl_py.run(copy_pinned_memory, device="h200")
acl_py.run(copy_pageable_memory, device="h200")
