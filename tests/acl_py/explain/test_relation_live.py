"""Random programs whose tasks hand one another what they know: the live relation and that of the recording agree.

Nothing in a program blocks but the calls themselves: a task takes from queues, events and futures what is there. So no
program hangs, whatever its tasks do.
"""

import asyncio
from dataclasses import replace
from itertools import combinations
from random import Random

import pytest
from histories import busy

import acl_py as acl
from acl_py.causes.relation import Relation
from acl_py.sanitizer.shadow import Use
from acl_py.trace import read_trace
from device_model.observe import Observer
from tests.campaigns import many

STEPS = 14  # of each task


class Ops(Observer):
    """The operations of a program, by their names."""

    def __init__(self):
        self.by_name = {}

    def op_queued(self, op):
        self.by_name[op.work.label.name] = op


class Author:
    """Does the random steps of all tasks of one program."""

    def __init__(self, seed):
        self.rng, self.made = Random(seed), 0
        self.ops, self.children = [], []

    async def run(self):
        self.streams = [await acl.CreateStream() for _ in range(3)]
        self.events = [await acl.CreateEvent() for _ in range(2)]
        self.flags, self.lock = [asyncio.Event() for _ in range(2)], asyncio.Lock()
        self.queue, self.futures = asyncio.Queue(), []
        self.semaphore = asyncio.Semaphore(2)
        tasks = [asyncio.create_task(self.task(), name=f"t{self.rng.randrange(2)}") for _ in range(3)]
        await asyncio.gather(*tasks)
        await asyncio.gather(*self.children)
        await self.launch()
        await acl.SynchronizeDevice()

    async def task(self, steps=STEPS):
        makers = [
            self.launch, self.launch, self.launch, self.synchronise, self.record, self.wait, self.await_op, self.put,
            self.get, self.set, self.look, self.hold, self.share, self.resolve, self.find, self.call_back, self.spawn,
            self.rest, self.call_from_device,
        ]  # fmt: skip
        for _ in range(steps):
            await self.rng.choice(makers)()

    async def launch(self):
        self.made += 1
        kernel = busy(f"k{self.made}", self.rng.choice((1, 20)))
        self.ops.append(await kernel[1, self.rng.choice(self.streams)]())

    async def synchronise(self):
        match self.rng.randrange(3):
            case 0:
                await acl.SynchronizeStream(self.rng.choice(self.streams))
            case 1:
                await acl.SynchronizeEvent(self.rng.choice(self.events))
            case 2:
                await acl.SynchronizeDevice()

    async def record(self):
        await acl.RecordEvent(self.rng.choice(self.events), self.rng.choice(self.streams))

    async def wait(self):
        await acl.StreamWaitEvent(self.rng.choice(self.streams), self.rng.choice(self.events))

    async def await_op(self):
        if self.ops:
            await self.rng.choice(self.ops)

    async def put(self):
        self.queue.put_nowait(object())

    async def get(self):
        if not self.queue.empty():
            self.queue.get_nowait()

    async def set(self):
        self.rng.choice(self.flags).set()

    async def look(self):
        self.rng.choice(self.flags).is_set()

    async def hold(self):
        async with self.lock:
            await self.rest()

    async def share(self):
        async with self.semaphore:
            await self.launch()

    async def resolve(self):
        future = asyncio.get_running_loop().create_future()
        self.futures.append(future)
        future.set_result(None)

    async def find(self):
        if self.futures:
            await self.rng.choice(self.futures)

    async def call_back(self):
        asyncio.get_running_loop().call_soon(self.rng.choice(self.flags).set)

    async def spawn(self):
        if len(self.children) < 3:
            self.children.append(asyncio.create_task(self.task(4)))

    async def rest(self):
        await asyncio.sleep(self.rng.choice((0, 0, 1e-5)))

    async def call_from_device(self):
        loop, flag = asyncio.get_running_loop(), self.rng.choice(self.flags)
        await acl.LaunchHostFunc(self.rng.choice(self.streams), lambda: loop.call_soon_threadsafe(flag.set))


def recorded(author, path):
    """The recording of the program of *author*, which is also saved, and which pairs of kernels a promise orders."""
    ops = Ops()

    async def main():
        sim = acl.current_simulation()
        sim.observe(ops)
        await author.run()
        sim.trace.save(path)
        races = sim.runtime.sanitizer.races
        uses = {name: Use._make(op.stamp) for name, op in ops.by_name.items()}
        promised = {
            (one, other): races.is_promised(uses[one], uses[other])
            for one, other in combinations([name for name in uses if name.startswith("k")], 2)  # as they were queued
        }
        return sim.trace.timeline(), promised

    return acl.run(main, device="tiny", sanitize="device", workers=1)


def compared(seed, path):
    """The pairs of kernels that differ between the recording and the live relation, and the number of those in order
    and of all.
    """
    timeline, promised = recorded(Author(seed), path)
    relation, read = Relation(timeline), Relation(read_trace(path))
    places = {op.name: place for place, op in enumerate(timeline.ops)}
    differ = []
    for (one, other), is_promised in promised.items():
        first, second = places[one], places[other]
        answers = {each.is_before(first, second) for each in (relation, read)}
        if answers != {is_promised} or relation.is_before(second, first):
            differ.append((one, other, is_promised))
    return differ, sum(promised.values()), len(promised)


@pytest.mark.parametrize("seeds", [range(15), pytest.param(range(15, 15 + many(335)), marks=pytest.mark.slow)])
def test_the_relation_of_a_recording_is_the_live_one(seeds, tmp_path):
    """Also if it comes from a file. Tasks may have one name: they are told apart."""
    in_order, pairs = 0, 0
    for seed in seeds:
        differ, ordered, all_of = compared(seed, tmp_path / "run.acl")
        assert differ == [], seed
        in_order, pairs = in_order + ordered, pairs + all_of
    assert 0.3 * pairs < in_order < 0.7 * pairs


def test_without_its_handovers_a_recording_knows_less(tmp_path):
    timeline = recorded(Author(16), tmp_path / "run.acl")[0]
    known, unknown = (
        {(one, other) for one, other in combinations(range(len(timeline.ops)), 2) if relation.is_before(one, other)}
        for relation in (Relation(timeline), Relation(replace(timeline, handovers=[])))
    )
    assert unknown < known
