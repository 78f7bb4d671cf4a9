"""Random programs: their recordings replay to the same times, and explanations of them add up.

The programs have tasks with a queue between them, sleeps, copies of all kinds, kernels, fills, events and
synchronisations, under all rules.
"""

import asyncio
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from histories import D2D, D2H, H2D, busy
from test_path_of_runs import check, timeline_of

import acl_py
from acl_py.causes.findings import findings
from acl_py.causes.lines import by_line
from acl_py.causes.path import critical_path
from acl_py.explain.prices import prices
from acl_py.explain.recordings import asker_of
from acl_py.trace.rows.columns import op_columns
from tests.conformance.roundtrips import differences

SIZE = 200_000
CARDS = (("h200", "cuda"), ("tiny", "cuda"), ("h200", "cuda_per_thread"), ("ascend910b3", "acl"), ("tiny", "acl"))
MISTAKES = (53, 56, 71, 100, 108, 110, 111, 131, 141, 271, 496)  # these programs have shown mistakes
SHORT, LONG = busy("short", 5), busy("long", 70)


class Host:
    """What the tasks of one program share."""

    def __init__(self, random):
        self.random = random
        self.recorded = []
        self.queue = asyncio.Queue(2)

    async def set_up(self):
        random = self.random
        self.streams = [await acl_py.CreateStream(nonblocking=random.random() < 0.5) for _ in range(3)]
        self.streams += [None] * (random.random() < 0.5)
        self.events = [await acl_py.CreateEvent() for _ in range(3)]
        self.hosts = [await acl_py.MallocHost(SIZE), np.zeros(SIZE, np.uint8)]
        self.devices = [await acl_py.Malloc(SIZE) for _ in range(2)]

    async def call(self):
        random = self.random
        stream, event = random.choice(self.streams), random.choice(self.events)
        host, device, size = random.choice(self.hosts), random.choice(self.devices), random.randrange(1, SIZE)
        match random.randrange(16):
            case 0 | 1:
                await acl_py.MemcpyAsync(device, size, host, size, H2D, stream)
            case 2:
                await acl_py.MemcpyAsync(host, size, device, size, D2H, stream)
            case 3:
                await acl_py.MemcpyAsync(self.devices[0], size, self.devices[1], size, D2D, stream)
            case 4:
                await acl_py.Memcpy(device, size, host, size, H2D)
            case 5:
                await acl_py.MemsetAsync(device, size, 0, size, stream)
            case 6 | 7:
                await SHORT[random.randrange(1, 9), stream]()
            case 8:
                await LONG[random.randrange(1, 9), stream]()
            case 9 | 10:
                await acl_py.RecordEvent(event, stream)
                self.recorded.append(event)
            case 11 | 12 if self.recorded:
                await acl_py.StreamWaitEvent(stream, random.choice(self.recorded))
            case 13:
                await acl_py.SynchronizeStream(stream)
            case 14 if self.recorded:
                await acl_py.SynchronizeEvent(random.choice(self.recorded))
            case _:
                await acl_py.HostWork(random.randrange(1, 60))


async def at_random(seed):
    random = Random(seed)
    host = Host(random)
    await host.set_up()

    async def produce():
        for _ in range(8):
            await host.call()
            await host.queue.put(host.call)
        await host.queue.put(None)

    async def consume():
        while (call := await host.queue.get()) is not None:
            await call()

    async def by_the_clock():
        for _ in range(6):
            await asyncio.sleep(random.randrange(1, 200) / 1e6)
            await host.call()

    tasks = random.choice([[host.call] * 4, [produce, consume], [by_the_clock] * 2, [produce, consume, by_the_clock]])
    if len(tasks) == 4:
        for _ in range(24):
            await host.call()
    else:
        await asyncio.gather(*(task() for task in tasks))
    await acl_py.SynchronizeDevice()


def recording(seed):
    device, rules = CARDS[seed % len(CARDS)]
    return timeline_of(at_random, seed, device=device, rules=rules)


def check_all(seed):
    timeline = recording(seed)
    assert differences(timeline) == []
    check(timeline)
    prices(asker_of(timeline, "random"), timeline)


@pytest.mark.parametrize("seed", range(10))
def test_rows_are_explained_as_their_columns_are(seed):
    timeline = recording(seed)
    rows = replace(timeline, ops=list(timeline.ops), calls=list(timeline.calls), steps=list(timeline.steps))
    path = critical_path(timeline)
    assert critical_path(rows) == path
    assert by_line(rows, path) == by_line(timeline, path)
    assert findings(rows) == findings(timeline)
    columns = op_columns(timeline.ops)
    assert [columns.callers[caller] for caller in columns.caller] == [op.caller for op in rows.ops]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", MISTAKES)
def test_random_programs_that_have_shown_mistakes(seed):
    check_all(seed)


@pytest.mark.one_in(100)
@pytest.mark.parametrize("seed", [seed for seed in range(250) if seed not in MISTAKES])
def test_random_programs(seed):
    check_all(seed)
