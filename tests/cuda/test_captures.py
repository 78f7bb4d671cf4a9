"""Captures through the driver: what they take, what they forbid, and what programs learn of them."""

import ctypes
import struct
import threading

import acl_py
from tests.cuda.calling import OUT
from tests.cuda.test_driver import device_history

GLOBAL, THREAD_LOCAL, RELAXED = range(3)


def streams(cuda, count):
    return [cuda.get("cuStreamCreate", OUT, 1)[1] for _ in range(count)]


def events(cuda, count):
    return [cuda.get("cuEventCreate", OUT, 2)[1] for _ in range(count)]


def info(cuda, stream):
    """The status, whether there is a graph, and the nodes that the next one depends on."""
    status, places = ctypes.c_uint32(9), [ctypes.c_uint64() for _ in range(5)]
    code = cuda("cuStreamGetCaptureInfo_v3", stream, ctypes.byref(status), *map(ctypes.byref, places))
    _, graph, nodes, _, count = [place.value for place in places]
    found = struct.unpack(f"<{count}Q", ctypes.string_at(nodes, 8 * count)) if count else ()
    return code, status.value, graph, found


def fork(cuda, first, second):
    """Draw *second* into the capture of *first*."""
    [event] = events(cuda, 1)
    return cuda("cuEventRecord", event, first), cuda("cuStreamWaitEvent", second, event, 0)


def test_a_capture_takes_the_work_of_two_streams_and_each_launch_does_it(cuda):
    one, two = streams(cuda, 2)
    memory = cuda.allocate(64)
    assert cuda("cuStreamBeginCapture_v2", one, GLOBAL) == 0
    assert cuda("cuMemsetD8Async", memory, 1, 8, one) == 0
    assert fork(cuda, one, two) == (0, 0)
    assert cuda("cuMemsetD8Async", memory + 8, 2, 16, two) == 0
    assert cuda("cuMemsetD8Async", memory + 24, 3, 40, one) == 0
    assert fork(cuda, two, one) == (0, 0)
    code, status, graph, nodes = info(cuda, one)
    assert (code, status, len(nodes)) == (0, 1, 2)
    assert cuda("cuStreamDestroy_v2", two) == 0  # its work is joined, so the capture goes on
    assert cuda.get("cuStreamEndCapture", one, OUT) == (0, graph)
    assert info(cuda, one) == (0, 0, 0, ())
    code, executable = cuda.get("cuGraphInstantiateWithFlags", OUT, graph, 0)
    assert (code, device_history()) == (0, [])
    assert [cuda("cuGraphLaunch", executable, one) for _ in range(2)] == [0, 0]
    assert cuda("cuStreamSynchronize", one) == 0
    result = ctypes.create_string_buffer(64)
    assert cuda("cuMemcpyDtoH_v2", result, memory, 64) == 0
    assert result.raw == bytes([1]) * 8 + bytes([2]) * 16 + bytes([3]) * 40
    assert [name for name, *_ in device_history()] == ["fill"] * 6 + ["d2h"]


def test_a_program_says_what_the_next_node_depends_on(cuda):
    [stream] = streams(cuda, 1)
    memory = cuda.allocate(8)
    assert cuda("cuStreamBeginCapture_v2", stream, RELAXED) == 0
    _, _, graph, _ = info(cuda, stream)
    code, empty = cuda.get("cuGraphAddEmptyNode", OUT, graph, None, 0)
    array = (ctypes.c_uint64 * 1)(empty)
    assert (code, cuda("cuStreamUpdateCaptureDependencies_v2", stream, array, None, 1, 1)) == (0, 0)
    assert info(cuda, stream)[3] == (empty,)
    assert cuda("cuMemsetD8Async", memory, 1, 8, stream) == 0
    _, _, _, [fill] = info(cuda, stream)
    assert cuda("cuStreamUpdateCaptureDependencies", stream, array, 1, 0) == 0
    assert info(cuda, stream)[3] == (fill, empty)
    assert cuda("cuStreamUpdateCaptureDependencies", stream, array, 1, 2) == 1
    assert cuda.get("cuStreamEndCapture", stream, OUT) == (0, graph)
    assert cuda("cuStreamUpdateCaptureDependencies", stream, array, 1, 1) == 401


def test_a_capture_into_a_graph_stands_behind_nodes_of_it(cuda):
    [stream] = streams(cuda, 1)
    memory = cuda.allocate(8)
    _, graph = cuda.get("cuGraphCreate", OUT, 0)
    _, empty = cuda.get("cuGraphAddEmptyNode", OUT, graph, None, 0)
    array = (ctypes.c_uint64 * 1)(empty)
    assert cuda("cuStreamBeginCaptureToGraph", stream, graph, array, None, 1, RELAXED) == 0
    assert cuda("cuMemsetD8Async", memory, 1, 8, stream) == 0
    assert cuda.get("cuStreamEndCapture", stream, OUT) == (0, graph)
    count = ctypes.c_uint64(2)
    before, behind = (ctypes.c_uint64 * 2)(), (ctypes.c_uint64 * 2)()
    assert cuda("cuGraphGetEdges", graph, before, behind, ctypes.byref(count)) == 0
    assert (count.value, before[0], before[1], behind[1]) == (1, empty, 0, 0)


