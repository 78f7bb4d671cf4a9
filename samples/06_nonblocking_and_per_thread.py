"""Shows: two ways around the barrier of the default stream, and their costs.

Scenario: `fill` runs in the default stream; then `look` reads the result in another stream. A blocking stream waits for
the default stream, so `look` finds the ones. A non-blocking stream does not wait: both kernels run side by side, and
`look` reads too early unless an event orders them. Under the rules `cuda_per_thread` the default stream is an ordinary
stream. Then `look` does not wait either, although all streams are blocking.
"""

from functools import partial

import numpy as np

import acl_py
from acl_py import Array, Cost, InOut, MemcpyKind, Out
from acl_py.trace import chart

NBYTES = 1 << 10


@acl_py.kernel(cost=Cost(us=100))
def fill(x: InOut):
    x[:] = 1


@acl_py.kernel(cost=Cost(us=40))
def look(x: InOut, seen: Out):
    seen[:] = x


async def fill_and_look(title, *, nonblocking=False, event=False):
    sim = acl_py.current_simulation()
    stream = await acl_py.CreateStream(nonblocking=nonblocking)
    x, seen = await acl_py.Malloc(NBYTES), await acl_py.Malloc(NBYTES)
    await acl_py.Memset(x, NBYTES, 0, NBYTES)
    await acl_py.SynchronizeDevice()
    start = sim.now_ns
    await fill[8](Array(x))  # in the default stream
    if event:
        filled = await acl_py.CreateEvent()
        await acl_py.RecordEvent(filled)
        await acl_py.StreamWaitEvent(stream, filled)
    await look[8, stream](Array(x), Array(seen))
    await acl_py.SynchronizeDevice()
    result, end = np.empty(NBYTES, np.uint8), sim.now_ns
    await acl_py.Memcpy(result, NBYTES, seen, NBYTES, MemcpyKind.DEVICE_TO_HOST)
    print(f"{title}: look saw {result[0]}")
    print(chart.lanes(sim.trace, width=80, since_ns=start, until_ns=end), end="\n\n")


h200 = partial(acl_py.run, device="h200")
h200(fill_and_look, "a blocking stream")
h200(partial(fill_and_look, "a non-blocking stream", nonblocking=True))
h200(partial(fill_and_look, "a non-blocking stream and an event", nonblocking=True, event=True))
h200(fill_and_look, "rules cuda_per_thread", rules="cuda_per_thread")
