"""Launches of graphs: when their nodes run, beside what, and what a launch finds in memory.

On the tiny device a call takes 1000 ns, one byte takes one nanosecond, and nothing has a latency.
"""

from functools import partial

import numpy as np
import pytest
from histories import D2H, DEFAULT, H2D, busy, history, refused, tiny

import acl_py as acl
from acl_py import Kind
from device_model.profile import load

A, B, C, D = (busy(name, 10) for name in "ABCD")


@acl.kernel(cost=acl.Cost(us=10))
def double(x: acl.InOut):
    x *= 2


async def streams(count):
    return [await acl.CreateStream() for _ in range(count)]


async def diamond(one, two):
    """A, then B and C side by side, then D."""
    fork, join = [await acl.CreateEvent() for _ in range(2)]
    async with acl.capture(one) as graph:
        await A[1, one]()
        await acl.RecordEvent(fork, one)
        await acl.StreamWaitEvent(two, fork)
        await B[1, two]()
        await C[1, one]()
        await acl.RecordEvent(join, two)
        await acl.StreamWaitEvent(one, join)
        await D[1, one]()
    return await acl.GraphInstantiate(graph)


async def chain(stream, *kernels):
    async with acl.capture(stream) as graph:
        for each in kernels:
            await each[1, stream]()
    return await acl.GraphInstantiate(graph)


@tiny
async def test_nodes_that_do_not_depend_on_one_another_run_side_by_side():
    sim = acl.current_simulation()
    one, two = await streams(2)
    executable = await diamond(one, two)
    await acl.GraphUpload(executable, one)
    begin = sim.now_ns
    launch = await acl.GraphLaunch(executable, one)
    await acl.SynchronizeStream(one)
    assert history(sim, begin) == [
        ("A", 1_000, 11_000),
        ("B", 11_000, 21_000),
        ("C", 11_000, 21_000),
        ("D", 21_000, 31_000),
    ]
    assert launch.end_ns - begin == 31_000


@tiny
async def test_a_copy_of_a_launch_passes_a_copy_that_waits_for_the_launch():
    sim = acl.current_simulation()
    [stream], device, host = await streams(1), await acl.Malloc(2_000), await acl.MallocHost(2_000)
    async with acl.capture(stream) as graph:
        await A[1, stream]()
        await acl.MemcpyAsync(device, 2_000, host, 2_000, H2D, stream)
    executable = await acl.GraphInstantiate(graph)
    await acl.GraphUpload(executable, stream)
    begin = sim.now_ns
    await acl.GraphLaunch(executable, stream)
    await acl.MemcpyAsync(device, 1_000, host, 1_000, H2D, stream)
    await acl.SynchronizeStream(stream)
    assert [row[1:] for row in history(sim, begin)] == [(1_000, 11_000), (11_000, 13_000), (13_000, 14_000)]


@tiny
async def test_a_launch_keeps_its_place_in_its_stream_and_holds_no_other():
    sim = acl.current_simulation()
    one, two = await streams(2)
    executable = await chain(one, A, B)
    await acl.GraphUpload(executable, one)
    begin = sim.now_ns
    await C[1, one]()  # queued at 1 us
    await acl.GraphLaunch(executable, one)
    await D[1, one]()
    await C[1, two]()  # queued at 4 us
    await acl.SynchronizeDevice()
    assert [(name, start) for name, start, _ in history(sim, begin)] == [
        ("C", 1_000),
        ("C", 4_000),
        ("A", 11_000),
        ("B", 21_000),
        ("D", 31_000),
    ]


@tiny
async def test_launches_of_one_executable_run_one_after_the_other_in_any_streams():
    sim = acl.current_simulation()
    one, two = await streams(2)
    executable = await chain(one, A)
    other = await chain(one, B)
    begin = sim.now_ns
    await acl.GraphLaunch(executable, one)
    await acl.GraphLaunch(executable, two)
    await acl.GraphLaunch(other, await acl.CreateStream())
    await acl.SynchronizeDevice()
    runs = history(sim, begin)
    assert [name for name, *_ in runs] == ["A", "B", "A"]
    assert runs[2][1] == runs[0][2]


