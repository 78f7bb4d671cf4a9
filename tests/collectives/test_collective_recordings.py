"""Recordings of ranks replay to the same history, and answer what-if."""

import numpy as np
import pytest

import acl_py as acl
from acl_py import recorded
from acl_py.calls.acts import Made
from acl_py.calls.steps import Name
from acl_py.explain.cases import EditError
from acl_py.explain.edits import apply, parse_all
from acl_py.explain.edits import parse as parse_edit
from acl_py.explain.recordings import case_of
from acl_py.explain.whatif import Asker
from acl_py.programs.format import ProgramError, parse
from acl_py.programs.replay import replay
from tests.collectives import matcher, programs
from tests.conformance.roundtrips import differences, document_of

RIGHT = [seed for seed in range(60) if not matcher.hangs(programs.random_program(seed))]


def timeline_of(main, **options):
    async def whole():
        await main()
        return acl.current_simulation().trace.timeline()

    return acl.run(whole, **{"device": "h200", "rules": "cuda", "workers": 1} | options)


@pytest.mark.parametrize("seed", RIGHT[:12])
def test_a_random_program_of_ranks_replays_to_the_nanosecond(seed):
    timeline = programs.in_one_task(programs.random_program(seed), seed, timeline_of)
    assert differences(timeline) == []
    assert recorded.notes_of(timeline) == []


@pytest.mark.parametrize("seed", RIGHT[:12])
def test_ranks_in_tasks_replay_to_the_nanosecond(seed):
    """Their last waits may end in another order, because all tasks are awaited at one instant."""
    timeline = programs.in_tasks(programs.random_program(seed), seed, timeline_of)
    assert [row for row in differences(timeline) if row.startswith("operation")] == []


async def joined():
    """Four ranks join with root info and take part in captured collectives; a second communicator is of two."""
    infos = [await acl.GetRootInfo(), await acl.GetRootInfo()]

    async def rank(number):
        comm = await acl.CommInitRootInfo(4, infos[0], number, name="all")
        pair = await acl.CommInitRootInfo(2, infos[1], number % 2) if number < 2 else None
        stream, buffer = await acl.CreateStream(), await acl.Malloc(4096)
        await acl.MemsetAsync(buffer, 4096, 1, 4096, stream)
        array = acl.Array(buffer, np.float32)
        await acl.BeginCapture(stream)
        await acl.AllReduce(array, array, None, None, acl.ReduceOp.SUM, comm, stream)
        executable = await acl.GraphInstantiate(await acl.EndCapture(stream))
        for _ in range(2):
            await acl.GraphLaunch(executable, stream)
        if pair is not None:
            await acl.AlltoAllV(array[:512], [64, 64], None, None, array[512:], [64, 64], None, None, pair, stream)
            await acl.Broadcast(array, None, None, 1, pair)
        await acl.SynchronizeDevice()
        await acl.CommDestroy(comm)

    await acl.ranks(4, rank)


def test_ranks_that_join_and_captured_collectives_replay_to_the_nanosecond():
    timeline = timeline_of(joined)
    assert differences(timeline) == []
    assert recorded.notes_of(timeline) == []


async def batches():
    """Under ACL's rules: a ring of BatchSendRecv, and a Barrier."""
    comms = await acl.CommInitAll(3)
    for device, comm in enumerate(comms):
        await acl.SetDevice(device)
        buffer = await acl.Malloc(64)
        there, back = (device + 1) % 3, (device - 1) % 3
        items = [
            (acl.CollectiveKind.SEND, buffer, 8, "int32", there),
            (acl.CollectiveKind.RECV, buffer[32:], 8, "int32", back),
        ]
        await acl.BatchSendRecv(items, comm)
        await acl.Barrier(comm)
    for device in range(3):
        await acl.SetDevice(device)
        await acl.SynchronizeDevice()


def test_batches_of_sends_and_a_barrier_replay_to_the_nanosecond():
    timeline = timeline_of(batches, device="ascend910b3", rules="acl")
    assert differences(timeline) == []
    steps = [step for step in document_of(timeline)["steps"] if step["op"] == "collective"]
    assert [step.get("name", "") for step in steps] == ["BatchSendRecv", ""] * 3