def test_what_a_capture_forbids_has_the_codes_of_the_card(cuda):
    def begun(mode=GLOBAL):
        [stream] = streams(cuda, 1)
        assert cuda("cuStreamBeginCapture_v2", stream, mode) == 0
        return stream

    def end(stream):
        return info(cuda, stream)[1], cuda.get("cuStreamEndCapture", stream, OUT)[0]

    idle, memory = streams(cuda, 1)[0], cuda.allocate(8)
    assert cuda("cuStreamBeginCapture_v2", None, GLOBAL) == 900
    assert cuda("cuStreamBeginCapture_v2", idle, 3) == 1
    assert cuda.get("cuStreamEndCapture", idle, OUT)[0] == 401

    stream = begun()
    assert (cuda("cuStreamBeginCapture_v2", stream, GLOBAL), end(stream)) == (401, (1, 0))
    stream = begun()
    assert (cuda("cuStreamSynchronize", stream), cuda("cuMemsetD8Async", memory, 1, 8, stream)) == (900, 901)
    assert end(stream) == (2, 901)
    stream = begun()
    assert (cuda.get("cuMemAlloc_v2", OUT, 8)[0], end(stream)) == (900, (2, 901))
    stream = begun(RELAXED)
    assert (cuda.get("cuMemAlloc_v2", OUT, 8)[0], end(stream)) == (0, (1, 0))
    stream = begun(RELAXED)
    assert (cuda("cuCtxSynchronize"), end(stream)) == (900, (2, 901))

    stream, other = begun(), begun()
    [event] = events(cuda, 1)
    assert (cuda("cuEventRecord", event, stream), cuda("cuEventQuery", event)) == (0, 907)
    assert cuda("cuStreamWaitEvent", other, event, 0) == 902
    assert (end(stream), end(other)) == ((2, 901), (2, 901))

    assert cuda("cuEventRecord", event, idle) == 0
    stream = begun()
    assert (cuda("cuStreamWaitEvent", stream, event, 0), end(stream)) == (905, (2, 901))

    stream = begun()
    assert fork(cuda, stream, idle) == (0, 0)
    assert cuda.get("cuStreamEndCapture", idle, OUT)[0] == 903
    assert end(stream) == (2, 901)
    stream = begun()
    assert fork(cuda, stream, idle) == (0, 0)
    assert cuda("cuMemsetD8Async", memory, 1, 8, idle) == 0
    assert end(stream) == (1, 904)


def test_work_in_the_legacy_stream_is_refused_beside_a_capture_that_it_would_wait_for(cuda):
    _, blocking = cuda.get("cuStreamCreate", OUT, 0)
    memory = cuda.allocate(8)
    assert cuda("cuStreamBeginCapture_v2", blocking, RELAXED) == 0
    status = ctypes.c_uint32(9)
    assert cuda("cuStreamIsCapturing", None, ctypes.byref(status)) == 906
    assert cuda("cuMemsetD8Async", memory, 1, 8, None) == 906
    assert (cuda("cuStreamIsCapturing", blocking, ctypes.byref(status)), status.value) == (0, 2)
    assert cuda.get("cuStreamEndCapture", blocking, OUT)[0] == 901


def test_another_thread_ends_no_capture_and_is_forbidden_what_its_mode_says(cuda):
    [stream] = streams(cuda, 1)
    _, context = cuda.get("cuCtxGetCurrent", OUT)
    codes = []

    def other(mode):
        before = ctypes.c_uint32(mode)
        codes.extend(
            [
                cuda("cuCtxSetCurrent", context),
                cuda("cuThreadExchangeStreamCaptureMode", ctypes.byref(before)),
                before.value,
                cuda.get("cuMemAlloc_v2", OUT, 8)[0],
                cuda.get("cuStreamEndCapture", stream, OUT)[0],
            ]
        )

    for mode in (RELAXED, GLOBAL):
        assert cuda("cuStreamBeginCapture_v2", stream, GLOBAL) == 0
        thread = threading.Thread(target=other, args=(mode,))
        thread.start()
        thread.join()
    assert codes == [0, 0, THREAD_LOCAL, 0, 908, 0, 0, THREAD_LOCAL, 900, 908]
    assert cuda("cuThreadExchangeStreamCaptureMode", ctypes.byref(ctypes.c_uint32(3))) == 1


async def joined_stream_is_destroyed():
    one, two = await acl_py.CreateStream(), await acl_py.CreateStream()
    event, join = await acl_py.CreateEvent(), await acl_py.CreateEvent()
    async with acl_py.capture(one) as graph:
        await acl_py.RecordEvent(event, one)
        await acl_py.StreamWaitEvent(two, event)
        await acl_py.LaunchHostFunc(two, dict)
        await acl_py.RecordEvent(join, two)
        await acl_py.StreamWaitEvent(one, join)
        await acl_py.DestroyStream(two)
        await acl_py.LaunchHostFunc(one, dict)
    return [[each.index for each in node.dependencies] for node in graph.nodes]


def test_a_stream_that_an_event_drew_in_may_be_destroyed_before_the_end():
    assert acl_py.run(joined_stream_is_destroyed, device="tiny", rules="cuda") == [[], [0]]
