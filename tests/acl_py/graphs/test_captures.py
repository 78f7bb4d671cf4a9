"""Captures: what becomes a node, behind which others, and which calls lose a capture."""

import asyncio
from contextlib import contextmanager, nullcontext
from functools import partial
from inspect import unwrap

import numpy as np
import pytest
from histories import D2H, H2D, busy, history, tiny, tiny_acl

import acl_py as acl
from acl_py import CaptureMode, CaptureStatus, Kind

A, B, C, D = (busy(name, 10) for name in "ABCD")
NONE, ACTIVE, LOST = CaptureStatus


def shape(graph):
    """The names of the nodes of *graph*, each with those that it depends on."""
    return [(node.name, *(each.name for each in node.dependencies)) for node in graph.nodes]


@contextmanager
def refused(kind):
    """The call in this block fails as *kind*; it takes time, and may lose a capture."""
    with pytest.raises(acl.AclError) as caught:
        yield caught
    assert caught.value.kind is kind
    assert caught.value.remedy


def _line(test):
    """The first line of the function of *test*: that of its decorator."""
    return unwrap(test).__code__.co_firstlineno


async def streams(count):
    return [await acl.CreateStream() for _ in range(count)]


@tiny
async def test_what_is_captured_does_not_run():
    sim = acl.current_simulation()
    [stream] = await streams(1)
    async with acl.capture(stream) as graph:
        await A[1, stream]()
        await B[1, stream]()
    await acl.SynchronizeDevice()
    assert shape(graph) == [("A",), ("B", "A")]
    assert history(sim) == []


@tiny_acl
async def test_an_event_may_be_recorded_for_the_first_time_in_a_capture():
    """ACL refuses a wait for an event that was never recorded; this one was. Its time is never known."""
    one, two = await streams(2)
    fork = await acl.CreateEvent()
    async with acl.capture(one):
        await acl.RecordEvent(fork, one)
        await acl.StreamWaitEvent(two, fork)
        assert await acl.IsCapturing(two) is ACTIVE
    with refused(Kind.INVALID_VALUE):
        await acl.GetEventTimestamp(fork)
    with refused(Kind.INVALID_VALUE):
        await acl.QueryEventWaitStatus(fork)


@tiny
async def test_a_wait_for_an_event_of_the_capture_draws_a_stream_in_and_joins_it():
    one, two = await streams(2)
    fork, join = [await acl.CreateEvent() for _ in range(2)]
    async with acl.capture(one) as graph:
        await A[1, one]()
        await acl.RecordEvent(fork, one)
        await acl.StreamWaitEvent(two, fork)
        assert await acl.IsCapturing(two) is ACTIVE
        await B[1, two]()
        await C[1, one]()
        await acl.RecordEvent(join, two)
        await acl.StreamWaitEvent(one, join)
        assert [node.name for node in (await acl.CaptureInfo(one)).dependencies] == ["C", "B"]
        await D[1, one]()
    assert shape(graph) == [("A",), ("B", "A"), ("C", "A"), ("D", "C", "B")]
    assert [await acl.IsCapturing(each) for each in (one, two)] == [NONE, NONE]


@tiny
async def test_every_kind_of_work_becomes_a_node():
    [stream] = await streams(1)
    device, pinned = await acl.Malloc(64), await acl.MallocHost(64)
    async with acl.capture(stream) as graph:
        await acl.MemcpyAsync(device, 64, pinned, 64, H2D, stream)
        await acl.MemsetAsync(device, 64, 0, 64, stream)
        await acl.Memcpy2dAsync(pinned, 8, device, 16, 4, 4, D2H, stream)
        await acl.LaunchHostFunc(stream, print)
        scratch = await acl.MallocAsync(64, stream)
        await acl.FreeAsync(scratch, stream)
        await acl.GraphAddEmptyNode(graph, graph.nodes[-1:])
    kinds = ["copy", "fill", "copy", "host function", "allocation", "free", "empty"]
    assert [node.kind.value for node in graph.nodes] == kinds
    assert len(graph.edges) == 6


