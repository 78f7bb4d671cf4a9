"""The schedules of the pipeline: whole, in an order that can run, and as long as their closed forms say."""

import re
from pathlib import Path

import pytest
from schedules import SCHEDULES, Times, needs

TIMES = Times(3_000, 6_000, 3_000, 8_000)
OUT = Path(__file__).parents[2] / "samples" / "parallel" / "pipeline.out"
CASES = [
    (schedule, ranks, micros)
    for schedule in SCHEDULES
    for ranks in (2, 4, 8)
    for micros in (8, 16, 24, 64)
    if schedule.allows(ranks, micros)
]


def cost(task, chunks):
    """How long a task takes."""
    whole = {"F": TIMES.forward, "B": TIMES.backward, "W": TIMES.weights, "b": TIMES.backward - TIMES.weights}
    return TIMES.fused if len(task) == 2 else whole[task[0].kind] / chunks


def played(schedule, ranks, micros):
    """When each rank is free, and how long it was busy, if nothing but tasks takes time; fails if a rank is stuck."""
    order, last = schedule.order(ranks, micros), ranks * schedule.chunks - 1
    over, free, busy, places = {}, [0.0] * ranks, [0.0] * ranks, [0] * ranks
    moved = True
    while moved:
        moved = False
        for rank, tasks in enumerate(order):
            while places[rank] < len(tasks):
                task = tasks[places[rank]]
                before = [each for part in task for each in needs(part, last)]
                if any(each not in over for each in before):
                    break
                takes = cost(task, schedule.chunks)
                free[rank] = max([free[rank], *(over[each] for each in before)]) + takes
                busy[rank] += takes
                over |= {part._replace(kind="B" if part.kind == "b" else part.kind): free[rank] for part in task}
                places[rank] += 1
                moved = True
    assert places == [len(tasks) for tasks in order]
    return free, busy


@pytest.mark.parametrize(("schedule", "ranks", "micros"), CASES, ids=lambda each: getattr(each, "name", each))
def test_a_rank_idles_as_long_as_the_closed_form_says(schedule, ranks, micros):
    free, busy = played(schedule, ranks, micros)
    assert max(free) - min(busy) == schedule.idle(ranks, TIMES)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda each: each.name)
def test_each_micro_batch_goes_once_forwards_and_once_backwards_through_each_stage(schedule):
    parts = [part for tasks in schedule.order(4, 16) for task in tasks for part in task]
    ways = 2 if schedule.name == "DualPipe" else 1
    places = {(way, stage, m) for way in range(ways) for stage in range(4 * schedule.chunks) for m in range(16 // ways)}
    forwards = [part[1:] for part in parts if part.kind == "F"]
    backwards = [part[1:] for part in parts if part.kind in "Bb"]
    assert sorted(forwards) == sorted(backwards) == sorted(places)
    assert sorted(part[1:] for part in parts if part.kind == "W") == sorted(
        part[1:] for part in parts if part.kind == "b"
    )


def test_the_simulated_pipelines_are_within_half_a_point():
    rows = re.findall(r"([\d.]+) %\s+([\d.]+) %", OUT.read_text(encoding="utf-8"))
    assert len(rows) == 39
    assert max(abs(float(measured) - float(closed)) for measured, closed in rows) <= 0.5
