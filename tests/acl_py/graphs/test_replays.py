"""Replaying a captured graph gives the bytes of the stream program that it was captured from: random programs."""

from random import Random

import numpy as np
import pytest
from histories import H2D
from replaying import DEVICE, HOST, NBYTES, program, queue, run

import acl_py as acl
from tests.campaigns import many

RUNS = 3  # of each program, with other bytes of the host each time


async def in_streams(steps, streams, buffers):
    """Return what runs *steps*: it queues them again each time."""

    async def again():
        await queue(steps, streams, buffers)

    return again


async def captured(steps, streams, buffers):
    """Return what runs *steps*: it launches the graph that was captured from them."""
    return await _launching(await _graph(steps, streams, buffers), streams)


async def as_child(steps, streams, buffers):
    """The same, as a part of another graph."""
    graph = await acl.GraphCreate()
    first = await acl.GraphAddEmptyNode(graph)
    await acl.GraphAddChildGraphNode(graph, await _graph(steps, streams, buffers), [first])
    return await _launching(graph, streams)


async def in_body(steps, streams, buffers):
    """The same, as the body of an IF node."""
    graph = await acl.GraphCreate()
    node = await acl.GraphAddIfNode(graph, default=True)
    await acl.BeginCaptureToGraph(streams[0], node.body)
    await queue(steps, streams, buffers)
    await acl.EndCapture(streams[0])
    return await _launching(graph, streams)


async def _graph(steps, streams, buffers):
    async with acl.capture(streams[0]) as graph:
        await queue(steps, streams, buffers)
    return graph


async def _launching(graph, streams):
    executable = await acl.GraphInstantiate(graph)

    async def again():
        await acl.GraphLaunch(executable, streams[0])

    return again


async def left(way, steps):
    """The bytes of all buffers after each run of *steps* in that *way*."""
    buffers = [await acl.Malloc(NBYTES) for _ in range(DEVICE)] + [await acl.MallocHost(NBYTES) for _ in range(HOST)]
    streams = [await acl.CreateStream() for _ in range(4)]
    for buffer in buffers[:DEVICE]:
        await acl.Memcpy(buffer, NBYTES, np.arange(NBYTES, dtype=np.uint8), NBYTES, H2D)
    again = await way(steps, streams, buffers)
    found = []
    for each in inputs():
        for buffer, array in zip(buffers[DEVICE:], each, strict=True):
            buffer.numpy()[:] = array
        await again()
        await acl.SynchronizeStream(streams[0])
        found.append([bytes(buffer.allocation.view) for buffer in buffers])
    return found


def inputs():
    """What the host writes into its buffers before each run."""
    return np.random.default_rng(1).integers(0, 256, (RUNS, HOST, NBYTES), np.uint8)


def computed(steps):
    """The same without a device."""
    arrays = [np.arange(NBYTES, dtype=np.uint8) for _ in range(DEVICE)] + [None] * HOST
    found = []
    for each in inputs():
        arrays[DEVICE:] = each.copy()
        run(steps, arrays)
        found.append([array.tobytes() for array in arrays])
    return found


async def both(way, steps):
    """The bytes that *steps* leave in streams, and in that *way*."""
    return [await left(each, steps) for each in (in_streams, way)]


def check(seeds, effects="strong"):
    for seed in seeds:
        steps = program(seed)
        way = Random(seed).choice((captured, captured, as_child, in_body))
        if way is in_body:  # it may have neither host functions nor memory of its own
            steps = [step for step in steps if getattr(step, "kind", "") not in ("host function", "scratch")]
        expected = [computed(steps)] * 2
        for rules in ("cuda", "acl"):
            found = acl.run(both, way, steps, device="tiny", rules=rules, effects=effects, trace=False)
            assert found == expected, f"program {seed}, {way.__name__}, {rules}"


@pytest.mark.one_in(12)
@pytest.mark.parametrize("first", range(0, 300, 25))
def test_300_random_programs_leave_the_same_bytes_as_graphs(first):
    check(range(first, first + 25))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("first", [0, 12])
@pytest.mark.parametrize("effects", ["weak", "torn"])
def test_luck_changes_no_bytes_of_graphs(effects, first):
    check(range(first, first + 12), effects)


@pytest.mark.slow
def test_many_random_programs_leave_the_same_bytes_as_graphs():
    """2,000 did; the mistake that they found, a wait for an event of a capture, came early."""
    check(range(300, 300 + many(600)))