@tiny
async def test_a_captured_call_returns_a_completion_that_is_done():
    [stream] = await streams(1)
    async with acl.capture(stream):
        op = await A[1, stream]()
        await op
        assert op.done


@tiny
async def test_an_unjoined_stream_is_named_with_the_line_that_drew_it_in():
    one, two = await streams(2)
    event = await acl.CreateEvent()
    await acl.BeginCapture(one)
    await acl.RecordEvent(event, one)
    await acl.StreamWaitEvent(two, event)
    await B[1, two]()
    with refused(Kind.CAPTURE_UNJOINED) as caught:
        await acl.EndCapture(one)
    begun, drawn_in, added = (
        f"test_captures.py:{_line(test_an_unjoined_stream_is_named_with_the_line_that_drew_it_in) + line}"
        for line in (4, 6, 7)
    )
    assert caught.value.what == (
        f"<B, node 0 of graph 1 added at {added}> in stream 2, drawn in at {drawn_in}, is not joined to "
        f"<capture of stream 1 begun at {begun}>"
    )
    assert caught.value.remedy == "record an event on stream 2 behind it, and let stream 1 wait for that"
    assert await acl.IsCapturing(two) is NONE


@tiny
async def test_a_stream_that_only_waited_needs_no_join():
    one, two = await streams(2)
    event = await acl.CreateEvent()
    async with acl.capture(one) as graph:
        await A[1, one]()
        await acl.RecordEvent(event, one)
        await acl.StreamWaitEvent(two, event)
    assert shape(graph) == [("A",)]


# --- each call in each state

STATES = ("none", "origin", "drawn in", "lost", "legacy")


async def _stream_in(state):
    one, two = await streams(2)
    if state == "none":
        return one
    event = await acl.CreateEvent()
    await acl.BeginCapture(one, CaptureMode.RELAXED)
    await acl.RecordEvent(event, one)
    await acl.StreamWaitEvent(two, event)
    if state == "lost":
        with refused(Kind.CAPTURE_UNSUPPORTED):
            await acl.StreamQuery(one)
    return {"drawn in": two, "legacy": acl.LEGACY_STREAM}.get(state, one)


async def _launch(stream):
    await A[1, stream]()


async def _copy(stream):
    await acl.MemcpyAsync(await acl.Malloc(8), 8, await acl.MallocHost(8), 8, H2D, stream)


async def _record(stream):
    await acl.RecordEvent(await acl.CreateEvent(), stream)


async def _wait(stream):
    await acl.StreamWaitEvent(stream, await acl.CreateEvent())


async def _allocate(stream):
    await acl.MallocAsync(8, stream)


async def _launch_graph(stream):
    await acl.GraphLaunch(await acl.GraphInstantiate(await acl.GraphCreate()), stream)


UNSUPPORTED, INVALIDATED, IMPLICIT = Kind.CAPTURE_UNSUPPORTED, Kind.CAPTURE_INVALIDATED, Kind.CAPTURE_IMPLICIT
BEGUN, NOT, UNMATCHED = Kind.CAPTURE_BEGUN, Kind.NOT_CAPTURING, Kind.CAPTURE_UNMATCHED
ANSWERS = [  # by state; None is success
    (_launch, (None, None, None, INVALIDATED, IMPLICIT)),
    (_copy, (None, None, None, INVALIDATED, IMPLICIT)),
    (_record, (None, None, None, INVALIDATED, IMPLICIT)),
    (_wait, (None, None, None, INVALIDATED, IMPLICIT)),
    (_allocate, (None, None, None, INVALIDATED, IMPLICIT)),
    (_launch_graph, (None, UNSUPPORTED, UNSUPPORTED, INVALIDATED, IMPLICIT)),
    (acl.SynchronizeStream, (None, UNSUPPORTED, UNSUPPORTED, INVALIDATED, IMPLICIT)),
    (acl.StreamQuery, (None, UNSUPPORTED, UNSUPPORTED, INVALIDATED, IMPLICIT)),
    (acl.BeginCapture, (None, BEGUN, BEGUN, BEGUN, UNSUPPORTED)),
    (acl.EndCapture, (NOT, None, UNMATCHED, INVALIDATED, NOT)),
    (acl.IsCapturing, (None, None, None, None, IMPLICIT)),
    (acl.CaptureInfo, (None, None, None, None, IMPLICIT)),
]


