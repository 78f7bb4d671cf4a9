"""Slack, by line and by operation, in recordings that are written by hand."""

from hand import call, op, recording, wait

from acl_py.calls.acts import Synchronised
from acl_py.causes.lines import by_line, path_text
from acl_py.causes.path import critical_path
from acl_py.causes.slack import slacks
from acl_py.trace.rows.timeline import Ref
from acl_py.trace.rows.windows import whole
from device_model.completions import Why


def sync(after):
    return call("SynchronizeDevice", 1, 100, (2, 100, after))


def slack(timeline):
    found = slacks(timeline, critical_path(timeline))
    return {op.name: ns for op, ns in zip(timeline.ops, found, strict=True)}


def test_of_two_streams_that_are_waited_for_the_shorter_has_slack():
    run = recording([op("short", 1, 70), op("long", 1, 100, stream="stream 2")], [call("LaunchKernel", 0, 0), sync(1)])
    assert slack(run) == {"short": 30, "long": 0}


def test_slack_of_a_chain_is_that_of_its_end():
    run = recording(
        [
            op("first", 1, 20),
            op("second", 30, 70, why=Why.EVENT),
            op("long", 1, 100, stream="stream 2"),
        ],
        [sync(2)],
    )
    assert slack(run) == {"first": 40, "second": 30, "long": 0}


def test_an_event_that_comes_early_gives_slack():
    run = recording(
        [op("recorded", 1, 50), op("ahead", 1, 90, stream="stream 2"),
         op("waits", 90, 100, queued=5, stream="stream 2", why=Why.ORDER, after=1)],
        [sync(2)],
        steps=[wait("stream 1", 2, 50, kind="record", after=0), wait("stream 2", 3, 50, record=0, after=0)],
    )  # fmt: skip
    assert slack(run) == {"recorded": 40, "ahead": 0, "waits": 0}


def test_the_next_copy_of_an_engine_limits_slack():
    run = recording(
        [
            op("up", 1, 30, kind="h2d"),
            op("next", 40, 60, kind="h2d", stream="stream 2"),
            op("use", 60, 100, stream="stream 2", after=1, why=Why.ORDER),
        ],
        [sync(2)],
    )
    assert slack(run)["up"] == 10


def test_a_synchronised_stream_limits_the_slack_of_its_work_alone():
    run = recording(
        [op("own", 1, 40), op("other", 1, 40, stream="stream 2"), op("late", 50, 100, queued=50)],
        [call("SynchronizeStream", 1, 42, (2, 40, 0), act=Synchronised(Ref(1))),
         call("LaunchKernel", 42, 50),
         call("SynchronizeDevice", 50, 101, (51, 100, 2))],
    )  # fmt: skip
    assert slack(run) == {"own": 0, "other": 60, "late": 0}


def test_the_path_by_line():
    run = recording(
        [op("up", 12_000, 40_000, queued=10_000, kind="h2d", line=3),
         op("k", 45_000, 90_000, queued=20_000, line=4, why=Why.ORDER, after=0),
         op("side", 30_000, 50_000, queued=30_000, line=5, stream="stream 2")],
        [call("MemcpyAsync", 0, 10_000, line=3), call("LaunchKernel", 10_000, 20_000, line=4),
         call("LaunchKernel", 20_000, 30_000, line=5),
         call("SynchronizeDevice", 30_000, 92_000, (30_000, 90_000, 1), line=6)],
        end=100_000,
    )  # fmt: skip
    assert [(line.site, line.ns.total(), line.slack_ns) for line in by_line(run, critical_path(run))] == [
        ("a.py:4", 50_000, 0),
        ("a.py:3", 40_000, 0),
        ("", 8_000, None),
        ("a.py:6", 2_000, None),
        ("a.py:5", 0, 40_000),
    ]
    assert (
        path_text(run, whole(run))
        == """\
critical path: 100.0 us, the whole run
         73.0 us   73 %  work     operations ran
         12.0 us   12 %  call     the host was busy in calls
          8.0 us    8 %  program  the host was between two calls
          5.0 us    5 %  order    operations waited for work ahead of them in their stream
          2.0 us    2 %  host     operations were on their way from the host to their engine
by line:
         50.0 us   50 %  a.py:4: k: work 45.0 us, order 5.0 us
         40.0 us   40 %  a.py:3: up: work 28.0 us, call 10.0 us, host 2.0 us
          8.0 us    8 %  between calls: program 8.0 us
          2.0 us    2 %  a.py:6: SynchronizeDevice: call 2.0 us
not on the path, with the time by which its operations could be longer:
         40.0 us         a.py:5: side"""
    )
