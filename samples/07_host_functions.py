"""Shows: Python functions that take their turn in a stream.

Scenario: two streams each compute a batch and copy it to the host, and a host function behind the copy reads it. The
function finds the numbers, although the main program never waited for them. A host function holds back only its own
stream: the kernel and the copy of the second batch continue. But the functions of all streams share one thread and run
one after another.
"""

import numpy as np

import acl_py
from acl_py import Array, Cost, MemcpyKind, Out
from acl_py.trace import chart

NBYTES = 1 << 20


@acl_py.kernel(cost=Cost(us=30))
def count(x: Out, start: int):
    x[:] = np.arange(start, start + x.size)


async def main():
    sim = acl_py.current_simulation()
    sums = []

    def add_up(numbers):
        sums.append(int(numbers.sum()))

    hosts = [await acl_py.MallocHost(NBYTES) for _ in range(2)]
    batches = [(host, await acl_py.Malloc(NBYTES), await acl_py.CreateStream()) for host in hosts]
    for number, (host, device, stream) in enumerate(batches):
        await count[8, stream](Array(device, np.int64), number * 1000)
        await acl_py.MemcpyAsync(host, NBYTES, device, NBYTES, MemcpyKind.DEVICE_TO_HOST, stream)
        await acl_py.LaunchHostFunc(stream, add_up, [host.numpy(np.int64)], us=70)
    print("queued; sums so far:", sums)
    await acl_py.SynchronizeDevice()
    print("synchronised; sums: ", sums)
    print(chart.lanes(sim.trace, width=90))


acl_py.run(main, device="h200")