@pytest.mark.parametrize(
    ("call", "state", "kind"),
    [
        pytest.param(call, state, kind, id=f"{call.__name__}-{state}")
        for call, kinds in ANSWERS
        for state, kind in zip(STATES, kinds, strict=True)
    ],
)
@tiny
async def test_each_call_in_each_state(call, state, kind):
    stream = await _stream_in(state)
    if kind is None:
        await call(stream)
    else:
        with refused(kind):
            await call(stream)


@tiny
async def test_a_lost_capture_says_which_call_lost_it():
    one, two = await streams(2)
    await acl.BeginCapture(one)
    with refused(Kind.CAPTURE_UNSUPPORTED):
        await acl.SynchronizeStream(two)
    assert await acl.IsCapturing(one) is LOST
    with refused(Kind.CAPTURE_INVALIDATED) as caught:
        await A[1, one]()
    line = _line(test_a_lost_capture_says_which_call_lost_it) + 5
    assert f"lost by SynchronizeStream() at test_captures.py:{line}" in caught.value.what
    with refused(Kind.CAPTURE_INVALIDATED):
        await acl.EndCapture(one)
    await A[1, one]()  # runs


@tiny
async def test_an_error_of_an_argument_loses_nothing():
    [stream] = await streams(1)
    async with acl.capture(stream) as graph:
        with refused(Kind.INVALID_LAUNCH):
            await A[0, stream]()
        await A[1, stream]()
    assert shape(graph) == [("A",)]


@tiny
async def test_memory_that_no_capture_allocated_is_not_freed_in_one():
    [stream] = await streams(1)
    scratch = await acl.MallocAsync(64, stream)
    async with acl.capture(stream):
        with refused(Kind.INVALID_VALUE):
            await acl.FreeAsync(scratch, stream)


# --- modes


@pytest.mark.parametrize(
    ("mode", "own", "inside", "outside"),
    [
        (CaptureMode.GLOBAL, None, False, False),
        (CaptureMode.THREAD_LOCAL, None, False, True),
        (CaptureMode.RELAXED, None, True, True),
        (CaptureMode.GLOBAL, CaptureMode.THREAD_LOCAL, False, True),
        (CaptureMode.GLOBAL, CaptureMode.RELAXED, True, True),
    ],
)
@tiny
async def test_which_hosts_may_allocate_beside_a_capture(mode, own, inside, outside):
    """*inside* the task that captures, and *outside*, in another one; both have exchanged their mode for *own*."""

    async def allocates():
        if own is not None:
            await acl.ThreadExchangeStreamCaptureMode(own)
        try:
            await acl.Malloc(8)
        except acl.AclError as error:
            return error.kind
        return None

    for task, expected in ((asyncio.create_task, outside), (lambda call: call, inside)):
        [stream] = await streams(1)
        await acl.BeginCapture(stream, mode)
        assert await task(allocates()) is (None if expected else Kind.CAPTURE_UNSUPPORTED)
        assert await acl.IsCapturing(stream) is (ACTIVE if expected else LOST)
        if expected:
            await acl.EndCapture(stream)
        else:
            with refused(Kind.CAPTURE_INVALIDATED):
                await acl.EndCapture(stream)


