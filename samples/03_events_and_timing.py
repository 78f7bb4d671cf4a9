"""Shows: events, which mark a place in a stream: to measure time, to wait for, and to let one stream wait for another.

Scenario: one stream produces a value between other work, and another stream consumes it. The host's clock around the
launch measures the call; two events around it measure the kernel. The host then waits for the second event, and
continues while later work of that stream still runs. The consumer also starts at the event, not at the end of the other
stream. The streams have names, which the chart shows instead of numbers.
"""

import numpy as np

import acl_py
from acl_py import Array, Cost, In, Out
from acl_py.trace import chart


@acl_py.kernel(cost=Cost(us=60))
def produce(x: Out):
    x[:] = 42


@acl_py.kernel(cost=Cost(us=70))
def other_work():
    pass


@acl_py.kernel(cost=Cost(us=40))
def consume(x: In, y: Out):
    y[:] = x + 1


async def main():
    sim = acl_py.current_simulation()
    x, y = await acl_py.Malloc(1 << 10), await acl_py.Malloc(1 << 10)
    producer, consumer = await acl_py.CreateStream(name="producer"), await acl_py.CreateStream(name="consumer")
    start, produced = await acl_py.CreateEvent(name="start"), await acl_py.CreateEvent(name="produced")

    await other_work[8, producer]()
    await acl_py.RecordEvent(start, producer)
    before = sim.now_ns
    await produce[8, producer](Array(x))
    after = sim.now_ns
    await acl_py.RecordEvent(produced, producer)
    await other_work[8, producer]()
    await acl_py.StreamWaitEvent(consumer, produced)
    await consume[8, consumer](Array(x), Array(y))

    await acl_py.SynchronizeEvent(produced)
    print(f"the launch of produce took the host  {(after - before) / 1000:5.1f} us")
    print(f"the time between the two events is  {await acl_py.EventElapsedTime(start, produced) * 1000:5.1f} us")
    print("its stream after the wait for the second event:", (await acl_py.StreamQuery(producer)).value)

    await acl_py.SynchronizeDevice()
    result = np.empty(1 << 10, np.uint8)
    await acl_py.Memcpy(result, 1 << 10, y, 1 << 10, acl_py.MemcpyKind.DEVICE_TO_HOST)
    print("the consumer made", result[0])
    print(chart.lanes(sim.trace, width=90))


acl_py.run(main, device="h200")