def test_the_results_of_a_replay_are_those_of_its_calls():
    """The program reduces what its fills have written."""

    async def main():
        comms = await acl.CommInitAll(2)
        for device, comm in enumerate(comms):
            await acl.SetDevice(device)
            buffer, host = await acl.Malloc(4), await acl.MallocHost(4)
            await acl.Memset(buffer, 4, device + 1, 4)
            await acl.AllReduce(buffer, buffer, 1, "int32", acl.ReduceOp.SUM, comm)
            await acl.MemcpyAsync(host, 4, buffer, 4, acl.MemcpyKind.DEVICE_TO_HOST)
        for device in (0, 1):
            await acl.SetDevice(device)
            await acl.SynchronizeDevice()

    document = document_of(timeline_of(main))
    hosts = [step["name"] for step in document["steps"] if step["op"] == "malloc_host"]
    document["steps"] += [{"op": "host_read", "buf": name} for name in hosts]
    run = replay(parse(document), device="h200", rules="cuda")
    assert [call.extra for call in run.host if call.step >= len(document["steps"]) - 2] == [0x03030303] * 2


@acl.kernel(cost=acl.Cost(us=500))
def late():
    pass


async def skewed():
    """Two ranks, of which one does a kernel before 4 MiB are reduced."""
    for device, comm in enumerate(await acl.CommInitAll(2)):
        await acl.SetDevice(device)
        buffer = await acl.Malloc(4 << 20)
        if device:
            await late[1]()
        await acl.AllReduce(buffer, buffer, 1 << 20, "float32", acl.ReduceOp.SUM, comm)
    for device in (0, 1):
        await acl.SetDevice(device)
        await acl.SynchronizeDevice()


@pytest.mark.parametrize(
    ("edit", "least", "most"),
    [("kernel:late=0.5x", 240_000, 250_000), ("links=2x", 1, 20_000), ("links=0.5x", -30_000, -5_000)],
)
def test_what_if_knows_ranks(edit, least, most):
    answer = Asker(case_of(timeline_of(skewed), "run")).ask(parse_all(edit))
    assert least <= answer.gain_ns <= most


def test_collectives_go_with_the_default_stream_and_keep_their_order():
    asker = Asker(case_of(timeline_of(skewed), "run"))
    case = apply(parse_edit("per-thread"), asker.case)
    assert [step.fields["calls"][0]["stream"] for step in case.program.steps if step.op == "collective"] == [
        "per_thread"
    ] * 2
    with pytest.raises(EditError, match=r"collective.* needs its own stream"):
        asker.ask(parse_all("streams=2"))


CALL = {"kind": "Barrier", "comm": "c", "stream": "legacy"}
BARRIER = {"op": "collective"}
COMM = {"op": "comm_init", "comms": ["c", "d"], "devices": [0, 1]}


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        ([{"op": "comm_init", "comms": [], "devices": [0]}], "comms: must be a list of names, one for each rank"),
        ([{"op": "comm_destroy", "comm": "c"}], "comm: there is no communicator 'c'"),
        ([COMM, BARRIER | {"calls": [{**CALL, "stream": "s"}]}], "calls: there is no stream 's'; there are"),
        ([COMM, BARRIER | {"calls": [{**CALL, "comm": "e"}]}], "calls: there is no communicator 'e'; there are"),
        (
            [COMM, BARRIER | {"calls": [{**CALL, "reads": [["b", 0, 1]]}]}],
            "there is no buffer 'b'",
        ),
        ([COMM, BARRIER | {"calls": [{**CALL, "kind": "Gather"}]}], "calls: must be a list of objects"),
        ([COMM, {"op": "collective", "calls": [{"kind": "Barrier", "comm": "c"}]}], "calls: must be a list of objects"),
    ],
)
def test_a_wrong_step_is_refused(steps, problem):
    with pytest.raises(ProgramError) as error:
        parse({"id": "p", "steps": steps})
    assert problem in str(error.value)


def test_a_step_that_makes_communicators_says_that_it_makes_each_of_them():
    [step] = parse({"id": "p", "steps": [COMM]}).steps
    assert step.act == Made(None, Name("communicator", "c"), (Name("communicator", "d"),))