@tiny
async def test_a_launch_in_the_legacy_stream_is_a_barrier():
    sim = acl.current_simulation()
    one, two = await streams(2)
    executable = await chain(one, A)
    await acl.GraphUpload(executable, one)
    begin = sim.now_ns
    await B[1, one]()
    await acl.GraphLaunch(executable)
    await C[1, two]()
    await acl.SynchronizeDevice()
    assert history(sim, begin) == [("B", 1_000, 11_000), ("A", 11_000, 21_000), ("C", 21_000, 31_000)]


@tiny
async def test_a_launch_takes_one_place_of_the_hardware_queue_until_it_begins():
    """16 places: the first launch runs, 16 wait, and the next one waits for the second to begin."""
    sim = acl.current_simulation()
    [stream] = await streams(1)
    executable = await chain(stream, busy("long", 100), B)
    await acl.GraphUpload(executable, stream)
    begin = sim.now_ns
    enters = []
    for _ in range(18):
        enters.append(sim.now_ns - begin)
        await acl.GraphLaunch(executable, stream)
    enters.append(sim.now_ns - begin)
    assert enters[:18] == [1_000 * index for index in range(18)]
    assert enters[18] > 110_000
    await acl.SynchronizeDevice()
    assert len(history(sim, begin)) == 36


@tiny
async def test_copies_read_their_source_at_each_launch():
    [stream] = await streams(1)
    device, pinned = await acl.Malloc(8), await acl.MallocHost(8)
    pageable = np.zeros(8, np.uint8)
    async with acl.capture(stream) as graph:
        await acl.MemcpyAsync(device, 4, pinned, 4, H2D, stream)
        await acl.MemcpyAsync(device[4:], 4, pageable, 4, H2D, stream)
    executable = await acl.GraphInstantiate(graph)
    seen = []
    for value in (1, 2):
        pinned.numpy()[:] = value
        pageable[:] = 10 * value
        await acl.GraphLaunch(executable, stream)
        await acl.SynchronizeStream(stream)
        back = np.zeros(8, np.uint8)
        await acl.Memcpy(back, 8, device, 8, D2H)
        seen.append(back.tolist())
    assert seen == [[1] * 4 + [10] * 4, [2] * 4 + [20] * 4]


@tiny
async def test_the_host_makes_large_copies_of_pageable_memory_itself():
    """8 KB go in two chunks: each is staged in 1000 + 4096 ns and copied in 4096 ns."""
    sim = acl.current_simulation()
    [stream] = await streams(1)
    device, pageable = await acl.Malloc(8192), np.zeros(8192, np.uint8)
    async with acl.capture(stream) as graph:
        await acl.MemcpyAsync(device, 8192, pageable, 8192, H2D, stream)
    executable = await acl.GraphInstantiate(graph)
    await acl.GraphUpload(executable, stream)
    begin = sim.now_ns
    launch = await acl.GraphLaunch(executable, stream)
    assert launch.done
    assert sim.now_ns - begin == 1_000 + 2 * (1_000 + 4_096 + 4_096)


def test_a_copy_inside_the_device_takes_as_a_node_what_a_copy_takes_as_a_node():
    card = load("h200")

    async def main():
        [stream], nbytes = await streams(1), 1 << 20
        there, here = [await acl.Malloc(nbytes) for _ in range(2)]
        async with acl.capture(stream) as graph:
            await acl.MemcpyAsync(there, nbytes, here, nbytes, DEFAULT, stream)
        await acl.GraphLaunch(await acl.GraphInstantiate(graph), stream)
        await acl.MemcpyAsync(there, nbytes, here, nbytes, DEFAULT, stream)
        await acl.SynchronizeStream(stream)
        return [op.end_ns - op.start_ns for op in acl.current_simulation().trace.ops]

    assert acl.run(main, device=card) == [card.graphs.copy_on_device[1 << 20], card.copies.d2d[1 << 20]]


