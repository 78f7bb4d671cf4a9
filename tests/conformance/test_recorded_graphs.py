"""Recorded programs with captures: the replay captures the same graphs, and its launches run to the nanosecond."""

import asyncio
import contextlib
from random import Random

import numpy as np
import pytest
from roundtrips import differences, document_of

import acl_py as acl
from acl_py import asc
from acl_py.programs.format import ProgramError, parse
from acl_py.programs.replay import replay
from acl_py.trace.rows.files import read_trace, save
from acl_py.verbs.kernels import Cost, InOut, kernel

IN, OUT = acl.MemcpyKind.HOST_TO_DEVICE, acl.MemcpyKind.DEVICE_TO_HOST


@kernel(cost=Cost(us=60))
def square(x: InOut):
    np.multiply(x, x, out=x)


def recording(main, *args, **options):
    """The timeline of a run on the tiny device."""

    async def whole():
        await main(*args)
        return acl.current_simulation().trace.timeline()

    return acl.run(whole, **({"device": "tiny"} | options))


def steps_of(timeline, *ops):
    """The steps of the recorded program that are *ops*, without their lines."""
    steps = document_of(timeline)["steps"]
    return [{name: value for name, value in step.items() if name != "site"} for step in steps if step["op"] in ops]


def is_exact(timeline):
    return document_of(timeline)["notes"] == [] and differences(timeline) == []


def test_nodes_that_are_added_one_by_one_are_steps_of_a_stream_that_takes_them():
    async def main():
        stream, buffer = await acl.CreateStream(), await acl.Malloc(64)
        graph = await acl.GraphCreate()
        first = await acl.GraphAddNode(graph, lambda to: square[8, to](buffer))
        await acl.GraphAddNode(graph, lambda to: acl.MemsetAsync(buffer, 64, 1, 64, to), [first])
        await acl.GraphLaunch(await acl.GraphInstantiate(graph), stream)
        await acl.SynchronizeStream(stream)

    timeline = recording(main)
    begins = steps_of(timeline, "begin_capture_to")
    assert [(step["stream"], step.get("behind", [])) for step in begins] == [("nodes", []), ("nodes", [0])]
    assert is_exact(timeline)


def test_a_capture_and_its_launches_are_steps():
    async def main():
        stream, buffer = await acl.CreateStream(), await acl.Malloc(64)
        async with acl.capture(stream, acl.CaptureMode.RELAXED) as graph:
            await square[8, stream](buffer)
            await acl.LaunchHostFunc(stream, print, (), us=4)
        executable = await acl.GraphInstantiate(graph)
        await acl.GraphUpload(executable, stream)
        await (await acl.GraphLaunch(executable, stream))
        await acl.GraphExecDestroy(executable)
        await acl.GraphDestroy(graph)

    timeline = recording(main)
    assert steps_of(timeline, *document_ops(timeline))[2:] == [
        {"op": "begin_capture", "stream": "stream 1", "mode": 2, "graph": "graph 1"},
        {
            "op": "launch",
            "us": 60,
            "name": "square",
            "blocks": 8,
            "reads": [["allocation 1", 0, 64]],
            "writes": [["allocation 1", 0, 64]],
            "stream": "stream 1",
        },
        {"op": "host_func", "stream": "stream 1", "us": 4, "name": "print"},
        {"op": "end_capture", "stream": "stream 1", "graph": "graph 1"},
        {"op": "instantiate", "graph": "graph 1", "exec": "executable of graph 1", "flags": 0},
        {"op": "upload", "exec": "executable of graph 1", "stream": "stream 1"},
        {"op": "graph_launch", "exec": "executable of graph 1", "stream": "stream 1", "id": "op 1"},
        {"op": "sync_op", "of": "op 1"},
        {"op": "exec_destroy", "exec": "executable of graph 1"},
        {"op": "graph_destroy", "graph": "graph 1"},
    ]
    assert is_exact(timeline)


def document_ops(timeline):
    return {step["op"] for step in document_of(timeline)["steps"]}


