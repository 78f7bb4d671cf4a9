"""Streams: what an operation waits for."""

import gc
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig import Rig, tiny

from device_model.completions import NOTHING
from device_model.errors import DeviceError, Kind

WIDE = tiny(
    queues={"compute": 64}, cores={"resident_kernels": 10**6}
)  # no operation waits for a queue or for residents


def test_work_of_one_stream_runs_in_order_whatever_engine_does_it(rig):
    stream = rig.stream()
    rig.h2d(stream, 100)
    rig.kernel(stream, 50)
    rig.host_function(stream, 10)
    rig.d2d(stream, 20)
    rig.d2h(stream, 5)
    assert rig.run() == [
        ("h2d", 1, 0, 100), ("kernel", 1, 100, 150), ("<lambda>", 1, 150, 160), ("d2d", 1, 160, 180),
        ("d2h", 1, 180, 185),
    ]  # fmt: skip


def test_streams_do_not_wait_for_one_another(rig):
    for duration in (100, 50, 20):
        rig.kernel(rig.stream(), duration)
    assert rig.run() == [("kernel", 3, 0, 20), ("kernel", 2, 0, 50), ("kernel", 1, 0, 100)]


def test_a_wait_holds_what_comes_after_it_and_nothing_before(rig):
    one, two = rig.stream(), rig.stream()
    slow = rig.kernel(one, 100)
    rig.kernel(two, 10)
    two.wait(slow)
    two.wait(slow)
    rig.kernel(two, 10)
    rig.kernel(two, 10)
    assert rig.run() == [
        ("kernel", 2, 0, 10), ("kernel", 1, 0, 100), ("kernel", 2, 100, 110), ("kernel", 2, 110, 120),
    ]  # fmt: skip


def test_a_wait_for_what_is_done_is_nothing(rig):
    done = rig.kernel(rig.stream(), 100)
    rig.run()
    stream = rig.stream()
    stream.wait(done)
    stream.wait(NOTHING)
    assert (stream.idle, stream.pending) == (True, {})


def test_the_legacy_stream_waits_for_blocking_streams_and_they_wait_for_it(rig):
    blocking, other, free = rig.stream(), rig.stream(), rig.stream(nonblocking=True)
    rig.kernel(blocking, 100)
    rig.kernel(rig.legacy, 10)
    rig.kernel(other, 20)
    rig.kernel(free, 5)
    rig.kernel(rig.context.per_thread, 7)
    assert rig.run() == [
        ("kernel", 3, 0, 5), ("kernel", 1, 0, 100), ("kernel", 0, 100, 110), ("kernel", 0, 110, 117),
        ("kernel", 2, 110, 130),
    ]  # fmt: skip


def test_a_record_on_the_legacy_stream_counts_as_work(rig):
    one, two = rig.stream(), rig.stream()
    rig.kernel(one, 100)
    rig.event().record(rig.legacy)
    rig.kernel(two, 10)
    assert rig.run() == [("kernel", 1, 0, 100), ("kernel", 2, 100, 110)]


def test_a_wait_on_the_legacy_stream_counts_as_work(rig):
    free, two = rig.stream(nonblocking=True), rig.stream()
    rig.legacy.wait(rig.kernel(free, 100))
    rig.kernel(two, 10)
    assert rig.run() == [("kernel", 1, 0, 100), ("kernel", 2, 100, 110)]


def test_asking_the_legacy_stream_is_no_work(rig):
    one, two = rig.stream(), rig.stream()
    op = rig.kernel(one, 100)
    backlog = rig.legacy.backlog()
    assert not rig.legacy.idle
    rig.kernel(two, 10)
    rig.advance(99)
    assert (backlog.done, rig.legacy.idle) == (False, False)
    rig.advance(100)
    assert (backlog.done, backlog.end_ns, op.done, rig.legacy.idle) == (True, 100, True, True)
    assert rig.history.rows == [("kernel", 2, 0, 10), ("kernel", 1, 0, 100)]


