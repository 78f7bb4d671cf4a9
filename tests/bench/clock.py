"""What a simulated clock costs in processor time: sleeps beside a device, and waits with a time-out and without.

The programs of a table run in turn. A sleep is compared with as many `asyncio.sleep(0)` on asyncio's own loop, a wait
with the same wait there.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from time import process_time

import acl_py
from tests.bench.measure import interleaved, ratio, say, show, spread, target
from tests.bench.waits import DEVICE, tick

SLEEPS = 20_000
WAITS = 5_000
RUNS = 5


async def _zeros():
    begin = process_time()
    for _ in range(SLEEPS):
        await asyncio.sleep(0)
    return (process_time() - begin) / SLEEPS * 1e6


async def _sleeps(threads, parked):
    """Sleeps of 10 ms beside a device, idle threads of a pool and tasks that wait for an event."""
    loop, never = asyncio.get_running_loop(), asyncio.Event()
    async with acl_py.simulate(device=DEVICE, trace=False):
        if threads:
            loop.set_default_executor(ThreadPoolExecutor(threads))
            barrier = Barrier(threads)  # so that each thread gets a job
            await asyncio.gather(*(asyncio.to_thread(barrier.wait) for _ in range(threads)))
        others = [asyncio.create_task(never.wait()) for _ in range(parked)]
        begin = process_time()
        for _ in range(SLEEPS):
            await asyncio.sleep(0.01)
        us = (process_time() - begin) / SLEEPS * 1e6
        never.set()
        await asyncio.gather(*others)
    return us


async def _waits(limit_s, parked):
    never = asyncio.Event()
    async with acl_py.simulate(device=DEVICE, trace=False, workers=1):
        stream = await acl_py.CreateStream()
        others = [asyncio.create_task(never.wait()) for _ in range(parked)]
        await asyncio.sleep(0)
        begin = process_time()
        async with asyncio.timeout(limit_s):
            for _ in range(WAITS):
                await acl_py.LaunchKernel(tick, 1, (), stream)
                await acl_py.SynchronizeStream(stream)
        us = (process_time() - begin) / WAITS * 1e6
        never.set()
        await asyncio.gather(*others)
    return us


def _run(loop_factory, program, *arguments):
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(program(*arguments))


def main():
    simulated = acl_py.new_event_loop
    zeros = "asyncio.sleep(0), asyncio's loop"
    sleeps = {
        zeros: (None, _zeros),
        "sleep of 10 ms": (simulated, _sleeps, 0, 0),
        "8 idle threads, 1000 parked tasks": (simulated, _sleeps, 8, 1000),
    }
    results = interleaved(sleeps, RUNS, _run)
    show("Sleeps: us of processor time", ("program", "us"), [(name, spread(us)) for name, us in results.items()])
    for name in list(sleeps)[1:]:
        say(f"  {name} : {zeros}  {target(ratio(results[name], results[zeros]), 6)}")
    for parked, who in ((0, "1 task, alone"), (1, "1 task, 1 parked")):
        ways = {
            "real clock": (None, _waits, None, parked),
            "simulated clock": (simulated, _waits, None, parked),
            "simulated, in asyncio.timeout(60)": (simulated, _waits, 60, parked),
        }
        results = interleaved(ways, RUNS, _run)
        show(f"Waits, {who}: us of processor time", ("clock", "us"), [(way, spread(us)) for way, us in results.items()])
        for name, limit in zip(list(ways)[1:], (1.05, 1.5), strict=True):
            say(f"  {name} : real clock  {target(ratio(results[name], results['real clock']), limit)}")
    say("")