async def everything():
    """One capture of each kind of node, with forks, and records and waits that each launch makes."""
    one, two, other = [await acl.CreateStream() for _ in range(3)]
    fork, join, earlier, outside = [await acl.CreateEvent() for _ in range(4)]
    device, pinned = await acl.Malloc(1 << 16), await acl.MallocHost(1 << 16)
    pageable = np.zeros(1 << 16, np.uint8)
    await acl.RecordEvent(earlier, other)
    async with acl.capture(one, acl.CaptureMode.RELAXED) as graph:
        await square[8, one](device)
        await acl.RecordEvent(fork, one)
        await acl.StreamWaitEvent(two, fork)
        await acl.MemcpyAsync(device, 1 << 16, pinned, 1 << 16, IN, two)
        await acl.MemcpyAsync(pageable, 1 << 16, device, 1 << 16, OUT, one)
        await acl.Memcpy2dAsync(device, 64, pinned, 128, 64, 9, acl.MemcpyKind.DEFAULT, two)
        await acl.MemsetAsync(device, 64, 0, 64, one)
        scratch = await acl.MallocAsync(256, one)
        await square[1, one](scratch)
        await acl.FreeAsync(scratch, one)
        await acl.StreamWaitEvent(two, earlier, external=True)
        await acl.LaunchHostFunc(two, len, ((),), us=5)
        await acl.RecordEvent(join, two)
        await acl.StreamWaitEvent(one, join)
        await acl.RecordEvent(outside, one, external=True)
    executable = await acl.GraphInstantiate(graph)
    for _ in range(2):
        await acl.GraphLaunch(executable, one)
        await acl.StreamWaitEvent(other, outside)
        await square[2, other](device)
    await acl.SynchronizeDevice()
    await acl.GraphExecDestroy(executable)


@pytest.mark.parametrize("device", ["tiny", "h200"])
def test_nodes_of_all_kinds_are_captured_again(device):
    assert is_exact(recording(everything, device=device))


async def node_by_node():
    """Graphs that are made of nodes, children, clones and bodies; *behind* what a node is."""
    stream, buffer = await acl.CreateStream(), await acl.Malloc(64)
    part = await acl.GraphCreate()
    first = await acl.GraphAddEmptyNode(part)
    await acl.BeginCaptureToGraph(stream, part, [first])
    await square[1, stream](buffer)
    await acl.EndCapture(stream)
    graph = await acl.GraphCreate()
    child = await acl.GraphAddChildGraphNode(graph, part)
    node = await acl.GraphAddIfNode(graph, [child], default=True)
    inner = await acl.GraphAddIfNode(node.body, default=True)
    for body in (node.body, inner.body):
        await acl.BeginCaptureToGraph(stream, body)
        await square[2, stream](buffer)
        await acl.EndCapture(stream)
    clone = await acl.GraphClone(graph)
    await acl.BeginCaptureToGraph(stream, clone.nodes[1].body.nodes[0].body)
    await square[3, stream](buffer)
    await acl.EndCapture(stream)
    for each in (graph, clone):
        await acl.GraphLaunch(await acl.GraphInstantiate(each), stream)
    await acl.SynchronizeStream(stream)


def test_graphs_of_nodes_children_clones_and_bodies_are_made_again():
    timeline = recording(node_by_node)
    child, outer, _, clone = steps_of(timeline, "add_child", "add_if", "clone")
    assert child == {"op": "add_child", "graph": "graph 2", "child": "graph 1 (1)", "bodies": ["graph 1 (2)"]}
    assert (outer["behind"], outer["bodies"]) == ([0], ["body 1 of graph 2 (1)"])
    assert clone["bodies"] == ["graph 1 (3)", "body 1 of graph 2 (2)", "body 0 of body 1 of graph 2 (2)"]
    assert [op.launch for op in timeline.ops] == [0, 0, 0, 1, 1, 1, 1]
    assert is_exact(timeline)


async def routed(wants):
    """Launches in which a kernel decides which of two bodies run; one of them has a node that decides again."""
    stream, buffer = await acl.CreateStream(), await acl.Malloc(64)
    conditions, graph = [], await acl.GraphCreate()

    @kernel(cost=Cost(us=1), serial=True)
    def route():
        for condition, wanted in zip(conditions, wants.pop(0), strict=True):
            condition.set(wanted)

    await acl.BeginCaptureToGraph(stream, graph)
    await route[1, stream]()
    await acl.EndCapture(stream)
    nodes = [await acl.GraphAddIfNode(graph, graph.nodes[:1]) for _ in range(2)]
    nodes.append(await acl.GraphAddIfNode(nodes[0].body))
    conditions += [node.condition for node in nodes]
    for node in nodes:
        await acl.BeginCaptureToGraph(stream, node.body)
        await square[1, stream](buffer)
        await acl.EndCapture(stream)
    executable = await acl.GraphInstantiate(graph)
    for _ in range(len(wants)):
        await acl.GraphLaunch(executable, stream)
    await acl.SynchronizeStream(stream)


