"""The critical path of real runs: it has no holes, its parts lie in their rows, and its causes are the right ones."""

import asyncio
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from histories import D2H, H2D, busy

import acl_py
from acl_py.causes.path import Cause, critical_path, makespan_ns
from acl_py.causes.slack import slacks

SIZE = 100_000
kernel = busy("kernel", 50)


def timeline_of(program, *args, **options):
    async def main():
        await program(*args)
        return acl_py.current_simulation().trace.timeline()

    return acl_py.run(main, **{"device": "tiny", "workers": 1} | options)


def check(timeline):
    parts = critical_path(timeline)
    assert sum(part.ns for part in parts) == makespan_ns(timeline)
    assert all(one.end_ns == two.begin_ns for one, two in pairwise(parts))
    for part in parts:
        if part.cause is Cause.WORK:
            op = timeline.ops[part.op]
            assert op.start_ns <= part.begin_ns < part.end_ns <= op.end_ns
        if part.call is not None:
            call = timeline.calls[part.call]
            assert call.enter_ns <= part.begin_ns < part.end_ns <= call.exit_ns
    slack = slacks(timeline, parts)
    assert min(slack, default=0) >= 0
    assert all(slack[part.op] == 0 for part in parts if part.cause is Cause.WORK)
    return parts


async def at_random(seed):
    """Tasks that copy, launch, record, wait, synchronise and sleep in several streams."""
    random = Random(seed)
    streams = [await acl_py.CreateStream(nonblocking=random.random() < 0.5) for _ in range(3)] + [None]
    events = [await acl_py.CreateEvent() for _ in range(2)]
    pinned, array = await acl_py.MallocHost(SIZE), np.zeros(SIZE, np.uint8)
    device = await acl_py.Malloc(SIZE)

    async def one_call():
        stream, event, host = random.choice(streams), random.choice(events), random.choice((pinned, array))
        size = random.randrange(1, SIZE)
        match random.randrange(10):
            case 0 | 1:
                await acl_py.MemcpyAsync(device, size, host, size, H2D, stream)
            case 2:
                await acl_py.MemcpyAsync(host, size, device, size, D2H, stream)
            case 3 | 4:
                await kernel[random.randrange(1, 9), stream]()
            case 5:
                await acl_py.RecordEvent(event, stream)
            case 6:
                await acl_py.StreamWaitEvent(stream, event)
            case 7:
                await acl_py.SynchronizeStream(stream)
            case 8:
                await asyncio.sleep(random.randrange(100) / 1e6)
            case 9:
                await acl_py.HostWork(random.randrange(100))

    async def task():
        for _ in range(30):
            await one_call()

    await asyncio.gather(*(task() for _ in range(random.randrange(1, 4))))
    if random.random() < 0.7:
        await acl_py.SynchronizeDevice()


@pytest.mark.one_in(5)
@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed):
    check(timeline_of(at_random, seed, device="tiny" if seed % 2 else "h200"))


def test_a_run_whose_work_has_not_ended():
    async def program():
        await kernel[1]()

    check(timeline_of(program))


def test_tasks_and_their_one_host():
    """The second task works while the first one waits; the last to return is what the run took."""

    async def waits():
        stream = await acl_py.CreateStream()
        await kernel[1, stream]()
        await acl_py.SynchronizeStream(stream)

    async def works():
        await acl_py.HostWork(200)

    async def program():
        await asyncio.gather(waits(), works())

    timeline = timeline_of(program)
    causes = [(part.cause, timeline.calls[part.call].name) for part in check(timeline)]
    assert causes[-2:] == [(Cause.CALL, "HostWork"), (Cause.CALL, "SynchronizeStream")]


def test_a_pageable_copy_behind_a_kernel_leads_to_the_kernel():
    async def program():
        stream, array = await acl_py.CreateStream(), np.zeros(SIZE, np.uint8)
        device = await acl_py.Malloc(SIZE)
        await kernel[1, stream]()
        await acl_py.MemcpyAsync(array, SIZE, device, SIZE, D2H, stream)

    timeline = timeline_of(program, device="h200")
    assert "kernel" in {timeline.ops[part.op].name for part in check(timeline) if part.cause is Cause.WORK}