@tiny
async def test_a_host_function_runs_once_for_each_launch_in_its_order():
    [stream] = await streams(1)
    device, pinned, seen = await acl.Malloc(8), await acl.MallocHost(8), []
    await acl.Memset(device, 8, 1, 8)
    async with acl.capture(stream) as graph:
        await double[1, stream](device)
        await acl.MemcpyAsync(pinned, 8, device, 8, D2H, stream)
        await acl.LaunchHostFunc(stream, lambda: seen.append(int(pinned.numpy()[0])))
    executable = await acl.GraphInstantiate(graph)
    for _ in range(3):
        await acl.GraphLaunch(executable, stream)
    await acl.SynchronizeStream(stream)
    assert seen == [2, 4, 8]


@tiny
async def test_a_host_function_may_not_capture():
    [stream] = await streams(1)
    errors = []

    def captures():
        try:
            acl.BeginCapture(stream).send(None)
        except acl.AclError as error:
            errors.append(error.kind)

    await acl.LaunchHostFunc(stream, captures)
    await acl.SynchronizeStream(stream)
    assert errors == [Kind.NOT_PERMITTED]


@tiny
async def test_an_event_that_is_recorded_external_is_recorded_at_each_launch():
    sim = acl.current_simulation()
    one, two = await streams(2)
    start, end = [await acl.CreateEvent() for _ in range(2)]
    async with acl.capture(one) as graph:
        await acl.RecordEvent(start, one, external=True)
        await A[1, one]()
        await acl.RecordEvent(end, one, external=True)
        await B[1, one]()
    executable = await acl.GraphInstantiate(graph)
    assert await acl.QueryEventStatus(end) is acl.Status.COMPLETE  # never recorded
    begin = sim.now_ns
    await acl.GraphLaunch(executable, one)
    assert await acl.QueryEventStatus(end) is acl.Status.NOT_READY
    await acl.StreamWaitEvent(two, end)
    await C[1, two]()
    await acl.SynchronizeDevice()
    assert await acl.EventElapsedTime(start, end) == 0.01
    runs = {name: span for name, *span in history(sim, begin)}
    assert runs["C"] == runs["B"]


@tiny
async def test_an_external_wait_is_for_the_last_record_at_each_launch():
    sim = acl.current_simulation()
    one, two = await streams(2)
    event = await acl.CreateEvent()
    async with acl.capture(one) as graph:
        await acl.StreamWaitEvent(one, event, external=True)
        await B[1, one]()
    executable = await acl.GraphInstantiate(graph)
    begin = sim.now_ns
    await A[1, two]()
    await acl.RecordEvent(event, two)
    await acl.GraphLaunch(executable, one)
    await acl.SynchronizeDevice()
    assert history(sim, begin) == [("A", 1_000, 11_000), ("B", 11_000, 21_000)]


@tiny
async def test_a_child_is_one_node_and_runs_as_it_was_when_it_was_added():
    sim = acl.current_simulation()
    [stream] = await streams(1)
    async with acl.capture(stream) as child:
        await A[1, stream]()
    parent = await acl.GraphCreate()
    first = await acl.GraphAddChildGraphNode(parent, child)
    await acl.GraphAddChildGraphNode(parent, child, [first])
    await acl.BeginCaptureToGraph(stream, child, child.nodes)
    await B[1, stream]()
    await acl.EndCapture(stream)
    assert (len(parent.nodes), len(parent.edges)) == (2, 1)
    begin = sim.now_ns
    await acl.GraphLaunch(await acl.GraphInstantiate(parent), stream)
    await acl.SynchronizeStream(stream)
    assert [name for name, *_ in history(sim, begin)] == ["A", "A"]