def test_the_legacy_stream_is_busy_while_a_blocking_stream_only_waits(rig):
    blocking, free = rig.stream(), rig.stream(nonblocking=True)
    blocking.wait(rig.kernel(free, 100))
    assert (rig.legacy.idle, blocking.idle) == (False, False)
    assert not rig.legacy.backlog().done
    rig.run()
    assert (rig.legacy.idle, blocking.idle) == (True, True)


def test_each_context_has_a_default_stream_of_its_own(rig):
    other = rig.device.create_context(None)
    rig.kernel(rig.stream(context=other), 100)
    rig.kernel(rig.legacy, 10)
    rig.kernel(other.legacy, 10)
    assert rig.run() == [("kernel", 0, 0, 10), ("kernel", 1, 0, 100), ("kernel", 0, 100, 110)]


def test_a_stream_tells_what_it_is_in_a_traceback(rig):
    stream = rig.context.create_stream(nonblocking=False, priority=0, made="a.py:1")
    assert repr(stream) == "<Stream stream 1 of device 0 made at a.py:1>"
    rig.kernel(stream, 1)
    assert repr(stream) == "<Stream stream 1 of device 0 made at a.py:1 busy>"
    rig.context.destroy_stream(stream, "a.py:2")
    assert repr(stream) == "<Stream stream 1 of device 0 made at a.py:1 destroyed at a.py:2>"
    assert repr(rig.legacy) == "<Stream legacy of device 0 busy>"


# --- the rule, against a model without epochs


@dataclass
class Node:
    """A call on a stream in the model: it starts when all calls before it are over, and takes its own duration."""

    start: int
    end: int


STREAMS = ("legacy", "per thread", "blocking", "another", "nonblocking")
calls = st.lists(
    st.tuples(
        st.sampled_from(["kernel", "kernel", "record", "wait", "ask"]),
        st.integers(0, len(STREAMS) - 1),
        st.integers(0, 2),  # an event
        st.integers(1, 50),  # the duration of a kernel, and how long before the call
    ),
    max_size=40,
)


@given(calls, st.booleans())
def test_the_default_stream_rule(calls, delayed):
    """Each call is a node of a graph: behind the last of its stream, of all blocking streams if it is on the legacy
    stream, and of the legacy stream if it is on a blocking one. Records and waits are nodes without duration.
    """
    rig = Rig(WIDE)
    streams = [rig.legacy, rig.context.per_thread, rig.stream(), rig.stream(), rig.stream(nonblocking=True)]
    events = [rig.event() for _ in range(3)]
    last = [[] for _ in STREAMS]  # nodes of each stream
    recorded = [None] * 3
    kernels = []
    for what, index, which, duration in calls:
        stream = streams[index]
        if delayed:
            rig.advance(rig.now + duration)
        if what == "ask":
            assert stream.idle == (
                max((node.end for i in ((0, 1, 2, 3) if index == 0 else (index,)) for node in last[i]), default=0)
                <= rig.now
            )
            stream.backlog()
            continue
        before = last[index][-1:]
        if index == 0:
            before += [node for others in last[1:4] for node in others[-1:]]
        elif index < 4:
            before += last[0][-1:]
        if what == "wait" and recorded[which]:
            before.append(recorded[which])
        start = max([rig.now if what == "kernel" else 0, *(node.end for node in before)])
        node = Node(start, start + duration if what == "kernel" else start)
        last[index].append(node)
        if what == "kernel":
            kernels.append((rig.kernel(stream, duration), node))
        elif what == "record":
            events[which].record(stream)
            recorded[which] = node
        elif events[which].work is not None:
            stream.wait(events[which].work)
        else:
            stream.wait(NOTHING)
    rig.run()
    assert [(op.start_ns, op.end_ns) for op, _ in kernels] == [(node.start, node.end) for _, node in kernels]


# --- what must not grow


def test_waits_without_work_do_not_pile_up(rig):
    one, two = rig.stream(), rig.stream()
    sizes = []
    for round_ in range(1000):
        two.wait(rig.kernel(one, 10))
        rig.advance(round_ * 5)  # the device is behind by half
        sizes.append(len(two.pending))
    assert max(sizes) < 1100
    rig.run()
    for _ in range(100):
        two.wait(rig.kernel(one, 10))
        rig.run()
    assert len(two.pending) <= 8


