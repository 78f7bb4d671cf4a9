"""What-if bucket=25MB: all-reduces that become one, or several, and what must stay in order."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

import acl_py as acl
from acl_py.explain.cases import EditError
from acl_py.explain.edits import parse
from acl_py.explain.recordings import asker_of

SAMPLE = Path(__file__).parents[3] / "samples/parallel/data_parallel.py"
MIB = 1 << 20


@acl.kernel(cost=acl.Cost(us=100.0))
def backward(gradient: acl.Out) -> None:
    """The kernel that writes a gradient."""


def run(main, device="h200"):
    """The asker of the program `main(rank)`, for two ranks in one task: first all of one, then all of the other."""

    async def program():
        for device_, comm in enumerate(await acl.CommInitAll(2)):
            await acl.SetDevice(device_)
            await main(Rank(comm, await acl.CreateStream(), await acl.CreateStream()))
        for device_ in range(2):
            await acl.SetDevice(device_)
            await acl.SynchronizeDevice()
        return acl.current_simulation().trace.timeline()

    return asker_of(acl.run(program, device=device), "run")


class Rank:
    """A rank with a stream for its kernels and one for its all-reduces."""

    def __init__(self, comm, compute, reduce):
        self.comm, self.compute, self.reduce = comm, compute, reduce

    async def step(self, *gradients):
        """Compute each of *gradients*, and reduce it behind its kernel."""
        for gradient in gradients:
            await self.write(gradient)
            await self.behind(self.compute, self.reduce)
            await self.sum(gradient)

    async def write(self, gradient):
        await backward[1, self.compute](gradient)

    async def behind(self, one, other):
        event = await acl.CreateEvent()
        await acl.RecordEvent(event, one)
        await acl.StreamWaitEvent(other, event)

    async def sum(self, gradient, op=acl.ReduceOp.SUM):
        await acl.AllReduce(gradient, gradient, None, None, op, self.comm, self.reduce)


async def neighbours(number, dtype=np.float32):
    """So many gradients of 1 MiB that lie one behind the other, and all of them as one."""
    whole = acl.Array(await acl.Malloc(number * MIB), dtype, (number, MIB // 4))
    return whole, [whole[place] for place in range(number)]


def sizes(case):
    """The bytes of the all-reduces of the first rank."""
    calls = [call for step in case.program.steps for call in step.fields.get("calls", ())]
    return [call["count"] * 4 for call in calls if call["comm"] == calls[0]["comm"]]


def asked(asker, edit):
    answer = asker.ask([parse(edit)])
    assert not answer.conflicts
    return answer


@pytest.fixture(scope="module")
def trained():
    """A function that gives the asker of a run of the sample with so many layers in a bucket."""
    spec = spec_from_file_location("data_parallel", SAMPLE)
    sample = module_from_spec(spec)
    spec.loader.exec_module(sample)
    known = {}

    async def main(layers):
        await sample.train(layers)
        return acl.current_simulation().trace.timeline()

    def asker(layers):
        if layers not in known:
            known[layers] = asker_of(acl.run(main, layers, device="h200"), "run")
        return known[layers]

    return asker


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "edit", "after", "differ_ns"),
    [
        (1, "bucket=8.4MB", 2, 0),
        (1, "bucket=17MB", 4, 0),
        (1, "bucket=25MB", None, 0),
        (1, "bucket=32MiB", 8, 0),
        (2, "bucket=17MB", 4, 0),
        (8, "bucket=8.4MB", 2, 0),
        # The sample makes an event for each bucket; the edit does not say what the events of its parts cost to make.
        (8, "bucket=4.2MB", 1, -6_000),
        (2, "bucket=4MiB", 1, -6_000),
    ],
)
def test_the_answer_is_what_the_sample_takes_with_buckets_of_that_size(trained, before, edit, after, differ_ns):
    answer = asked(trained(before), edit)
    if after is None:
        assert sizes(answer.case) == [5 * 4 * MIB, 3 * 4 * MIB]
    else:
        assert sizes(answer.case) == [after * 4 * MIB] * (8 // after)
        assert answer.after_ns - trained(after).before_ns == differ_ns


def test_a_bucket_begins_where_its_last_gradient_is_ready():
    async def main(rank):
        _, gradients = await neighbours(3)
        await rank.step(*gradients)

    asker = run(main)
    answer = asked(asker, "bucket=2MiB")
    assert sizes(asker.case) == [MIB] * 3
    assert sizes(answer.case) == [2 * MIB, MIB]
    kernels = [op for op in answer.after.ops if op.name != "AllReduce" and op.device == 0]
    first, *_ = [op for op in answer.after.ops if op.name == "AllReduce" and op.device == 0]
    assert kernels[1].end_ns <= first.start_ns < kernels[2].end_ns


def test_gradients_that_do_not_lie_one_behind_the_other_are_copied():
    async def main(rank):
        _, gradients = await neighbours(3)
        await rank.step(gradients[0], gradients[2])

    answer = asked(run(main), "bucket=2MiB")
    kinds = [op.kind for op in answer.after.ops if op.device == 0 and op.kind != "kernel"]
    assert kinds == ["d2d", "d2d", "collective", "d2d", "d2d"]
    assert answer.notes[-1].startswith("gradients that do not lie one behind the other are copied")


def test_what_waits_for_an_event_between_two_of_them_keeps_them_apart():
    async def main(rank):
        _, (first, second) = await neighbours(2)
        await rank.step(first)
        await rank.behind(rank.reduce, rank.compute)
        await rank.write(first)
        await rank.step(second)

    with pytest.raises(EditError, match="no two follow each other that fit there together"):
        run(main).ask([parse("bucket=25MB")])


def test_a_record_that_is_awaited_later_moves_behind_the_bucket():
    async def main(rank):
        _, (first, second) = await neighbours(2)
        done = await acl.CreateEvent()
        await rank.step(first)
        await acl.RecordEvent(done, rank.reduce)
        await rank.step(second)
        await acl.StreamWaitEvent(rank.compute, done)
        await rank.write(first)

    answer = asked(run(main), "bucket=25MB")
    assert sizes(answer.case) == [2 * MIB]
    bucket, update = [op for op in answer.after.ops if op.device == 0][-2:]
    assert bucket.end_ns <= update.start_ns


async def scales(rank):
    _, (first, second) = await neighbours(2)
    await rank.step(first)
    await backward[1, rank.reduce](first)
    await rank.step(second)


async def of_other_types(rank):
    await rank.sum((await neighbours(1))[0])
    await rank.sum((await neighbours(1, np.int32))[0])


async def of_other_reductions(rank):
    _, (first, second) = await neighbours(2)
    await rank.sum(first)
    await rank.sum(second, op=acl.ReduceOp.MAX)


async def with_another_between(rank):
    _, (first, second) = await neighbours(2)
    await rank.sum(first)
    await acl.Barrier(rank.comm, rank.reduce)
    await rank.sum(second)


@pytest.mark.parametrize("main", [scales, of_other_types, of_other_reductions, with_another_between])
def test_what_is_not_consecutive_stays_apart(main):
    with pytest.raises(EditError, match=r"bucket=25MB: no AllReduce has more than 25,000,000 bytes, and no two follow"):
        run(main).ask([parse("bucket=25MB")])


def test_a_host_that_waits_between_keeps_them_apart():
    async def program():
        comms = await acl.CommInitAll(2)
        ranks = []
        for device, comm in enumerate(comms):
            await acl.SetDevice(device)
            ranks.append((Rank(comm, await acl.CreateStream(), await acl.CreateStream()), (await neighbours(2))[1]))
        for place in range(2):
            for rank, gradients in ranks:
                await rank.sum(gradients[place])
            for rank, _ in ranks:
                await acl.SynchronizeStream(rank.reduce)
        return acl.current_simulation().trace.timeline()

    with pytest.raises(EditError, match="no two follow each other"):
        asker_of(acl.run(program, device="h200"), "run").ask([parse("bucket=25MB")])


def test_a_large_one_begins_in_parts_behind_the_work_that_writes_them():
    async def main(rank):
        whole, gradients = await neighbours(4)
        for gradient in reversed(gradients):
            await rank.write(gradient)
        await rank.behind(rank.compute, rank.reduce)
        await rank.sum(whole)

    asker = run(main)
    answer = asked(asker, "bucket=2MiB")
    assert sizes(answer.case) == [2 * MIB] * 2
    kernels = [op.end_ns for op in answer.after.ops if op.kind == "kernel" and op.device == 1]
    first, second = [op for op in answer.after.ops if op.name == "AllReduce" and op.device == 1]
    assert kernels[1] <= first.start_ns < kernels[2]
    assert kernels[3] <= second.start_ns
    assert [[place // MIB for place in (op.reads[0].start, op.reads[0].stop)] for op in (first, second)] == [
        [2, 4],
        [0, 2],
    ]


@pytest.mark.parametrize("value", ["25", "MB", "0MB", "-1MB", "25mb", "1e3MB", "nanMB", "1.2.3MB", "9" * 400 + "GB"])
def test_what_is_no_size_is_refused(value):
    async def main(rank):
        _, gradients = await neighbours(2)
        await rank.step(*gradients)

    with pytest.raises(EditError, match=r"must be a size, such as 25MB; units are B, KB, MB, GB, KiB, MiB, GiB"):
        run(main).ask([parse(f"bucket={value}")])


def test_graphs_are_refused():
    async def main(rank):
        _, (first, second) = await neighbours(2)
        await acl.BeginCapture(rank.reduce)
        await rank.sum(first)
        await rank.sum(second)
        graph = await acl.EndCapture(rank.reduce)
        await acl.GraphLaunch(await acl.GraphInstantiate(graph), rank.reduce)

    with pytest.raises(EditError, match="captures graphs, and their nodes have an order of their own"):
        run(main).ask([parse("bucket=25MB")])
