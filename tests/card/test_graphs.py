"""Graphs and captures on a card."""

import os

import numpy as np
import pytest

import acl_py
from acl_py.errors import AclError, Kind
from tests.cuda.calling import PTX

KIND = acl_py.MemcpyKind.DEFAULT
NBYTES = 4096


@acl_py.kernel
def double(values):
    values[:] = 2 * values


async def upload(values):
    buffer = await acl_py.Malloc(values.nbytes)
    await acl_py.Memcpy(buffer, values.nbytes, values, values.nbytes, KIND)
    return buffer


async def download(buffer, count=NBYTES // 4):
    values = np.zeros(count, np.uint32)
    await acl_py.Memcpy(values, values.nbytes, buffer, values.nbytes, KIND)
    return sorted(set(values.tolist()))


async def captured(stream, other, buffer, told, amount=5):
    """Capture a fill and a kernel, beside which another stream calls a function."""
    add = (await acl_py.ptx.load(PTX))["add"]
    fork, joined = await acl_py.CreateEvent(), await acl_py.CreateEvent()
    async with acl_py.capture(stream) as graph:
        await acl_py.RecordEvent(fork, stream)
        await acl_py.StreamWaitEvent(other, fork)
        await acl_py.LaunchHostFunc(other, told.append, (amount,))
        await acl_py.RecordEvent(joined, other)
        await acl_py.MemsetAsync(buffer, NBYTES, 0, NBYTES, stream)
        await add[8, 128, stream](buffer, np.uint32(amount), np.uint32(NBYTES // 4))
        await acl_py.StreamWaitEvent(stream, joined)
        await add[8, 128, stream](buffer, np.uint32(amount), np.uint32(NBYTES // 4))
    return graph


def test_a_capture_runs_at_each_launch_and_not_before(card):
    async def main():
        stream, other, told = await acl_py.CreateStream(), await acl_py.CreateStream(), []
        buffer = await upload(np.full(NBYTES // 4, 9, np.uint32))
        graph = await captured(stream, other, buffer, told)
        untouched = await download(buffer), len(graph.nodes), [*told]
        executable = await acl_py.GraphInstantiate(graph)
        await acl_py.GraphLaunch(executable, stream)
        await (await acl_py.GraphLaunch(executable, other))
        return untouched, await download(buffer), told

    assert acl_py.run(main, device=card) == (([9], 4, []), [10], [5, 5])


def test_an_executable_takes_over_another_graph_while_it_runs(card):
    """The launch that is queued does what it did; its host function is still there."""

    async def main():
        stream, other = await acl_py.CreateStream(), await acl_py.CreateStream()
        buffer, first, second = await upload(np.zeros(NBYTES // 4, np.uint32)), [], []
        executable = await acl_py.GraphInstantiate(await captured(stream, other, buffer, first))
        new = await captured(stream, other, buffer, second, 7)
        await acl_py.GraphLaunch(executable, stream)
        await acl_py.GraphExecUpdate(executable, new)
        await acl_py.GraphLaunch(executable, stream)
        await acl_py.GraphDestroy(new)
        await acl_py.GraphExecDestroy(executable)
        await acl_py.SynchronizeStream(stream)
        return first, second, await download(buffer)

    assert acl_py.run(main, device=card) == ([5], [7], [14])


def test_a_graph_of_other_nodes_is_not_taken_over(card):
    async def main():
        stream, buffer = await acl_py.CreateStream(), await acl_py.Malloc(NBYTES)
        executables = []
        for count in (1, 2):
            async with acl_py.capture(stream) as graph:
                for _ in range(count):
                    await acl_py.MemsetAsync(buffer, NBYTES, count, NBYTES, stream)
            executables.append(await acl_py.GraphInstantiate(graph))
        with pytest.raises(AclError) as caught:
            await acl_py.GraphExecUpdate(executables[0], graph)
        await (await acl_py.GraphLaunch(executables[0], stream))
        return caught.value.kind, await download(buffer)

    assert acl_py.run(main, device=card) == (Kind.GRAPH_UPDATE, [0x01010101])


def test_nodes_are_added_changed_and_switched(card):
    async def main():
        stream, buffer = await acl_py.CreateStream(), await acl_py.Malloc(NBYTES)
        add = (await acl_py.ptx.load(PTX))["add"]

        def adding(amount):
            return lambda stream: add[8, 128, stream](buffer, np.uint32(amount), np.uint32(NBYTES // 4))

        async def launched():
            await (await acl_py.GraphLaunch(executable, stream))
            return await download(buffer)

        graph = await acl_py.GraphCreate()
        fill = await acl_py.GraphAddNode(graph, lambda s: acl_py.MemsetAsync(buffer, NBYTES, 0, NBYTES, s))
        first = await acl_py.GraphAddNode(graph, adding(1), [fill])
        inner = await acl_py.GraphCreate()
        await acl_py.GraphAddNode(inner, adding(10))
        child = await acl_py.GraphAddChildGraphNode(graph, inner, [fill])
        await acl_py.GraphAddDependencies(graph, [(first, child)])
        await acl_py.GraphAddEmptyNode(graph, [child])
        executable = await acl_py.GraphInstantiate(graph)
        answers = [await launched()]
        await acl_py.GraphExecNodeSetWork(executable, first, adding(2))
        answers.append(await launched())
        await acl_py.GraphNodeSetEnabled(executable, first, 0)
        answers.append(await launched())
        await acl_py.GraphNodeSetEnabled(executable, fill, 0)
        await acl_py.GraphUpload(executable, stream)
        answers.append(await launched())
        await acl_py.GraphNodeSetEnabled(executable, first, 1)
        answers.append(await launched())
        return answers

    assert acl_py.run(main, device=card) == [[11], [12], [10], [20], [32]]


def test_an_event_is_recorded_and_waited_for_at_each_launch(card):
    async def main():
        stream, other, told = await acl_py.CreateStream(), await acl_py.CreateStream(), []
        inside, outside = await acl_py.CreateEvent(), await acl_py.CreateEvent()
        async with acl_py.capture(stream) as graph:
            await acl_py.StreamWaitEvent(stream, outside, external=True)
            await acl_py.LaunchHostFunc(stream, told.append, ("node",))
            await acl_py.RecordEvent(inside, stream, external=True)
        executable = await acl_py.GraphInstantiate(graph)
        for number in range(2):
            await acl_py.LaunchHostFunc(other, told.append, (number,))
            await acl_py.RecordEvent(outside, other)
            await acl_py.GraphLaunch(executable, stream)
            await acl_py.SynchronizeEvent(inside)
            told.append(await acl_py.QueryEventStatus(inside))
        await acl_py.RecordEvent(inside, other)
        await acl_py.SynchronizeEvent(inside)
        await acl_py.DestroyEvent(inside)
        await acl_py.GraphLaunch(executable, stream)
        await acl_py.SynchronizeStream(stream)
        return told

    done = acl_py.Status.COMPLETE
    assert acl_py.run(main, device=card) == [0, "node", done, 1, "node", done, "node"]


@pytest.mark.parametrize(
    ("bodies", "values"), [("host", [0, 4, 8, 12]), ("time", [0, 1, 2, 3])], ids=["on the host", "their time only"]
)
def test_a_body_in_python_is_a_node(card, bodies, values):
    async def main():
        stream, buffer = await acl_py.CreateStream(), await upload(np.arange(4, dtype=np.uint32))
        async with acl_py.capture(stream) as graph:
            await double[8, stream](acl_py.Array(buffer, np.uint32))
        executable = await acl_py.GraphInstantiate(graph)
        await acl_py.GraphLaunch(executable, stream)
        await (await acl_py.GraphLaunch(executable, stream))
        return await download(buffer, 4)

    assert acl_py.run(main, device=card, bodies=bodies) == values


def test_memory_of_a_graph_goes_with_its_executable(card):
    async def main():
        stream, buffer = await acl_py.CreateStream(), await acl_py.Malloc(NBYTES)
        async with acl_py.capture(stream) as graph:
            scratch = await acl_py.MallocAsync(NBYTES, stream)
            await acl_py.MemsetAsync(scratch, NBYTES, 3, NBYTES, stream)
            await acl_py.MemcpyAsync(buffer, NBYTES, scratch, NBYTES, KIND, stream)
            await acl_py.FreeAsync(scratch, stream)
        executable = await acl_py.GraphInstantiate(graph)
        for _ in range(2):
            await acl_py.GraphLaunch(executable, stream)
        await acl_py.SynchronizeStream(stream)
        await acl_py.GraphExecDestroy(executable)
        with pytest.raises(AclError, match="freed already"):
            await acl_py.Free(scratch)
        return await download(buffer)

    assert acl_py.run(main, device=card) == [0x03030303]


def test_a_failing_node_is_an_error_of_the_next_wait(card):
    async def main():
        stream, other = await acl_py.CreateStream(), await acl_py.CreateStream()
        async with acl_py.capture(stream) as graph:
            await acl_py.LaunchHostFunc(stream, lambda: 1 / 0)
        executable = await acl_py.GraphInstantiate(graph)
        await acl_py.GraphLaunch(executable, other)
        with pytest.raises(AclError, match="raised ZeroDivisionError"):
            await acl_py.SynchronizeStream(other)

    acl_py.run(main, device=card)


def test_a_launch_is_one_operation_of_the_trace(card):
    async def main():
        stream, other, told = await acl_py.CreateStream(name="work"), await acl_py.CreateStream(), []
        buffer = await upload(np.zeros(NBYTES // 4, np.uint32))
        executable = await acl_py.GraphInstantiate(await captured(stream, other, buffer, told))
        await (await acl_py.GraphLaunch(executable, stream))
        return acl_py.current_simulation().trace

    trace = acl_py.run(main, device=card)
    [(launch, queued)] = [(op, op.end_ns - op.start_ns) for op in trace.ops if op.stream == "stream 'work'"]
    assert (launch.name, queued > 0) == ("executable of graph 1", True)


def test_calls_beside_a_capture_are_refused_as_on_the_model(card):
    """The codes are those of the model; the card has not captured anything."""

    async def main():
        stream, told = await acl_py.CreateStream(), []
        await acl_py.LaunchHostFunc(stream, told.append, (1,))
        await acl_py.BeginCapture(stream)
        kinds = []
        for call in (acl_py.SynchronizeStream(stream), acl_py.Malloc(8), acl_py.EndCapture(stream)):
            with pytest.raises(AclError) as caught:
                await call
            kinds.append(caught.value.kind)
        await acl_py.SynchronizeStream(stream)
        return kinds, told

    expected = [Kind.CAPTURE_UNSUPPORTED, Kind.CAPTURE_UNSUPPORTED, Kind.CAPTURE_INVALIDATED], [1]
    assert acl_py.run(main, device=card) == acl_py.run(main, device="h200") == expected


def test_nothing_is_left_of_runs_with_graphs(card):
    from acl_py.card.cuda import host_functions

    async def main():
        stream, other = await acl_py.CreateStream(), await acl_py.CreateStream()
        buffer = await acl_py.Malloc(NBYTES)
        executable = await acl_py.GraphInstantiate(await captured(stream, other, buffer, []))
        for amount in range(3):
            await acl_py.GraphLaunch(executable, stream)
            await acl_py.GraphExecUpdate(executable, await captured(stream, other, buffer, [], amount))

    for _ in range(3):
        acl_py.run(main, device=card)
    assert host_functions._LASTING == {}


@pytest.mark.skipif("ACL_PY_CARD" in os.environ, reason="a real driver looks at no address of a node")
def test_a_graph_that_the_driver_refuses_leaves_the_executable_as_it_was(card):
    """Memory that was freed in between: the model asks at the launch, and the driver when it gets the node."""

    async def main():
        stream, buffer, gone = await acl_py.CreateStream(), await acl_py.Malloc(NBYTES), await acl_py.Malloc(NBYTES)
        graphs = []
        for memory in (buffer, gone):
            async with acl_py.capture(stream) as graph:
                await acl_py.MemsetAsync(memory, NBYTES, 1, NBYTES, stream)
            graphs.append(graph)
        executable = await acl_py.GraphInstantiate(graphs[0])
        await acl_py.Free(gone)
        with pytest.raises(AclError, match="cuMemsetD8Async"):
            await acl_py.GraphExecUpdate(executable, graphs[1])
        await (await acl_py.GraphLaunch(executable, stream))
        return await download(buffer)

    assert acl_py.run(main, device=card) == [0x01010101]
