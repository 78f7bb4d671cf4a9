"""Events: snapshots of what a stream was given."""

import pytest
from rig import Rig


def test_an_event_stands_for_what_its_stream_was_given_before_the_record(rig):
    stream, event = rig.stream(), rig.event()
    rig.kernel(stream, 100)
    event.record(stream)
    rig.kernel(stream, 100)
    rig.advance(99)
    assert not event.done
    rig.advance(100)
    assert (event.done, event.timestamp_ns()) == (True, 100)


def test_an_event_never_recorded_is_done(rig):
    event = rig.event()
    assert (event.done, event.work, repr(event)) == (True, None, "<Event 1 never recorded>")
    with pytest.raises(AssertionError, match="has no time"):
        event.timestamp_ns()


def test_the_last_record_counts_and_waits_keep_what_they_captured(rig):
    one, two, three, event = rig.stream(), rig.stream(), rig.stream(), rig.event()
    rig.kernel(one, 100)
    event.record(one)
    two.wait(event.work)
    rig.kernel(one, 100)
    event.record(one)
    three.wait(event.work)
    rig.kernel(two, 10)
    rig.kernel(three, 10)
    assert rig.run() == [
        ("kernel", 1, 0, 100), ("kernel", 2, 100, 110), ("kernel", 1, 100, 200), ("kernel", 3, 200, 210),
    ]  # fmt: skip


def test_recording_again_makes_a_done_event_pending(rig):
    stream, event = rig.stream(), rig.event()
    event.record(stream)
    assert (event.done, repr(event)) == (True, "<Event 1>")
    rig.kernel(stream, 100)
    event.record(stream)
    assert (event.done, repr(event)) == (False, "<Event 1 pending>")
    with pytest.raises(AssertionError, match="has no time yet"):
        event.timestamp_ns()


def test_the_time_of_a_record_behind_finished_work_is_that_of_the_call(rig):
    stream, idle, busy = rig.stream(), rig.event(), rig.event()
    rig.kernel(stream, 100)
    busy.record(stream)
    rig.advance(500)
    idle.record(stream)
    assert (busy.timestamp_ns(), idle.timestamp_ns()) == (100, 500)


def test_a_record_covers_what_its_stream_waits_for(rig):
    one, two, event = rig.stream(), rig.stream(), rig.event()
    two.wait(rig.kernel(one, 100))
    event.record(two)
    rig.run()
    assert event.timestamp_ns() == 100


def test_a_record_on_the_legacy_stream_covers_the_blocking_streams(rig):
    event = rig.event()
    rig.kernel(rig.stream(), 100)
    rig.kernel(rig.stream(nonblocking=True), 500)
    event.record(rig.legacy)
    rig.advance(100)
    assert (event.done, event.timestamp_ns()) == (True, 100)


def test_an_event_of_one_device_holds_a_stream_of_another():
    """Devices share a scheduler, and so one time."""
    rig = Rig()
    other = Rig(beside=rig)
    two = other.stream()
    two.wait(rig.kernel(rig.stream(), 100))
    other.kernel(two, 10)
    rig.run()
    assert other.history.rows == [("kernel", 1, 0, 100), ("kernel", 1, 100, 110)]


def test_an_event_tells_what_it_is_in_a_traceback(rig):
    event = rig.context.create_event(timing=False, made="a.py:1")
    event.destroy("a.py:2")
    assert repr(event) == "<Event 1 made at a.py:1 destroyed at a.py:2>"
