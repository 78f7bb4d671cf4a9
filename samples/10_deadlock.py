"""Shows: a program that can never continue gets an error with a report at once, instead of a hang.

Scenario: a worker computes, and a publisher sends the result over the network. The publisher stops simulated time while
it sends, so that the real delay of the network does not count. But it begins one line too early: it waits for the
worker, the worker waits for the device, and the device waits for time to pass. The report lists each wait, the line
that queued the work, and the task that holds time. With the hold around the sending only, the program runs.
"""

import asyncio
import time
from functools import partial

import acl_py
from acl_py import Cost


@acl_py.kernel(cost=Cost(us=50))
def compute():
    pass


async def worker(ready):
    stream = await acl_py.CreateStream()
    await compute[8, stream]()
    try:
        await acl_py.SynchronizeStream(stream)
    except acl_py.DeadlockError as error:
        print(error, *error.__notes__, sep="\n")
    ready.set()


async def publisher(ready, *, too_early):
    sim = acl_py.current_simulation()
    if not too_early:
        await ready.wait()
    with sim.hold():
        await ready.wait()
        await asyncio.to_thread(time.sleep, 0.01)  # stands for a request over the network
    print(f"sent at {sim.now_ns / 1000:.1f} us")


async def program(*, too_early):
    async with asyncio.TaskGroup() as group:
        ready = asyncio.Event()
        group.create_task(worker(ready), name="worker")
        group.create_task(publisher(ready, too_early=too_early), name="publisher")


for too_early in (True, False):
    print("\nholding time while waiting for the worker" if too_early else "\nholding time for the send only")
    acl_py.run(partial(program, too_early=too_early), device="h200")
