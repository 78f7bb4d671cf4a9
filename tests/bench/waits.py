"""What waiting costs: microseconds per launch and sync, with one task up to a thousand, beside a bare future's wake-up.

"Staggered" tasks wake at instants of their own, tasks "in step" all at one. So that simulated host time does not pull
them apart, the host calls of this device are free. A launch alone is shown, too: the rest is what the wait costs.
"""

import asyncio
from dataclasses import replace
from statistics import median
from time import perf_counter

import uvloop

import acl_py
from device_model.curves import Curve
from device_model.profile import load
from tests.bench.measure import interleaved, show

H200 = load("h200")
DEVICE = replace(
    H200,
    host=replace(
        H200.host,
        **{name: 0 if isinstance(cost, int) else Curve([(0, 0), (1, 0)]) for name, cost in vars(H200.host).items()},
    ),
    cores=replace(H200.cores, resident_kernels=4096),
)
SYNCS = 10_000
RUNS = 5


@acl_py.kernel(cost=acl_py.Cost(us=10))
def tick() -> None:
    pass


def _staggered(index):
    # All different, and no two add up to the same after a few rounds.
    return acl_py.kernel(tick.function, cost=acl_py.Cost(us=1000 + index * 1.009))


async def _waits(tasks, parked, kernels):
    """Tasks that launch and sync in turn, beside others that wait for something else."""
    streams = [await acl_py.CreateStream() for _ in range(tasks)]
    idle = asyncio.Event()
    others = [asyncio.create_task(idle.wait()) for _ in range(parked)]
    await asyncio.sleep(0)
    rounds = -(-SYNCS // tasks)

    async def worker(stream, kernel):
        for _ in range(rounds):
            await acl_py.LaunchKernel(kernel, 1, (), stream)
            await acl_py.SynchronizeStream(stream)

    if tasks == 1:
        begin = perf_counter()
        await worker(streams[0], kernels[0])
    else:
        workers = [asyncio.create_task(worker(*each)) for each in zip(streams, kernels, strict=True)]
        begin = perf_counter()
        await asyncio.gather(*workers)
    seconds = perf_counter() - begin
    idle.set()
    await asyncio.gather(*others)
    return seconds / (rounds * tasks) * 1e6


async def _awaits():
    """The same as one task alone, with `await op` for the sync."""
    stream = await acl_py.CreateStream()
    begin = perf_counter()
    for _ in range(SYNCS):
        await (await acl_py.LaunchKernel(tick, 1, (), stream))
    return (perf_counter() - begin) / SYNCS * 1e6


async def _launches():
    stream = await acl_py.CreateStream()
    begin = perf_counter()
    for _ in range(SYNCS // 500):
        for _ in range(500):
            await acl_py.LaunchKernel(tick, 1, (), stream)
        await acl_py.SynchronizeStream(stream)
    return (perf_counter() - begin) / SYNCS * 1e6


async def _bare():
    loop = asyncio.get_running_loop()
    begin = perf_counter()
    for _ in range(SYNCS):
        future = loop.create_future()
        loop.call_soon(future.set_result, None)
        await future
    return (perf_counter() - begin) / SYNCS * 1e6


BARE, LAUNCH = "a future: create, set, wake", "launch alone"
# Behind each program what its wait took in the prototype of the bridge, in wake-ups of a bare future: asyncio, uvloop.
PROGRAMS = {
    BARE: ((_bare,), None),
    LAUNCH: ((_launches,), None),
    "1 task, alone": ((_waits, 1, 0, [tick]), (0.5, 1.1)),
    "1 task, alone, await op": ((_awaits,), None),
    "1 task, 1 parked: through the loop": ((_waits, 1, 1, [tick]), (2.5, 3.8)),
    "2 tasks": ((_waits, 2, 0, [_staggered(i) for i in range(2)]), (2.5, 3.9)),
    "10 staggered": ((_waits, 10, 0, [_staggered(i) for i in range(10)]), (2.6, 4.0)),
    "10 in step": ((_waits, 10, 0, [tick] * 10), (1.9, 3.0)),
    "1000 staggered": ((_waits, 1000, 0, [_staggered(i) for i in range(1000)]), (3.6, 5.6)),
    "1000 in step": ((_waits, 1000, 0, [tick] * 1000), (2.6, 4.4)),
    "1 task, 999 parked": ((_waits, 1, 999, [tick]), (2.6, 4.2)),
}
LOOPS = {"asyncio": None, "uvloop": uvloop.new_event_loop}


def _run(loop, program, *args):
    async def main():
        async with acl_py.simulate(device=DEVICE, trace=False, workers=1):
            return await program(*args)

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        return runner.run(main())


def main():
    configurations = {(name, loop): (loop, *program) for name, (program, _) in PROGRAMS.items() for loop in LOOPS}
    results = interleaved(configurations, RUNS, _run)
    us = {key: median(runs) for key, runs in results.items()}

    def in_wakes(name, loop, prototype):
        wakes = (us[name, loop] - us[LAUNCH, loop]) / us[BARE, loop]
        return f"{wakes:.1f} ({prototype})"

    rows = []
    for name, (_, prototypes) in PROGRAMS.items():
        wakes = [in_wakes(name, *pair) for pair in zip(LOOPS, prototypes, strict=True)] if prototypes else ["", ""]
        rows.append((name, *(f"{us[name, loop]:.1f}" for loop in LOOPS), *wakes))
    show(
        f"Waits: us per launch and sync, {RUNS} runs in turn; a wait in wake-ups of a bare future (the prototype's)",
        ("program", *(f"us, {loop}" for loop in LOOPS), *(f"wake-ups, {loop}" for loop in LOOPS)),
        rows,
    )