@pytest.mark.parametrize("default", [False, True])
@tiny
async def test_an_if_node_asks_at_each_launch(default):
    """The routing of a launch is decided on the device: a kernel sets the condition of the node behind it."""
    sim = acl.current_simulation()
    [stream] = await streams(1)
    graph, wants = await acl.GraphCreate(), [True, False, None]
    conditions = []

    @acl.kernel(cost=acl.Cost(us=1), serial=True)
    def route():
        wanted = wants.pop(0)
        if wanted is not None:
            conditions[0].set(wanted)

    await acl.BeginCaptureToGraph(stream, graph)
    await route[1, stream]()
    await acl.EndCapture(stream)
    node = await acl.GraphAddIfNode(graph, graph.nodes, default=default)
    conditions.append(node.condition)
    await acl.BeginCaptureToGraph(stream, node.body)
    await A[1, stream]()
    await acl.EndCapture(stream)
    executable = await acl.GraphInstantiate(graph)
    for _ in range(3):
        await acl.GraphLaunch(executable, stream)
    await acl.SynchronizeStream(stream)
    ran = [name for name, *_ in history(sim)]
    assert ran == ["route", "A", "route", "route", *(["A"] if default else [])]


@tiny
async def test_an_update_changes_the_next_launches_and_needs_the_same_shape():
    sim = acl.current_simulation()
    [stream] = await streams(1)
    executable = await chain(stream, A)
    begin = sim.now_ns
    await acl.GraphLaunch(executable, stream)
    await acl.GraphLaunch(executable, stream)
    async with acl.capture(stream) as other:
        await B[1, stream]()
    await acl.GraphExecUpdate(executable, other)
    await acl.GraphLaunch(executable, stream)
    async with acl.capture(stream) as longer:
        await C[1, stream]()
        await C[1, stream]()
    with pytest.raises(acl.AclError) as caught:
        await acl.GraphExecUpdate(executable, longer)
    assert caught.value.kind is Kind.GRAPH_UPDATE
    await acl.GraphLaunch(executable, stream)
    await acl.SynchronizeStream(stream)
    assert [name for name, *_ in history(sim, begin)] == ["A", "A", "B", "B"]


@tiny
async def test_what_is_destroyed_completes_and_is_refused_afterwards():
    sim = acl.current_simulation()
    [stream] = await streams(1)
    async with acl.capture(stream) as graph:
        await A[1, stream]()
    executable = await acl.GraphInstantiate(graph)
    await acl.GraphDestroy(graph)
    begin = sim.now_ns
    await acl.GraphLaunch(executable, stream)
    await acl.GraphExecDestroy(executable)
    with refused(Kind.INVALID_VALUE, "executable of graph 1", "destroyed at", takes_ns=1000):
        await acl.GraphLaunch(executable, stream)
    with refused(Kind.INVALID_VALUE, "graph 1", "destroyed at", takes_ns=1000):
        await acl.GraphInstantiate(graph)
    await acl.SynchronizeStream(stream)
    assert history(sim, begin) == [("A", 2_000, 12_000)]


@tiny
async def test_memory_of_a_node_that_was_freed_is_refused_at_the_launch():
    [stream] = await streams(1)
    device = await acl.Malloc(8)
    async with acl.capture(stream) as graph:
        await double[1, stream](device)
    executable = await acl.GraphInstantiate(graph)
    await acl.Free(device)
    with refused(Kind.INVALID_ADDRESS, "memory of <double, node 0 of graph 1", "freed at"):
        await acl.GraphLaunch(executable, stream)


