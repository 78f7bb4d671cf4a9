"""What runs on a crew beside sweeps: the same findings in the same order, and how much faster two workers are.

A machine that others use has no two free cores, so each row also has what processor time says: twice what one process
takes, over what all processes take with two workers, without their starts. On an idle machine both are the same.
"""

import os
import sys
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter

import acl_py
from acl_py.explain.cases import Case
from acl_py.explain.optimiser import optimise
from acl_py.explain.whatif import Asker
from acl_py.explore import functions
from acl_py.explore.explorer import explore
from acl_py.explore.strategies import strategy
from acl_py.many.crew import Crew
from acl_py.programs.format import parse
from device_model.profile import load
from device_model.rules import RULES
from tests.bench.measure import show
from tests.bench.sweeps import processor_s

SCHEDULES = 1_000
EVERY = 5  # of the places of faults one in so many
COPIES, RUNS = 40, 3
SIZE = 1 << 22


async def fills():
    """A program with many choice points, which never fails."""
    streams = [await acl_py.CreateStream() for _ in range(4)]
    buffer = await acl_py.Malloc(1 << 12)
    for number in range(24):
        part = slice((number % 4) << 10, ((number % 4) + 1) << 10)
        await acl_py.MemsetAsync(buffer[part], 1 << 10, number, 1 << 10, streams[number % 4])
    await acl_py.SynchronizeDevice()


def run_fills():
    acl_py.run(fills, device="tiny")


def explored(crew):
    """What is found, and the deviations of all schedules in their order."""
    seen = []
    run = partial(functions.run, run_fills)
    found = explore(run, strategy("random"), SCHEDULES, crew=crew, saw=lambda each: seen.append(each.deviations))
    return found, seen


def struck(crew):
    """What a part of the fault campaign finds."""
    sys.path.append(str(Path(__file__).parents[1] / "faults"))
    from tests.faults import campaign, programs

    said = []
    return campaign.run(programs.PROGRAMS[0], every=EVERY, say=said.append, crew=crew), said


def proposed(crew):
    """What the optimiser proposes for a program whose copies wait for each other."""
    copy = {"op": "memcpy_async", "bytes": SIZE, "stream": "a"}
    kernel = {
        "op": "launch",
        "stream": "a",
        "us": 100,
        "name": "work",
        "reads": [["d", 0, SIZE]],
        "writes": [["d", 0, SIZE]],
    }
    round_ = [copy | {"dst": "d", "src": "h"}, kernel, copy | {"dst": "h", "src": "d"}]
    program = {
        "id": "serial", "buffers": {"d": {"space": "device", "bytes": SIZE}, "h": {"space": "pageable", "bytes": SIZE}},
        "streams": {"a": {}}, "events": {}, "steps": [*round_ * COPIES, {"op": "sync_stream", "stream": "a"}],
    }  # fmt: skip
    return optimise(Asker(Case(parse(program), load("h200"), RULES["cuda"])), crew).text


WORK = {"explore": explored, "fault campaign": struck, "the optimiser": proposed}


def main():
    rows = []
    for name, work in WORK.items():
        walls, shares = [], []
        for _ in range(RUNS):
            one, one_s, one_cpu_s = worked(work, 1)
            two, two_s, two_cpu_s = worked(work, 2)
            assert one == two, f"{name}: two workers find something else"
            walls.append(one_s / two_s)
            shares.append(2 * one_cpu_s / two_cpu_s)
        rows.append((name, f"{median(walls):.2f}", f"{median(shares):.2f}"))
    show("two workers against one (1.7), the same findings", ("", "times as fast", "by processor time"), rows)


def worked(work, workers):
    """What *work* finds on a warm crew of so many, with seconds of wall clock and of processors."""
    starts_s = 0.0
    for jobs in ((warm,), (warm, work)) if workers > 1 else ((work,),):
        begun = processor_s()
        with Crew(workers=workers) as crew:
            for job in jobs:
                begin = perf_counter()
                found = job(crew)
                wall_s = perf_counter() - begin
        cpu_s = processor_s() - begun
        starts_s = cpu_s if jobs == (warm,) else starts_s
    return found, wall_s, cpu_s - starts_s


def warm(crew):
    return list(crew.in_order(imported, range(4 * crew.workers)))


def imported(_):
    """The process, with all that the work imports."""
    return os.getpid()
