"""Shows: the first touch of managed memory hides a copy, and a prefetch takes it out of the way.

Scenario: the host writes 16 MiB of managed memory, a kernel doubles them behind another one that does not need them,
and the host adds them up. No line copies, so three lines hide copies: the kernel faults on its pages, which moves them
to the device; the host faults on them in turn; and it is busy meanwhile. Then the same with two prefetches. The first
moves pages while the other kernel runs, the second one behind the kernel.
"""

from functools import partial

import numpy as np

import acl_py
from acl_py import CPU_DEVICE_ID, Cost, InOut, MallocManaged, MemPrefetchAsync
from acl_py.explain import findings

NBYTES = 16 << 20


@acl_py.kernel(cost=Cost(us=1_000))
def other_work():
    pass


@acl_py.kernel
def double(values: InOut):
    values *= 2


async def run(*, prefetches: bool) -> None:
    sim = acl_py.current_simulation()
    stream, beside = await acl_py.CreateStream(), await acl_py.CreateStream()
    buffer = await MallocManaged(NBYTES, name="values")
    values = buffer.numpy(np.float32)
    values[:] = 1
    begin = sim.now_ns
    await other_work[1, beside]()
    if prefetches:
        await MemPrefetchAsync(buffer, NBYTES, 0, stream)
    event = await acl_py.CreateEvent()
    await acl_py.RecordEvent(event, beside)
    await acl_py.StreamWaitEvent(stream, event)
    await double[132, stream](acl_py.Array(buffer, np.float32))
    if prefetches:
        await MemPrefetchAsync(buffer, NBYTES, CPU_DEVICE_ID, stream)
    await acl_py.SynchronizeStream(stream)
    middle = sim.now_ns
    total = values.sum()
    print(f"device {(middle - begin) / 1000:7,.1f} us, host {(sim.now_ns - middle) / 1000:7,.1f} us: sum {total:,.0f}")
    for op in sim.trace.ops:
        print(f"  {op.name:26} {(op.end_ns - op.start_ns) / 1000:8,.1f} us")
    for finding in findings(sim.trace.timeline()):
        print(f"  {finding.text}")


print("without a prefetch:", end=" ")
acl_py.run(partial(run, prefetches=False), device="h200")
print("\nwith prefetches:", end=" ")
acl_py.run(partial(run, prefetches=True), device="h200")