@pytest.mark.parametrize("mode", CaptureMode)
@tiny
async def test_another_task_ends_a_relaxed_capture_only(mode):
    [stream] = await streams(1)
    await acl.BeginCapture(stream, mode)
    if mode is CaptureMode.RELAXED:
        await asyncio.create_task(acl.EndCapture(stream))
    else:
        with refused(Kind.CAPTURE_WRONG_THREAD):
            await asyncio.create_task(acl.EndCapture(stream))
    assert await acl.IsCapturing(stream) is NONE


@pytest.mark.parametrize("mode", CaptureMode)
@tiny
async def test_no_capture_outlives_a_wait_for_its_device(mode):
    [stream] = await streams(1)
    await acl.BeginCapture(stream, mode)
    with refused(Kind.CAPTURE_UNSUPPORTED):
        await acl.SynchronizeDevice()
    assert await acl.IsCapturing(stream) is LOST


@tiny
async def test_a_copy_in_the_legacy_stream_loses_the_capture_of_a_blocking_stream_only():
    device, pinned = await acl.Malloc(8), await acl.MallocHost(8)
    for nonblocking, kind in ((False, Kind.CAPTURE_IMPLICIT), (True, None)):
        stream = await acl.CreateStream(nonblocking=nonblocking)
        await acl.BeginCapture(stream, CaptureMode.RELAXED)
        if kind is None:
            await acl.Memcpy(device, 8, pinned, 8, H2D)
        else:
            with refused(kind):
                await acl.Memcpy(device, 8, pinned, 8, H2D)
        assert await acl.IsCapturing(stream) is (ACTIVE if kind is None else LOST)
        with nullcontext() if kind is None else refused(Kind.CAPTURE_INVALIDATED):
            await acl.EndCapture(stream)


# --- events


@tiny
async def test_an_event_of_a_capture_is_for_streams_of_the_capture_only():
    one, two = await streams(2)
    event = await acl.CreateEvent()
    await acl.BeginCapture(one)
    await acl.RecordEvent(event, one)
    with refused(Kind.CAPTURED_EVENT):
        await acl.QueryEventStatus(event)
    with refused(Kind.CAPTURE_INVALIDATED):
        await acl.EndCapture(one)
    for call in (acl.QueryEventStatus(event), acl.SynchronizeEvent(event), acl.StreamWaitEvent(two, event)):
        with refused(Kind.INVALID_VALUE):
            await call
    await acl.RecordEvent(event, two)
    await acl.SynchronizeEvent(event)


@tiny
async def test_a_capture_waits_for_nothing_outside_of_it():
    one, two = await streams(2)
    event = await acl.CreateEvent()
    await acl.RecordEvent(event, two)
    await acl.BeginCapture(one)
    with refused(Kind.CAPTURE_ISOLATION):
        await acl.StreamWaitEvent(one, event)
    assert await acl.IsCapturing(one) is LOST


@tiny
async def test_two_captures_do_not_become_one():
    one, two = await streams(2)
    event = await acl.CreateEvent()
    await acl.BeginCapture(one)
    await acl.RecordEvent(event, one)
    await acl.BeginCapture(two)
    with refused(Kind.CAPTURE_MERGE):
        await acl.StreamWaitEvent(two, event)
    assert [await acl.IsCapturing(each) for each in (one, two)] == [LOST, LOST]


# --- ends


