"""Shows: the default stream under CUDA's rules, and how to be free of it.

Scenario: two kernels in streams of their own, and between them one in the default stream (stream `None`). The default
stream waits for all earlier work of the other streams, and they wait for it: three kernels that could run side by side
run one after another. Non-blocking streams are outside this rule, and per-thread default streams are ordinary streams.
"""

import asyncio

import acl_py
from acl_py import Cost
from acl_py.trace import chart


@acl_py.kernel(cost=Cost(us=100))
def first():
    pass


@acl_py.kernel(cost=Cost(us=100))
def between():
    pass


@acl_py.kernel(cost=Cost(us=100))
def last():
    pass


async def three_kernels(title, *, rules="cuda", nonblocking=False):
    async with acl_py.simulate(device="h200", rules=rules) as sim:
        one = await acl_py.CreateStream(nonblocking=nonblocking)
        other = await acl_py.CreateStream(nonblocking=nonblocking)
        await first[8, one]()
        await between[8]()  # in the default stream
        await last[8, other]()
        await acl_py.SynchronizeDevice()
        print(title)
        print(chart.lanes(sim.trace, width=80))
        print()


async def main():
    await three_kernels("blocking streams: the default stream is a barrier")
    await three_kernels("non-blocking streams: it is not", nonblocking=True)
    await three_kernels("rules cuda_per_thread: it is a stream like any other", rules="cuda_per_thread")


asyncio.run(main())
