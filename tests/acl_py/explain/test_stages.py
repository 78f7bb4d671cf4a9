"""Stages, and the overlap of copies and computation, in recordings that are written by hand."""

import pytest
from hand import op, recording

from acl_py.explain.stages import Stage, stages, stages_text
from acl_py.trace.rows.overlaps import merged, overlap
from acl_py.trace.rows.timeline import Mark


def mark(name, begin, end, caller="task 1"):
    return Mark(name, begin, end, "a.py:1", caller)


@pytest.mark.parametrize(
    ("spans", "covered"),
    [
        ([], []),
        ([(0, 5)], [(0, 5)]),
        ([(3, 8), (0, 5)], [(0, 8)]),
        ([(0, 5), (5, 9)], [(0, 9)]),
        ([(0, 9), (2, 3), (10, 11)], [(0, 9), (10, 11)]),
    ],
)
def test_spans_that_touch_are_merged(spans, covered):
    assert merged(spans) == covered


def test_a_stage_has_the_operations_that_its_task_queued_in_it():
    run = recording(
        [
            op("in", 10, 40, queued=5),
            op("later", 30, 60, queued=105),
            op("behind", 10, 40, queued=50),
            op("of another task", 10, 90, queued=5, caller="task 2"),
        ],
        marks=[mark("load", 0, 10), mark("load", 100, 110)],
    )
    assert stages(run) == [Stage("load", calls=2, host_ns=20, device_ns=50, ops=2)]


def test_stages_of_two_tasks_are_one_stage_if_they_have_one_name():
    run = recording(
        [op("a", 10, 40, queued=5), op("b", 50, 60, queued=8, caller="task 2")],
        marks=[mark("load", 0, 10), mark("load", 5, 15, "task 2"), mark("instant", 3, 3)],
    )
    assert stages(run) == [Stage("load", calls=2, host_ns=15, device_ns=40, ops=2)]
    assert [stage.name for stage in stages(run, ["instant"])] == ["instant"]


def test_copies_and_kernels_that_take_turns_do_not_overlap():
    turns = overlap([op("up", 0, 60, kind="h2d"), op("k", 60, 100)])
    assert (turns.overlap, turns.pipeline_efficiency, turns.overlapped_efficiency) == (0, 0.4, 0.4)


def test_copies_and_kernels_side_by_side():
    shared = overlap([op("up", 0, 60, kind="h2d"), op("k", 20, 60), op("l", 30, 50), op("down", 60, 80, kind="d2h")])
    assert (shared.both_ns, shared.either_ns, shared.computing_ns, shared.span_ns) == (40, 80, 40, 80)
    assert (shared.copy_ns, shared.compute_ns) == (80, 60)
    assert (shared.overlap, shared.pipeline_efficiency, shared.overlapped_efficiency) == (0.5, 60 / 140, 0.5)


def test_nothing_overlaps_with_nothing():
    shared = overlap([])
    assert (shared.overlap, shared.pipeline_efficiency, shared.overlapped_efficiency) == (0, 0, 0)


def test_the_report():
    run = recording(
        [op("up", 0, 60_000, queued=5_000, kind="h2d"), op("k", 60_000, 100_000, queued=25_000)],
        marks=[mark("upload", 0, 10_000), mark("compute it", 20_000, 30_000)],
    )
    assert (
        stages_text(stages(run), overlap(run.ops), 110_000)
        == """\
stage        calls           host         device   share
upload           1        10.0 us        60.0 us    55 %
compute it       1        10.0 us        40.0 us    36 %
share: how much of the whole time, 110.0 us, operations of the stage ran; stages may overlap
overlap of copy and compute: 0 %: both ran for 0.0 us, at least one for 100.0 us
pipeline efficiency: 40 %, as compute / (compute + transfer): 40.0 us / (40.0 us + 60.0 us)
with overlap: 40 %: the cores computed for 40.0 us of 100.0 us,
    which is the time from the first operation to the last.
The two differ because the first adds up durations: it is the same whether copies and kernels overlap or take turns.
The second grows when they overlap, and falls when all engines stand still."""
    )
