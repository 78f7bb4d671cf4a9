"""Ordering mistakes that the default schedule hides: each is found, and shrunk to three deviations or fewer."""

import runpy
from functools import partial
from pathlib import Path

import pytest

from acl_py.explore import functions, scripts
from acl_py.explore.explorer import explore
from acl_py.explore.scripts import Job
from acl_py.explore.strategies import strategy
from acl_py.schedules import Replay

PLANTED = Path(__file__).parent / "planted"
# The process of the first has no handler of a signal, as that of the tests has; the second says `import acl`.
IN_PROCESSES = {"lock_order": "", "acl_script": "is_copied"}
IN_THIS_PROCESS = sorted(file.stem for file in PLANTED.glob("*.py") if file.stem not in IN_PROCESSES)


def runner(name):
    path = str(PLANTED / f"{name}.py")
    if name in IN_PROCESSES:
        return partial(scripts.run, Job(path, check=IN_PROCESSES[name], options={"device": "ascend910b3"}))
    return partial(functions.run, partial(runpy.run_path, path, run_name="__main__"))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", [*IN_THIS_PROCESS, *IN_PROCESSES])
def test_a_planted_mistake_is_found_and_shrunk(name):
    run = runner(name)
    found = explore(run, strategy("random", seed=1), 200)
    assert found.failing is not None, f"not found in {found.runs} runs"
    assert 1 <= len(found.failing.deviations) <= 3
    again = run(Replay(found.failing.deviations))
    assert (again.failure, again.deviations) == (found.failing.failure, found.failing.deviations)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", ["missing_wait", "double_buffer", "task_order", "same_instant"])
@pytest.mark.parametrize("way", ["pct", "exhaustive"])
def test_other_strategies_find_them_too(name, way):
    found = explore(runner(name), strategy(way, seed=1), 200)
    assert found.failing is not None, f"not found in {found.runs} runs"
    assert 1 <= len(found.failing.deviations) <= 3


def test_the_same_seed_finds_the_same():
    def deviations(seed):
        found = explore(runner("early_record"), strategy("random", seed=seed), 100)
        return found.runs, found.failing and found.failing.deviations

    assert deviations(7) == deviations(7) != deviations(8)
