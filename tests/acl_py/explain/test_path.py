"""The critical path of recordings that are written by hand: each kind of step backwards in time."""

from itertools import pairwise

import pytest
from hand import call, op, recording, wait

from acl_py.causes.lines import path_text
from acl_py.causes.path import critical_path, makespan_ns
from acl_py.trace.rows.timeline import Sleep
from device_model.completions import Why


def path(timeline):
    """The parts as (from, to, cause, operation or call)."""
    parts = critical_path(timeline)
    assert sum(part.ns for part in parts) == makespan_ns(timeline)
    assert all(a.end_ns == b.begin_ns for a, b in pairwise(parts))
    names = [
        timeline.calls[part.call].name
        if part.call is not None
        else timeline.ops[part.op].name
        if part.op is not None
        else ""
        for part in parts
    ]
    return [(part.begin_ns, part.end_ns, str(part.cause), name) for part, name in zip(parts, names, strict=True)]


def test_an_empty_run_has_an_empty_path():
    assert path(recording()) == []


def test_a_host_that_makes_calls_and_then_computes():
    assert path(recording(calls=[call("Malloc", 0, 10), call("Free", 30, 40)], end=45)) == [
        (0, 10, "call", "Malloc"),
        (10, 30, "program", ""),
        (30, 40, "call", "Free"),
        (40, 45, "program", ""),
    ]


def test_a_call_that_waits_for_an_operation_which_its_host_had_queued():
    run = recording(
        [op("k", 15, 100, queued=10)],
        [call("LaunchKernel", 0, 10), call("SynchronizeStream", 10, 102, (13, 100, 0))],
    )
    assert path(run) == [
        (0, 10, "call", "LaunchKernel"),
        (10, 15, "host", "k"),
        (15, 100, "work", "k"),
        (100, 102, "call", "SynchronizeStream"),
    ]


def test_an_operation_that_ends_after_the_host():
    assert path(recording([op("k", 0, 100)], [call("LaunchKernel", 0, 0)])) == [(0, 100, "work", "k")]


@pytest.mark.parametrize("why", [Why.ORDER, Why.EVENT, Why.LEGACY, Why.ENGINE, Why.GAP, Why.CORES, Why.QUEUE])
def test_an_operation_that_waits_for_another(why):
    run = recording([op("a", 0, 100), op("b", 105, 120, why=why, after=0)])
    assert path(run) == [(0, 100, "work", "a"), (100, 105, why.name.lower(), "b"), (105, 120, "work", "b")]


def test_the_path_of_a_cuda_card_says_that_operations_waited_for_sms():
    run = recording([op("a", 0, 100), op("b", 105, 120, why=Why.CORES, after=0)], device="h200", rules="cuda")
    assert path_text(run).splitlines()[2] == "          0.0 us    4 %  SMs      operations waited for free SMs"


@pytest.mark.parametrize("why", [Why.HOST, Why.STAGING, Why.FAULT])
def test_an_operation_that_the_host_was_late_with(why):
    run = recording([op("k", 30, 100, queued=20, why=why)], [call("LaunchKernel", 10, 20)])
    assert path(run) == [
        (0, 10, "program", ""),
        (10, 20, "call", "LaunchKernel"),
        (20, 30, why.name.lower(), "k"),
        (30, 100, "work", "k"),
    ]


def test_an_operation_that_starts_before_the_end_of_the_one_that_it_waited_for():
    """A copy inside the device lets others start early: only the part before counts."""
    run = recording([op("d2d", 0, 110), op("k", 80, 120, why=Why.CORES, after=0)])
    assert path(run) == [(0, 80, "work", "d2d"), (80, 120, "work", "k")]


def test_a_wake_up_that_comes_late_because_another_task_has_the_host():
    run = recording(
        [op("k", 0, 50)],
        [
            call("LaunchKernel", 0, 0),
            call("HostWork", 20, 80, caller="task 2"),
            call("SynchronizeStream", 0, 85, (1, 50, 0)),
        ],
    )
    assert path(run) == [
        (0, 1, "call", "SynchronizeStream"),
        (1, 20, "program", ""),
        (20, 80, "call", "HostWork"),
        (80, 85, "call", "SynchronizeStream"),
    ]


