"""Shows: under CUDA's rules, the default stream is a barrier.

Scenario: two kernels run in streams of their own. Between them, a library launches a small kernel without a stream. It
goes to the default stream, `None`, which waits for all earlier work of the other streams; and they wait for it. So
kernels that could run side by side run one after another. The remedy is to give the small kernel a stream.
"""

from functools import partial

import acl_py
from acl_py import Cost
from acl_py.trace import chart


@acl_py.kernel(cost=Cost(us=100))
def left():
    pass


@acl_py.kernel(cost=Cost(us=20))
def log():
    pass


@acl_py.kernel(cost=Cost(us=100))
def right():
    pass


async def three_kernels(title, *, name_a_stream):
    sim = acl_py.current_simulation()
    one, other, third = [await acl_py.CreateStream() for _ in range(3)]
    await left[8, one]()
    await log[8, third if name_a_stream else None]()
    await right[8, other]()
    await acl_py.SynchronizeDevice()
    start, end = min(op.start_ns for op in sim.trace.ops), max(op.end_ns for op in sim.trace.ops)
    print(f"{title}: {(end - start) / 1000:.1f} us")
    print(chart.lanes(sim.trace, width=80))
    for op in sim.trace.ops:
        if op.after is not None:
            print(f"{op.name} started behind {sim.trace.ops[op.after].name}, why: {op.why.name}")


acl_py.run(partial(three_kernels, "a kernel in the default stream", name_a_stream=False), device="h200")
print()
acl_py.run(partial(three_kernels, "the same in a stream of its own", name_a_stream=True), device="h200")