def test_if_nodes_go_the_way_that_they_went():
    wants = [(0, 0, 0), (1, 0, 0), (1, 1, 1), (0, 1, 1)]
    timeline = recording(routed, [*wants])
    # In the order of the plan: an IF node, then those of its body.
    assert [step.get("taken") for step in steps_of(timeline, "graph_launch")] == [
        [False, False, False],
        [True, False, False],
        [True, True, True],
        [False, False, True],
    ]
    assert is_exact(timeline)


@asc.kernel
def add_ones(x: asc.In, rounds: asc.In):
    """Take longer in each launch: the host sets the number of rounds."""
    queue, pipe = asc.TQue(asc.TPosition.VECIN, 1), asc.TPipe()
    pipe.InitBuffer(queue, 1, 512)
    source = asc.GlobalTensor(asc.half).SetGlobalBuffer(x, 256)
    count = asc.GlobalTensor(asc.int32).SetGlobalBuffer(rounds, 8)
    for _ in range(int(count.GetValue(0))):
        tensor = queue.AllocTensor(asc.half)
        asc.DataCopy(tensor, source, 256)
        queue.EnQue(tensor)
        queue.FreeTensor(queue.DeQue(asc.half))


async def core_kernels():
    stream, host = await acl.CreateStream(), await acl.MallocHost(32)
    x, rounds = acl.Array(await acl.Malloc(512), np.float16), acl.Array(await acl.Malloc(32), np.int32)
    await acl.Memset(x.buffer, 512, 0, 512)
    host.numpy(np.int32)[:] = 1
    async with acl.capture(stream) as graph:
        await acl.MemcpyAsync(rounds.buffer, 32, host, 32, IN, stream)
        await add_ones[2, stream](x, rounds)
    executables = [await acl.GraphInstantiate(graph), await acl.GraphInstantiate(graph)]
    for number in range(4):
        host.numpy(np.int32)[:] = 1 + number
        await acl.GraphLaunch(executables[number % 2], stream)
        await acl.SynchronizeStream(stream)


def test_a_core_kernel_has_the_time_of_each_launch():
    timeline = recording(core_kernels, device="ascend910b1")
    times = [(op.end_ns - op.start_ns) / 1000 for op in timeline.ops if op.name == "add_ones"]
    assert len(set(times)) == 4
    [step] = steps_of(timeline, "launch_cores")
    assert [step["us"], *(us for us, _ in step["more"])] == times
    assert is_exact(timeline)


async def lost_and_left():
    """Captures that a call has lost, that an exception has ended, or that were not joined; then the streams run."""
    one, two, buffer = await acl.CreateStream(), await acl.CreateStream(), await acl.Malloc(64)
    event = await acl.CreateEvent()
    await acl.BeginCapture(one)
    await square[1, one](buffer)
    for call in (acl.SynchronizeStream(one), square[1, one](buffer), acl.EndCapture(one)):
        with contextlib.suppress(acl.AclError):
            await call
    with contextlib.suppress(ZeroDivisionError):
        async with acl.capture(one):
            await square[1, one](buffer)
            raise ZeroDivisionError
    await acl.BeginCapture(one)
    await acl.RecordEvent(event, one)
    await acl.StreamWaitEvent(two, event)
    await square[1, two](buffer)
    with contextlib.suppress(acl.AclError):
        await acl.EndCapture(one)
    third = await acl.CreateStream()
    await acl.BeginCapture(third)
    await acl.DestroyStream(third)
    for stream in (one, two):
        await square[1, stream](buffer)
    await acl.SynchronizeDevice()


def test_captures_that_gave_no_graph_end_where_they_ended():
    timeline = recording(lost_and_left)
    assert len(timeline.ops) == 2
    assert is_exact(timeline)


async def updates():
    """An executable that does other work from launch to launch, one with too many nodes, and a full queue."""
    stream, buffer = await acl.CreateStream(), await acl.Malloc(64)
    graphs = []
    for count in (1, 1, 2):
        async with acl.capture(stream) as graph:
            for _ in range(count):
                await square[1 + 8 * len(graphs), stream](buffer)
        graphs.append(graph)
    executable = await acl.GraphInstantiate(graphs[0])
    for graph in (*graphs, *graphs[:1]):
        await acl.GraphLaunch(executable, stream)
        with contextlib.suppress(acl.AclError):
            await acl.GraphExecUpdate(executable, graph)
    for _ in range(1030):
        await acl.GraphLaunch(executable, stream)
    uploaded = await acl.GraphInstantiate(graphs[0], acl.GraphInstantiateFlag.UPLOAD)
    await acl.GraphLaunch(uploaded, stream)
    await acl.SynchronizeDevice()