@pytest.mark.parametrize("count", [20_000])
@pytest.mark.slow
def test_a_stream_may_wait_for_very_many_others(count):
    """If each further wait looked at all earlier ones, the time would grow with the square."""
    rig = Rig(WIDE)
    slow = rig.kernel(rig.stream(), 100)
    completions = []
    for _ in range(count):
        stream = rig.stream(nonblocking=True)
        stream.wait(slow)
        stream.wait(rig.legacy.tail)
        completions.append(rig.kernel(stream, 1))
    last = rig.stream()
    for completion in completions:
        last.wait(completion)
    rig.kernel(last, 7)
    assert rig.run()[-1] == ("kernel", count + 2, 101, 108)


def test_records_that_wait_for_records_may_form_a_long_chain(rig):
    one, two = rig.stream(), rig.stream()
    rig.kernel(one, 100)
    rig.kernel(two, 200)
    event = rig.event()
    for _ in range(5000):
        event.record(one)
        two.wait(event.work)
        event.record(two)
        one.wait(event.work)
    rig.kernel(one, 1)
    assert rig.run()[-1] == ("kernel", 1, 200, 201)
    assert (event.done, event.timestamp_ns()) == (True, 200)


def test_streams_that_come_and_go_leave_nothing_behind(rig):
    for round_ in range(2000):
        stream = rig.stream()
        rig.kernel(stream, 10)
        if round_ % 2:
            rig.run()
        rig.context.destroy_stream(stream, "here")
        rig.run()
    assert (rig.context.streams, rig.context.order.streams) == ({}, {})
    assert rig.context.everything() == [rig.legacy, rig.context.per_thread]


def test_legacy_work_ends_an_epoch(rig):
    """Work of blocking streams from before the last legacy work need not be looked at again."""
    streams = [rig.stream() for _ in range(3)]
    for stream in streams:
        rig.kernel(stream, 10)
    assert list(rig.context.order.streams) == streams
    rig.kernel(rig.legacy, 10)
    assert rig.context.order.streams == {}


def test_a_destroyed_stream_holds_back_the_legacy_stream_until_it_is_done(rig):
    stream = rig.stream()
    rig.kernel(stream, 100)
    rig.context.destroy_stream(stream, "here")
    rig.kernel(rig.legacy, 10)
    assert rig.run() == [("kernel", 1, 0, 100), ("kernel", 0, 100, 110)]


def test_a_long_run_keeps_nothing_of_what_is_over():
    rig = Rig()
    streams = [rig.stream() for _ in range(4)] + [rig.legacy]
    events = [rig.event() for _ in streams]
    rig.hooks.remove(rig.history)

    def rounds(count):
        for _ in range(count):
            for stream, event in zip(streams, events, strict=True):
                rig.h2d(stream, 10)
                rig.kernel(stream, 10)
                event.record(stream)
            for index, event in enumerate(events):
                streams[index - 1].wait(event.work)
            rig.advance(rig.now + 400)
        rig.run()
        gc.collect()
        return len(gc.get_objects())

    few = rounds(20)
    assert rounds(500) - few < 100


def test_only_streams_with_work_are_asked_for_it(rig):
    """A host that waits for a device looks at the streams that have got work, not at all that there are."""
    context = rig.context
    streams = [rig.stream() for _ in range(3)] + [rig.stream(nonblocking=True) for _ in range(3)]
    rig.kernel(streams[4], 10)
    rig.kernel(streams[1], 10)
    assert context.busy() == [rig.legacy, streams[1], streams[4]]
    rig.run()
    assert context.busy() == [rig.legacy]
    rig.kernel(streams[4], 10)
    assert (context.busy(), context.work().done) == ([rig.legacy, streams[4]], False)


def test_a_failure_is_found_by_the_host_that_waits_for_its_context(rig):
    """Also if its stream was destroyed and has ended meanwhile; a host that begins to wait later does not find it."""
    context = rig.context
    stream = rig.stream()
    rig.kernel(stream, 10)
    context.destroy_stream(stream, "here")
    failing = context.failing()
    stream.keep_error(DeviceError(Kind.UNKNOWN, "it failed"))
    rig.run()
    assert list(failing) == [stream]
    assert list(context.failing()) == []