@tiny
async def test_memory_of_a_graph_lives_until_its_executable_is_destroyed():
    sim = acl.current_simulation()
    [stream] = await streams(1)
    async with acl.capture(stream) as graph:
        scratch = await acl.MallocAsync(8, stream)
        await double[1, stream](scratch)
        await acl.FreeAsync(scratch, stream)
    executable = await acl.GraphInstantiate(graph)
    for call in (acl.GraphInstantiate(graph), acl.GraphClone(graph)):
        with refused(Kind.NOT_SUPPORTED, takes_ns=1000):
            await call
    for _ in range(2):
        await acl.GraphLaunch(executable, stream)
    await acl.GraphExecDestroy(executable)
    await acl.SynchronizeStream(stream)
    assert [name for name, *_ in history(sim)] == ["double", "double"]
    assert sim.runtime.memory.leaks() == []


@tiny
async def test_a_graph_of_another_simulation_or_device_is_refused():
    [stream] = await streams(1)
    executable = await chain(stream, A)
    await acl.SetDevice(1)
    other = await acl.CreateStream()
    with refused(Kind.INVALID_HANDLE, takes_ns=1000):
        await acl.GraphLaunch(executable, other)
    with pytest.raises(TypeError, match="must be what GraphInstantiate"):
        await acl.GraphLaunch(3, stream)


def test_graphs_and_executables_stay_in_their_simulation():
    async def made():
        [stream] = await streams(1)
        async with acl.capture(stream) as graph:
            await A[1, stream]()
        return graph, await acl.GraphInstantiate(graph)

    async def used(graph, executable):
        [stream] = await streams(1)
        own = await acl.GraphCreate()
        for call in (
            partial(acl.GraphInstantiate, graph), partial(acl.GraphClone, graph), partial(acl.GraphDestroy, graph),
            partial(acl.GraphAddChildGraphNode, own, graph), partial(acl.BeginCaptureToGraph, stream, graph),
            partial(acl.GraphUpload, executable, stream), partial(acl.GraphLaunch, executable, stream),
            partial(acl.GraphExecUpdate, executable, own), partial(acl.GraphExecDestroy, executable),
        ):  # fmt: skip
            with refused(Kind.INVALID_HANDLE, "belongs to another simulation", takes_ns=1000):
                await call()

    graph, executable = acl.run(made, device="tiny")
    acl.run(partial(used, graph, executable), device="tiny")


@tiny
async def test_a_graph_with_an_if_node_has_one_executable():
    """As on the card: cudaErrorNotSupported the second time."""
    graph = await acl.GraphCreate()
    await acl.GraphAddIfNode(graph)
    await acl.GraphInstantiate(graph)
    with refused(Kind.NOT_SUPPORTED, "IF node", "executable already", takes_ns=1000):
        await acl.GraphInstantiate(graph)


@tiny
async def test_a_graph_is_not_destroyed_while_a_capture_adds_to_it():
    [stream] = await streams(1)
    graph = await acl.GraphCreate()
    await acl.BeginCaptureToGraph(stream, graph)
    with refused(Kind.INVALID_VALUE, "GraphDestroy() of <graph 1", "adds", takes_ns=1000):
        await acl.GraphDestroy(graph)
    await A[1, stream]()
    await acl.EndCapture(stream)
    await acl.GraphDestroy(graph)


@tiny
async def test_a_graph_can_be_uploaded_when_it_is_instantiated():
    sim = acl.current_simulation()
    [stream] = await streams(1)
    async with acl.capture(stream) as graph:
        await A[1, stream]()
    costs = sim.runtime.profile.graphs
    begin = sim.now_ns
    executable = await acl.GraphInstantiate(graph, acl.GraphInstantiateFlag.UPLOAD)
    assert sim.now_ns - begin == costs.instantiate[1] + costs.upload[1]
    begin = sim.now_ns
    await acl.GraphLaunch(executable, stream)
    assert sim.now_ns - begin == costs.launch[1] < costs.launch_first[1]
    with refused(Kind.INVALID_VALUE, "0x10", takes_ns=1000):
        await acl.GraphInstantiate(graph, 16)


