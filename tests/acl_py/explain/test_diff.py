"""Differences of two recordings: they add up, and lines that have moved are found again."""

from hand import call, op, recording

from acl_py.causes.path import makespan_ns
from acl_py.explain.diff import Difference, diff_text
from acl_py.trace.rows.timeline import Handle
from acl_py.trace.rows.windows import whole
from device_model.completions import Why


def run(*, kernel=40_000, wait=0, line=4, extra=None):
    """A call, a kernel, and a synchronisation, in lines that follow one another from *line* on."""
    start = 10_000 + wait
    end = start + kernel
    ops = [op("layer", start, end, queued=10_000, called_ns=0, in_stream=0, line=line, why=Why.HOST)]
    calls = [
        call("LaunchKernel", 0, 10_000, line=line),
        call("SynchronizeDevice", 10_000, end + 1_000, (10_000, end, 0), line=line + 1),
    ]
    if extra:
        calls.append(call(extra, end + 1_000, end + 6_000, line=line + 2))
    return recording(ops, calls, handles=[Handle("stream", "stream 1", 0, "a.py:1", {}, 1)])


def check(before, after):
    found = Difference(before, after, whole(before), whole(after)).changes
    assert sum(change.ns.total() for change in found) == makespan_ns(after) - makespan_ns(before)
    return found


def test_a_kernel_that_is_faster():
    (change,) = check(run(), run(kernel=30_000))
    assert (change.before, change.after, change.names, dict(change.ns)) == (
        "a.py:4",
        "a.py:4",
        "layer",
        {"work": -10_000},
    )
    assert (
        diff_text(run(), run(kernel=30_000))
        == """\
51.0 us before, 41.0 us after: 10.0 us less
by line of the critical path, with causes:
        -10.0 us  a.py:4: layer: work -10.0 us"""
    )


def test_lines_behind_an_edit_are_found_by_what_they_do():
    (change,) = check(run(), run(line=9, wait=3_000))
    assert (change.before, change.after) == ("a.py:4", "a.py:9")
    assert change.text.endswith("+3.0 us  a.py:4, now a.py:9: layer: host +3.0 us")


def test_a_line_that_only_one_of_them_has():
    (change,) = check(run(), run(extra="Free"))
    assert change.text.endswith("+5.0 us  a.py:6 (only after): Free: call +5.0 us")
    (change,) = check(run(extra="Free"), run())
    assert change.text.endswith("-5.0 us  a.py:6 (only before): Free: call -5.0 us")


def test_the_same_run_has_no_difference():
    assert check(run(), run()) == []
    assert diff_text(run(), run()) == "51.0 us before, 51.0 us after: no difference"


def test_empty_runs():
    assert diff_text(recording(), recording()) == "0.0 us before, 0.0 us after: no difference"


def test_what_lies_outside_of_the_windows_is_told_where_it_has_changed():
    """A run that pins its memory first is shorter from its first work on, and longer as a whole."""
    before, after = run(), run(kernel=30_000, line=4)
    pinned = recording(
        [op("layer", 110_000, 140_000, queued=110_000, called_ns=100_000, in_stream=0, line=4)],
        [
            call("MallocHost", 0, 100_000, line=3),
            call("LaunchKernel", 100_000, 110_000, line=4),
            call("SynchronizeDevice", 110_000, 141_000, (110_000, 140_000, 0), line=5),
        ],
        handles=[Handle("stream", "stream 1", 0, "a.py:1", {}, 1)],
    )
    assert "whole" not in diff_text(before, after)
    first, second, *_ = diff_text(before, pinned).splitlines()
    assert first == "51.0 us before, 41.0 us after: 10.0 us less"
    assert second == "the whole runs: 51.0 us before, 141.0 us after: +100.0 us outside of that"
