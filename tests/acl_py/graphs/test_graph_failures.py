"""Launches that fail, hang, are aborted or reset: fault rules on nodes, chains of deadlocks, what stays behind."""

import numpy as np
import pytest
from histories import D2H, busy, history, tiny, tiny_acl

import acl_py as acl
from acl_py import faults

A, B = busy("A", 10), busy("B", 10)


@acl.kernel(cost=acl.Cost(us=10))
def add(x: acl.InOut):
    x += 1


async def captured(stream, *kernels):
    async with acl.capture(stream) as graph:
        for each in kernels:
            await each[1, stream]()
    return await acl.GraphInstantiate(graph)


def names(sim, since=0):
    return [name for name, *_ in history(sim, since)]


# --- fault rules


@tiny
async def test_a_rule_strikes_a_node_of_the_launch_that_it_chooses():
    sim = acl.current_simulation()
    [stream, buffer] = [await acl.CreateStream(), await acl.Malloc(8)]
    await acl.Memset(buffer, 8, 0, 8)
    async with acl.capture(stream) as graph:
        await add[1, stream](acl.Array(buffer))
        await add[1, stream](acl.Array(buffer))
    executable = await acl.GraphInstantiate(graph)
    with sim.fault(faults.fail(op="kernel", nth=4)) as rule:
        for _ in range(2):
            await acl.GraphLaunch(executable, stream)
        with pytest.raises(acl.AclError, match=r"injected by fault rule fail\(op='kernel', nth=4\)"):
            await acl.SynchronizeStream(stream)
    assert (rule.seen, rule.struck) == (4, 1)


@tiny
async def test_a_wrong_byte_of_a_node_is_that_of_one_launch():
    sim = acl.current_simulation()
    [stream, buffer] = [await acl.CreateStream(), await acl.Malloc(8)]
    await acl.Memset(buffer, 8, 0, 8)
    async with acl.capture(stream) as graph:
        await add[1, stream](acl.Array(buffer))
    executable, left = await acl.GraphInstantiate(graph), np.zeros(8, np.uint8)
    with sim.fault(faults.corrupt(op="kernel", nth=2)):
        for _ in range(3):
            await acl.GraphLaunch(executable, stream)
        await acl.SynchronizeStream(stream)
    await acl.Memcpy(left, 8, buffer, 8, D2H)
    assert left.tolist() == [3, 3, 3, 3, (2 ^ 0xFF) + 1, 3, 3, 3]


@tiny
async def test_a_node_that_is_late_keeps_those_behind_it():
    sim = acl.current_simulation()
    stream = await acl.CreateStream()
    executable = await captured(stream, A, B)
    await acl.GraphUpload(executable, stream)
    begin = sim.now_ns
    with sim.fault(faults.delay(op="kernel", name="A", us=50)):
        await acl.GraphLaunch(executable, stream)
    await acl.SynchronizeStream(stream)
    assert history(sim, begin) == [("A", 51_000, 61_000), ("B", 61_000, 71_000)]


@tiny
async def test_the_chain_of_a_deadlock_goes_through_a_launch():
    sim = acl.current_simulation()
    stream, other, event = await acl.CreateStream(name="one"), await acl.CreateStream(), await acl.CreateEvent()
    async with acl.capture(stream) as graph:
        await A[1, stream]()
        await acl.StreamWaitEvent(stream, event, external=True)
        await B[1, stream]()
    executable = await acl.GraphInstantiate(graph)
    with sim.fault(faults.hang(op="kernel")):
        await A[1, other]()
    await acl.RecordEvent(event, other)
    await acl.GraphLaunch(executable, stream)
    with pytest.raises(acl.DeadlockError) as caught:
        await acl.SynchronizeStream(stream)
    _, _, _, *chain, _ = str(caught.value).splitlines()
    words = ["launch of executable of graph 1", "B on stream 'one'", "A on stream 2", "the end of a hang"]
    assert [line.strip()[: len(word)] for line, word in zip(chain, words, strict=True)] == words
    await acl.ResetDevice(0)


@tiny
async def test_a_node_that_hangs_keeps_the_rest_of_its_launch():
    sim = acl.current_simulation()
    stream = await acl.CreateStream()
    executable = await captured(stream, A, B)
    with sim.fault(faults.hang(op="kernel", name="B")):
        await acl.GraphLaunch(executable, stream)
    with pytest.raises(acl.DeadlockError, match=r"the turn of|B on stream 1 .* waits for"):
        await acl.SynchronizeStream(stream)
    assert names(sim) == ["A"]
    await acl.ResetDevice(0)


# --- aborts and resets


@pytest.mark.parametrize("running", [False, True])
@tiny_acl
async def test_an_aborted_launch_ends_and_its_executable_can_be_launched_again(running):
    sim = acl.current_simulation()
    stream, other = await acl.CreateStream(), await acl.CreateStream()
    executable = await captured(stream, A, B, B)
    if not running:
        await A[1, stream]()
    launch = await acl.GraphLaunch(executable, stream)
    if running:
        await acl.HostWork(15)
    await acl.StreamAbort(stream)
    assert launch.done
    with pytest.raises(acl.AclError):
        await acl.SynchronizeStream(stream)
    begin = sim.now_ns
    await acl.HostWork(100)
    await acl.GraphLaunch(executable, other)
    await acl.SynchronizeStream(other)
    assert [name for name, start, _ in history(sim, begin) if start > 100_000] == ["A", "B", "B"]


@tiny_acl
async def test_an_aborted_launch_that_waits_for_another_stream_leaves_nothing_behind():
    """Its turn comes only afterwards: by then its body does not run, and its record is over."""
    sim = acl.current_simulation()
    stream, other = await acl.CreateStream(), await acl.CreateStream()
    before, reached = await acl.CreateEvent(), await acl.CreateEvent()
    async with acl.capture(stream) as graph:
        await A[1, stream]()
        await acl.RecordEvent(reached, stream, external=True)
    node = await acl.GraphAddIfNode(graph, graph.nodes[:1], default=True)
    await acl.BeginCaptureToGraph(stream, node.body)
    await A[1, stream]()
    await acl.EndCapture(stream)
    executable = await acl.GraphInstantiate(graph)
    await B[1, other]()
    await acl.RecordEvent(before, other)
    await acl.StreamWaitEvent(stream, before)
    launch = await acl.GraphLaunch(executable, stream)
    await acl.StreamAbort(stream)
    assert launch.done
    with pytest.raises(acl.AclError) as caught:
        await acl.SynchronizeEvent(reached)
    assert caught.value.kind is acl.Kind.STREAM_ABORTED
    await acl.SynchronizeStream(other)
    await acl.HostWork(100)
    assert names(sim) == ["B"]
    await acl.GraphLaunch(executable, other)
    await acl.SynchronizeStream(other)
    assert names(sim) == ["B", "A", "A"]


@tiny
async def test_a_reset_ends_what_a_launch_waits_for():
    sim = acl.current_simulation()
    stream = await acl.CreateStream()
    executable = await captured(stream, A)
    with sim.fault(faults.hang(op="kernel")):
        await acl.GraphLaunch(executable, stream)
    await acl.ResetDevice(0)
    begin, stream = sim.now_ns, await acl.CreateStream()
    await B[1, stream]()
    await acl.SynchronizeStream(stream)
    assert names(sim, begin) == ["B"]