@tiny
async def test_a_graph_for_launches_by_the_device_has_kernels_copies_and_fills():
    [stream] = await streams(1)
    device, pinned = await acl.Malloc(64), await acl.MallocHost(64)
    for_device = acl.GraphInstantiateFlag.DEVICE_LAUNCH
    async with acl.capture(stream) as inner:
        await acl.MemsetAsync(device, 64, 7, 64, stream)
    graph = await acl.GraphCreate()
    with refused(Kind.INVALID_VALUE, "no node", takes_ns=1000):
        await acl.GraphInstantiate(graph, for_device)
    kernel = await acl.GraphAddNode(graph, lambda stream: A[1, stream]())
    await acl.GraphAddChildGraphNode(graph, inner, [kernel])
    await acl.GraphAddNode(
        graph, lambda stream: acl.MemcpyAsync(pinned, 64, device, 64, DEFAULT, stream), [graph.nodes[1]]
    )
    executable = await acl.GraphInstantiate(graph, for_device)
    await acl.GraphLaunch(executable, stream)
    await acl.SynchronizeStream(stream)
    assert bytes(pinned.numpy()) == bytes([7] * 64)
    await acl.GraphAddChildGraphNode(graph, await with_host_function(), [])
    with refused(Kind.INVALID_VALUE, "launches by the device", takes_ns=1000):
        await acl.GraphInstantiate(graph, for_device)


async def with_host_function():
    graph = await acl.GraphCreate()
    await acl.GraphAddNode(graph, lambda stream: acl.LaunchHostFunc(stream, print, ()))
    return graph


@pytest.mark.parametrize(("flags", "order"), [(0, "ABCD"), (acl.GraphInstantiateFlag.USE_NODE_PRIORITY, "ACDB")])
@tiny
async def test_kernels_of_a_graph_may_keep_the_priorities_of_their_streams(flags, order):
    """Each kernel needs all four cores. B, of low priority, comes before C and D, while A has the cores."""
    sim = acl.current_simulation()
    low, other = await streams(2)
    high = await acl.CreateStream(priority=-5)
    fork, joins = await acl.CreateEvent(), [await acl.CreateEvent() for _ in range(2)]

    async def launch(name, stream):
        def work():
            pass

        work.__name__ = name
        await acl.kernel(cost=acl.Cost(us=10), exclusive=True)(work)[4, stream]()

    async with acl.capture(low) as graph:
        await launch("A", low)
        await acl.RecordEvent(fork, low)
        for stream in (other, high):
            await acl.StreamWaitEvent(stream, fork)
        for name, stream in (("B", other), ("C", high), ("D", high)):
            await launch(name, stream)
        for stream, join in zip((other, high), joins, strict=True):
            await acl.RecordEvent(join, stream)
            await acl.StreamWaitEvent(low, join)
    executable = await acl.GraphInstantiate(graph, flags)
    await acl.GraphLaunch(executable, low)
    await acl.SynchronizeStream(low)
    assert "".join(name for name, *_ in history(sim)) == order


@pytest.mark.parametrize("what", ["host function", "record of Event", "wait of Event", "allocation", "in a child"])
@tiny
async def test_the_body_of_an_if_node_may_have_kernels_copies_fills_and_graphs_only(what):
    """A stream that waits for a record in a body that does not run would wait without end."""
    [stream] = await streams(1)
    event, graph = await acl.CreateEvent(), await acl.GraphCreate()
    node = await acl.GraphAddIfNode(graph)
    inner = await acl.GraphCreate() if what == "in a child" else node.body
    await acl.BeginCaptureToGraph(stream, inner)
    match what:
        case "host function":
            await acl.LaunchHostFunc(stream, print)
        case "wait of Event":
            await acl.StreamWaitEvent(stream, event, external=True)
        case "allocation":
            await acl.FreeAsync(await acl.MallocAsync(8, stream), stream)
        case _:
            await acl.RecordEvent(event, stream, external=True)
    await acl.EndCapture(stream)
    if inner is not node.body:
        inner = await acl.GraphAddChildGraphNode(node.body, inner)
    with refused(
        Kind.NOT_SUPPORTED, "in the body of <if of body 0", "put it before or behind the IF node", takes_ns=1000
    ):
        await acl.GraphInstantiate(graph)
    await acl.GraphDestroy(graph)
    assert await acl.QueryEventStatus(event) is acl.Status.COMPLETE


