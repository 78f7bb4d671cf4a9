"""Shows: the report of a deadlock, names of streams and events, and a limit of simulated time for a wait.

Scenario: under ACL's rules a producer fills a buffer and a consumer empties it, in two streams with two level-flag
events between them. The producer waits for `empty`, which the consumer records. The consumer waits for `full`, which
the producer records. But no call says that the buffer is empty at the beginning. Each task that waits gets an error
with the chain of waits, line by line, until it closes; it has the names that the program gave. A wait with a limit
describes the same chain when the limit is reached, and the work goes on. With one more record before the first round,
the program runs.
"""

import asyncio

import acl_py
from acl_py import Cost, EventFlag


@acl_py.kernel(cost=Cost(us=30))
def fill():
    pass


@acl_py.kernel(cost=Cost(us=20))
def drain():
    pass


async def produce(stream, empty, full):
    await acl_py.StreamWaitEvent(stream, empty)
    await fill[1, stream]()
    await acl_py.RecordEvent(full, stream)
    await acl_py.SynchronizeStream(stream)


async def consume(stream, empty, full):
    await acl_py.StreamWaitEvent(stream, full)
    await drain[1, stream]()
    await acl_py.RecordEvent(empty, stream)
    await acl_py.SynchronizeStream(stream)


async def main():
    sim = acl_py.current_simulation()
    first = await acl_py.CreateStream(name="producing")
    second = await acl_py.CreateStream(name="consuming")
    empty = await acl_py.CreateEventWithFlag(EventFlag.SYNC, name="empty")
    full = await acl_py.CreateEventWithFlag(EventFlag.SYNC, name="full")
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(produce(first, empty, full), name="producer")
            group.create_task(consume(second, empty, full), name="consumer")
    except* acl_py.DeadlockError as group:
        print(f"{len(group.exceptions)} tasks got an error; the first:\n{group.exceptions[0]}")
    try:
        await acl_py.SynchronizeStreamWithTimeout(second, 5)
    except acl_py.AclError as error:
        print(f"\nafter 5 ms:\n{error}")

    await acl_py.RecordEvent(empty)  # in the default stream, which waits for no other stream
    await acl_py.SynchronizeDevice()
    print("\nwith one more record of empty:")
    for op in sim.trace.ops:
        print(f"  {op.name:5} {op.start_ns / 1000:8,.1f} to {op.end_ns / 1000:8,.1f} us")


acl_py.run(main, device="h200", rules="acl")