def test_updates_and_a_full_queue_are_replayed():
    assert is_exact(recording(updates))


async def task_groups():
    """Updates of a task group: of a launch that waits, of the next launch, and one with too few kernels."""
    one, two, buffer = await acl.CreateStream(), await acl.CreateStream(), await acl.Malloc(64)
    await acl.BeginCapture(one, acl.CaptureMode.RELAXED)
    await square[1, one](buffer)
    await acl.CaptureTaskGrpBegin(one)
    await square[2, one](buffer)
    await square[2, one](buffer)
    group = await acl.CaptureTaskGrpEnd(one)
    executable = await acl.GraphInstantiate(await acl.EndCapture(one))
    for blocks in (9, 1):
        await acl.GraphLaunch(executable, one)
        await acl.CaptureTaskUpdateBegin(two, group)
        for _ in range(2):
            await square[blocks, two](buffer)
        await acl.CaptureTaskUpdateEnd(two)
        await acl.GraphLaunch(executable, one)
    await acl.CaptureTaskUpdateBegin(two, group)
    with contextlib.suppress(acl.AclError):
        await acl.CaptureTaskUpdateEnd(two)
    await square[1, two](buffer)
    await acl.SynchronizeDevice()


def test_task_groups_and_their_updates_are_replayed():
    timeline = recording(task_groups, rules="acl")
    assert len(timeline.ops) == 13
    assert is_exact(timeline)


async def several_tasks(seed):
    """Tasks that capture and launch side by side, each in its stream, and in one that they share."""
    shared, buffer = await acl.CreateStream(), await acl.Malloc(64)
    pageable = np.zeros(1 << 17, np.uint8)

    async def work(rng):
        stream = await acl.CreateStream()
        for _ in range(2):
            mode = rng.choice([acl.CaptureMode.THREAD_LOCAL, acl.CaptureMode.RELAXED])
            async with acl.capture(stream, mode) as graph:
                for _ in range(rng.randint(1, 3)):
                    await square[rng.randint(1, 9), stream](buffer)
                if mode is acl.CaptureMode.RELAXED and rng.random() < 0.5:
                    await acl.MemcpyAsync(pageable, 1 << 17, await_buffer, 1 << 17, OUT, stream)
                await asyncio.sleep(rng.choice([0, 1e-6, 9e-6]))
                await acl.LaunchHostFunc(stream, len, ((),), us=rng.randint(0, 4))
            executable = await acl.GraphInstantiate(graph)
            for _ in range(rng.randint(1, 3)):
                where = rng.choice([stream, shared])
                launched = await acl.GraphLaunch(executable, where)
                if rng.random() < 0.4:
                    await launched
                if rng.random() < 0.4:
                    await acl.SynchronizeStream(where)
                await asyncio.sleep(rng.choice([0, 20e-6, 90e-6]))

    await_buffer = await acl.Malloc(1 << 17)
    await asyncio.gather(*(work(Random(f"{seed} {number}")) for number in range(3)))
    await acl.SynchronizeDevice()


@pytest.mark.one_in(5)
@pytest.mark.parametrize("seed", range(20))
def test_tasks_that_capture_side_by_side_do_so_again(seed):
    timeline = recording(several_tasks, seed, device=("tiny", "h200")[seed % 2])
    assert differences(timeline) == []


def test_a_saved_trace_gives_the_same_program(tmp_path):
    timeline = recording(node_by_node)
    save(timeline, tmp_path / "run.acl")
    again = read_trace(tmp_path / "run.acl")
    assert again.launches == timeline.launches
    assert document_of(again) == document_of(timeline)


def test_an_outcome_for_another_number_of_if_nodes_is_refused():
    document = document_of(recording(routed, [(0, 1, 0)]))
    [launch] = [step for step in document["steps"] if step["op"] == "graph_launch"]
    launch["taken"] = [True]
    with pytest.raises(
        ProgramError, match="taken: must have a value for each of the 3 conditional nodes of 'executable of gr"
    ):
        replay(parse(document), device="tiny")