@pytest.mark.parametrize("free", [acl.FreeAsync, acl.Free])
@tiny
async def test_memory_of_a_graph_may_be_freed_outside_after_its_last_launch(free):
    before, _ = await acl.GetMemInfo()
    [stream] = await streams(1)
    async with acl.capture(stream) as graph:
        scratch = await acl.MallocAsync(4096, stream)
        await double[1, stream](acl.Array(scratch, np.uint8))
    executable = await acl.GraphInstantiate(graph)
    await acl.GraphLaunch(executable, stream)
    await acl.GraphLaunch(executable, stream)
    await acl.SynchronizeStream(stream)  # Free() of a pool's memory waits for nothing
    await free(scratch)
    with refused(Kind.NOT_SUPPORTED, executable.name, scratch.allocation.name, "after the last launch", takes_ns=1000):
        await acl.GraphLaunch(executable, stream)
    await acl.GraphExecDestroy(executable)
    await acl.SynchronizeDevice()
    assert (await acl.GetMemInfo())[0] == before
    assert not acl.current_simulation().runtime.memory.leaks()


@tiny
async def test_a_graph_draws_itself():
    one, two = await streams(2)
    fork, join = [await acl.CreateEvent() for _ in range(2)]
    async with acl.capture(one) as graph:
        await A[1, one]()
        await acl.RecordEvent(fork, one)
        await acl.StreamWaitEvent(two, fork)
        await B[1, two]()
        await C[1, one]()
        await acl.RecordEvent(join, two)
        await acl.StreamWaitEvent(one, join)
        await D[1, one]()
    assert [line.partition("test_")[0].rstrip() for line in graph.draw().splitlines()] == [
        "●    A",
        "├─●  B",
        "● │  C",
        "●─╯  D",
    ]
    assert [line for line in graph.dot().splitlines() if "->" in line] == [
        "  0 -> 1;",
        "  0 -> 2;",
        "  2 -> 3;",
        "  1 -> 3;",
    ]


@tiny
async def test_a_trace_says_what_nodes_waited_for_and_which_node_others_did():
    sim = acl.current_simulation()
    one, two = await streams(2)
    executable = await diamond(one, two)
    await D[1, one]()
    await acl.GraphLaunch(executable, one)
    await A[1, one]()
    await acl.GraphLaunch(executable, two)
    await acl.SynchronizeStream(two)
    timeline = sim.trace.timeline()
    names = [op.name for op in timeline.ops]
    assert names == ["D", "A", "B", "C", "D", "A", "A", "B", "C", "D"]
    waited = [-1 if op.after is None else op.after for op in timeline.ops]
    assert waited == [-1, 0, 1, 1, 2, 4, 4, 6, 6, 7]
    assert timeline.calls[-1].after == 9  # SynchronizeStream


@tiny
async def test_work_behind_a_launch_without_operations_waits_for_the_work_before_it():
    sim = acl.current_simulation()
    [stream] = await streams(1)
    graph = await acl.GraphCreate()
    await acl.GraphAddEmptyNode(graph)
    executable = await acl.GraphInstantiate(graph)
    begin = sim.now_ns
    await A[1, stream]()
    await acl.GraphLaunch(executable, stream)
    await B[1, stream]()
    await acl.SynchronizeStream(stream)
    assert history(sim, begin) == [("A", 1_000, 11_000), ("B", 11_000, 21_000)]