@tiny
async def test_an_exception_ends_a_capture_and_comes_out():
    [stream] = await streams(1)
    with pytest.raises(ZeroDivisionError):
        async with acl.capture(stream):
            await acl.LaunchKernel(A, 1 // 0, (), stream)
    await A[1, stream]()
    await acl.SynchronizeStream(stream)


@tiny
async def test_a_task_that_is_cancelled_ends_its_capture():
    [stream] = await streams(1)
    begun = asyncio.Event()

    async def captures():
        async with acl.capture(stream):
            begun.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(captures())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await acl.IsCapturing(stream) is NONE


@tiny
async def test_a_stream_that_is_destroyed_takes_its_capture_along():
    one, two = await streams(2)
    await acl.BeginCapture(one)
    await acl.DestroyStream(one)
    await acl.SynchronizeStream(two)  # is safe again


@tiny_acl
async def test_acl_has_its_own_codes_and_forbids_less():
    [stream] = await streams(1)
    await acl.BeginCapture(stream)
    await acl.Malloc(8)
    with refused(Kind.CAPTURE_BEGUN) as caught:
        await acl.BeginCapture(stream)
    assert caught.value.code == 107027
    await acl.EndCapture(stream)
    with refused(Kind.CAPTURE_IMPLICIT) as caught:
        await acl.BeginCapture(None)
    assert caught.value.code == 107031


@pytest.mark.parametrize("where", ["in the capture", "beside it"])
@tiny_acl
async def test_acl_forbids_asynchronous_copies_of_pageable_memory(where):
    one, two = await streams(2)
    buffer, array = await acl.Malloc(8), np.zeros(8, np.uint8)
    copy = partial(acl.MemcpyAsync, buffer, 8, array, 8, H2D, one if where == "in the capture" else two)
    await acl.BeginCapture(one, CaptureMode.RELAXED)
    await copy()
    await acl.EndCapture(one)
    await acl.BeginCapture(one)
    with refused(Kind.CAPTURE_UNSUPPORTED) as caught:
        await copy()
    assert "MemcpyAsync() of pageable memory is unsafe beside a capture" in str(caught.value)
    with refused(Kind.CAPTURE_INVALIDATED) as caught:
        await acl.EndCapture(one)
    assert "lost by MemcpyAsync() at" in str(caught.value)


@tiny
async def test_two_tasks_capture_into_one_graph():
    """Each has a chain of its own there; a wait from one to the other would be one of two captures."""
    one, two = await streams(2)
    graph, event = await acl.GraphCreate(), await acl.CreateEvent()

    async def add(stream, *kernels):
        await acl.BeginCaptureToGraph(stream, graph, mode=CaptureMode.RELAXED)
        for each in kernels:
            await each[1, stream]()
            await asyncio.sleep(1e-6)
        assert await acl.EndCapture(stream) is graph

    await asyncio.gather(add(one, A, B), add(two, C, D))
    assert shape(graph) == [("A",), ("C",), ("B", "A"), ("D", "C")]
    await acl.BeginCaptureToGraph(one, graph)
    await acl.BeginCaptureToGraph(two, graph)
    await acl.RecordEvent(event, one)
    with refused(Kind.CAPTURE_MERGE):
        await acl.StreamWaitEvent(two, event)
    for stream in (one, two):
        with refused(Kind.CAPTURE_INVALIDATED):
            await acl.EndCapture(stream)


@pytest.mark.parametrize("rules", ["cuda", "acl"])
async def test_a_copy_of_pageable_rows_becomes_a_node_and_moves_nothing(rules):
    async with acl.simulate(device="tiny", rules=rules):
        [stream] = await streams(1)
        device, array = await acl.Malloc(16), np.zeros(16, np.uint8)
        await acl.Memset(device, 16, 7, 16)
        await acl.BeginCapture(stream, CaptureMode.RELAXED)
        await acl.Memcpy2dAsync(array, 8, device, 8, 4, 2, D2H, stream)
        graph = await acl.EndCapture(stream)
        before = array.tolist()
        await (await acl.GraphLaunch(await acl.GraphInstantiate(graph), stream))
        assert (before, array.tolist()) == ([0] * 16, [7, 7, 7, 7, 0, 0, 0, 0] * 2)
        if rules == "acl":
            await acl.BeginCapture(stream)
            with refused(Kind.CAPTURE_UNSUPPORTED) as caught:
                await acl.Memcpy2dAsync(array, 8, device, 8, 4, 2, D2H, stream)
            assert "Memcpy2dAsync() of pageable memory is unsafe beside a capture" in str(caught.value)
