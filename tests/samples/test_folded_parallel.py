"""The programs of samples/parallel with a task for each rank, in full and folded: equal timelines, to the ns."""

from collections import defaultdict
from dataclasses import replace
from functools import cache

import data_parallel
import experts
import numpy as np
import pipeline
import pytest
import tensor_parallel
from schedules import SCHEDULES, needs

import acl_py as acl
from device_model.profile import load

SIZES = [8, pytest.param(64, marks=pytest.mark.slow)]
MICROS = 8


def timelines(count, program, **options):
    """By rank the operations of its device and its calls, with their times; and how many ranks have run."""

    async def main():
        comms, ran = await acl.CommInitAll(count), []
        rank = await program(count, comms)

        async def run(number):
            ran.append(number)
            await rank(number)

        await acl.ranks(count, run, **options)
        return acl.current_simulation().trace.timeline(), ran

    card = replace(load("h200"), devices=count)
    timeline, ran = acl.run(main, device=card, values=False)
    done = defaultdict(list)
    for op in timeline.ops:
        done[op.device].append((op.end_ns, op.start_ns, op.queued_ns, op.name, op.bytes))
    for call in timeline.calls:
        if call.caller.startswith("task 'rank "):
            number = int(call.caller.removeprefix("task 'rank ").rstrip("'").split()[0])
            done[number].append((call.exit_ns, call.enter_ns, -1, call.name, -1))
    return done, ran


def check(count, program, alike):
    """Compare the program in full with the folded one."""
    full, ran = timelines(count, program, own_hosts=True)
    assert len(ran) == count
    folded, ran = timelines(count, program, fold=True, alike=alike)
    assert len(ran) <= count // 4
    first = {alike(rank): rank for rank in reversed(range(count))}
    assert sorted(ran) == sorted(first.values())
    for rank in range(count):
        assert len(full[rank]) > 20
        assert sorted(full[rank]) == sorted(folded[first[alike(rank)]]), rank


def one_kind(_):
    return 0


@pytest.mark.parametrize("count", SIZES)
def test_data_parallel(count, monkeypatch):
    monkeypatch.setattr(data_parallel, "RANKS", count)
    monkeypatch.setattr(data_parallel, "inputs", cache(data_parallel.inputs))

    async def program(_, comms):
        async def rank(number):
            card = data_parallel.Card(number, comms[number])
            await card.set_up()
            for layer in reversed(range(data_parallel.LAYERS)):
                await card.backward(layer)
                if layer % 2 == 0:
                    await card.sum_bucket(slice(layer, layer + 2))
            await acl.SynchronizeStream(card.reduce)
            await card.result()

        return rank

    check(count, program, one_kind)


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("is_scattered", [False, True])
def test_tensor_parallel(count, is_scattered, monkeypatch):
    monkeypatch.setattr(tensor_parallel, "RANKS", count)
    monkeypatch.setattr(tensor_parallel, "weights", cache(tensor_parallel.weights))
    monkeypatch.setattr(tensor_parallel, "tokens", cache(tensor_parallel.tokens))

    async def program(_, comms):
        async def rank(number):
            card = tensor_parallel.Card(number, comms[number])
            await card.set_up()
            for kernel in ("attention", "mlp"):
                for rows in (slice(0, 512), slice(512, 1024)):
                    await card.share_of(kernel, rows)
                    await (card.scatter if is_scattered else card.reduce)(rows)
            await acl.SynchronizeStream(card.talk)

        return rank

    check(count, program, one_kind)


@pytest.mark.parametrize("count", SIZES)
def test_experts_that_get_equally_many_tokens(count, monkeypatch):
    monkeypatch.setattr(experts, "RANKS", count)
    monkeypatch.setattr(experts, "EXPERTS", 2 * count)
    whole = np.zeros((experts.TOKENS, experts.WIDTH), np.float32)
    monkeypatch.setattr(experts, "tokens", lambda _: (whole, np.arange(experts.TOKENS) % (2 * count)))

    async def program(_, comms):
        parts = [experts.Part(slice(0, 256)), experts.Part(slice(256, 512))]

        async def rank(number):
            card = experts.Card(number, comms[number], experts.LOCAL)
            await card.set_up(parts)
            for step in (experts.Card.dispatch, experts.Card.compute, experts.Card.give_back):
                for place, part in enumerate(parts):
                    await step(card, place, part)
            await acl.SynchronizeStream(card.travel)

        return rank

    check(count, program, one_kind)


class Stages:
    """A pipeline with *schedule*, of which each stage has *width* ranks, which send with messages of their own."""

    def __init__(self, schedule, stages, width):
        self.schedule, self.stages, self.width = schedule, stages, width
        self.order = schedule.order(stages, MICROS)
        self.last = stages * schedule.chunks - 1
        self.stage_of = {
            pipeline._result(part): stage for stage, tasks in enumerate(self.order) for task in tasks for part in task
        }
        self.kernels = {
            pipeline._kinds(task): pipeline.kernel_of(task, schedule.chunks) for tasks in self.order for task in tasks
        }

    async def program(self, count, _):
        """Make communicators for each way and direction, so that no message waits for one of another direction."""
        self.comms = {(kind, way): await acl.CommInitAll(count) for kind in "FB" for way in (0, 1)}
        return self.rank

    async def rank(self, number):
        stage, place = divmod(number, self.width)
        compute, buffer = await acl.CreateStream(), await acl.Malloc(pipeline.NBYTES)
        streams = {way: await acl.CreateStream() for way in self.comms}
        for task in self.order[stage]:
            for part in task:
                for need in needs(part, self.last):
                    if self.stage_of[need] != stage:
                        await self.message(acl.Recv, need, self.stage_of[need], number, place, streams, buffer)
                        await self.behind(streams[need.kind, need.way], compute)
            await acl.LaunchKernel(self.kernels[pipeline._kinds(task)], 1, (), compute)
            for part in map(pipeline._result, task):
                target = self.target(part)
                if part.kind != "W" and target not in (None, stage):
                    await self.behind(compute, streams[part.kind, part.way])
                    await self.message(acl.Send, part, target, number, place, streams, buffer)
        await acl.SynchronizeDevice()

    async def message(self, verb, part, stage, number, place, streams, buffer):
        way = part.kind, part.way
        peer = stage * self.width + place
        await verb(buffer, pipeline.NBYTES, "int8", peer, self.comms[way][number], streams[way])

    async def behind(self, earlier, later):
        event = await acl.CreateEvent()
        await acl.RecordEvent(event, earlier)
        await acl.StreamWaitEvent(later, event)

    def target(self, part):
        """The stage that needs the result of *part*; None if there is none."""
        stage = part.stage + {"F": 1, "B": -1, "W": 0}[part.kind]
        return self.stage_of.get(part._replace(stage=stage)) if 0 <= stage <= self.last else None


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda each: each.name)
def test_a_pipeline_of_which_each_stage_has_several_ranks(schedule, count):
    stages = count // 16 or 2  # at most a quarter of the ranks
    run = Stages(schedule, stages, count // stages)
    assert schedule.allows(stages, MICROS)
    check(count, run.program, lambda rank: rank // run.width)