def test_a_call_that_returns_when_another_task_gives_the_host_free_has_not_had_it():
    run = recording(
        [op("k", 0, 50)],
        [
            call("LaunchKernel", 0, 0),
            call("Destroy", 20, 60, caller="task 2"),
            call("Destroy", 60, 80, caller="task 2"),
            call("Memcpy", 0, 80, (1, 50, 0)),
            call("Nothing", 80, 80, caller="task 2"),
        ],
    )
    assert path(run) == [
        (0, 1, "call", "Memcpy"),
        (1, 20, "program", ""),
        (20, 60, "call", "Destroy"),
        (60, 80, "call", "Destroy"),
    ]


def test_a_call_that_sleeps():
    assert path(recording(calls=[call("Sleep", 10, 110, (15, 110))])) == [
        (0, 10, "program", ""),
        (10, 15, "call", "Sleep"),
        (15, 110, "asleep", "Sleep"),
    ]


def test_a_copy_in_parts_takes_turns_with_its_operations():
    run = recording(
        [
            op("h2d", 20, 60, queued=10, kind="h2d", why=Why.STAGING),
            op("h2d", 75, 95, queued=70, kind="h2d", why=Why.STAGING),
        ],
        [call("MemcpyAsync", 0, 75, (5, 70, 0, (Sleep(12, 60, 0),)))],
    )
    assert path(run) == [
        (0, 10, "call", "MemcpyAsync"),
        (10, 20, "staging", "h2d"),
        (20, 60, "work", "h2d"),
        (60, 70, "call", "MemcpyAsync"),
        (70, 75, "staging", "h2d"),
        (75, 95, "work", "h2d"),
    ]


def test_a_call_that_waits_for_its_stream_and_then_for_its_own_operation():
    run = recording(
        [op("k", 0, 50), op("h2d", 65, 90, queued=60, kind="h2d", stream="stream 2", called_ns=-1)],
        [call("LaunchKernel", 0, 0), call("MemcpyAsync", 0, 92, (5, 50, 0), (60, 90, 1))],
    )
    assert path(run) == [
        (0, 50, "work", "k"),
        (50, 60, "call", "MemcpyAsync"),
        (60, 65, "host", "h2d"),
        (65, 90, "work", "h2d"),
        (90, 92, "call", "MemcpyAsync"),
    ]


def test_a_wait_for_a_signal_leads_to_the_work_before_its_record():
    run = recording(
        [op("a", 0, 100), op("b", 103, 150, queued=5, stream="stream 2", why=Why.EVENT)],
        steps=[wait("stream 1", 1, 100, kind="record", after=0), wait("stream 2", 2, 100, record=0)],
    )
    assert path(run) == [(0, 100, "work", "a"), (100, 103, "event", "b"), (103, 150, "work", "b")]


def test_a_wait_for_a_signal_of_a_host_that_comes_late():
    run = recording(
        [op("b", 103, 150, queued=5, stream="stream 2", why=Why.EVENT)],
        [call("RecordNotify", 90, 100)],
        steps=[wait("stream 1", 100, 100, kind="notify"), wait("stream 2", 2, 100, kind="notify_wait", record=0)],
    )
    assert path(run) == [
        (0, 90, "program", ""),
        (90, 100, "call", "RecordNotify"),
        (100, 103, "event", "b"),
        (103, 150, "work", "b"),
    ]


def test_calls_without_a_duration_do_not_hold_the_walk():
    run = recording([op("k", 7, 7, queued=7), op("l", 7, 7, queued=7, after=0, why=Why.ORDER)],
                    [call("LaunchKernel", 7, 7), call("SynchronizeStream", 7, 7)])  # fmt: skip
    assert path(run) == [(0, 7, "program", "")]
