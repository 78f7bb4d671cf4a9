"""The same program gives the same trace and bytes, bit for bit, on each loop and with any number of workers."""

import json
import os
import platform
import subprocess
import sys
from functools import cache, partial
from pathlib import Path

import floats
import numpy as np
import pytest
import racy

RUN = Path(racy.__file__)


@cache
def reference(program):
    return racy.everything(program, workers=1)


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("workers", "uvloop"), [(1, True), (2, False), (4, True), (1, False), (2, True), (4, False)])
@pytest.mark.parametrize("program", racy.PROGRAMS)
def test_loops_and_workers_change_nothing(program, workers, uvloop):
    value, ops, calls = racy.everything(program, workers=workers, uvloop=uvloop)
    expected_value, expected_ops, expected_calls = reference(program)
    assert ops == expected_ops
    assert calls == expected_calls
    assert value == expected_value


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("seed", "loop"), [("77", "uvloop"), ("0", "asyncio")])
@pytest.mark.slow
def test_other_processes_change_nothing(seed, loop):
    """Other hash seeds, other addresses."""
    environment = os.environ | {"PYTHONHASHSEED": seed}
    command = [sys.executable, str(RUN), loop]
    there = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    here = "".join(f"{each.__name__} {racy.digest(repr(reference(each)).encode())}\n" for each in racy.PROGRAMS)
    assert there == here


@pytest.mark.parametrize("uvloop", [False, True])
def test_one_task_may_yield_as_often_as_it_likes(uvloop):
    plain = racy.everything(partial(racy.racy, racy.SMALL, 200), workers=1)
    for yields in (1, 2, 7):
        assert racy.everything(partial(racy.racy, racy.SMALL, 200, yields), workers=1, uvloop=uvloop) == plain


def test_the_programs_are_worth_comparing():
    """They race, fail, use threads, and no two of them do the same."""
    for program in racy.PROGRAMS:
        _, ops, calls = reference(program)
        assert len(ops) >= 12
        assert any(op.bytes == racy.LARGE for op in ops)
        assert any(a.start_ns < b.start_ns < a.end_ns for a in ops for b in ops if a.stream != b.stream)
        assert len({op.name for op in ops}) >= 3
        assert calls
    assert "as planned" in reference(racy.failing)[0][0][0]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_many_random_programs(seed):
    expected = racy.everything(racy.racy, workers=1, seed=seed)
    for workers in (2, 4):
        assert racy.everything(racy.racy, workers=workers, seed=seed, uvloop=workers == 4) == expected


def other_machines():
    """What makes NumPy and OpenBLAS compute as on machines with fewer instructions."""
    found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    core = {"x86_64": "Nehalem", "AMD64": "Nehalem", "aarch64": "ARMV8", "arm64": "ARMV8"}.get(platform.machine())
    features = {"NPY_DISABLE_CPU_FEATURES": " ".join(found)} if found else {}
    cores = {"OPENBLAS_CORETYPE": core, "OPENBLAS_NUM_THREADS": "1"} if core else {}
    return {"features": features, "core": cores, "both": features | cores}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["both", "features", "core"])
def test_the_instructions_of_the_machine_change_neither_times_nor_integers(name):
    """Floats are what NumPy and BLAS make of them there: README says so, and nothing is promised of them here."""
    changed = other_machines()[name]
    if not changed:
        pytest.skip("NumPy or OpenBLAS use no instructions here that they could do without")
    here, there = floats_here(), floats_under(changed)
    assert there["settings"] != here["settings"], "they compute as before, so this compares nothing"
    assert there["rest"] == here["rest"]


@cache
def floats_here():
    return floats_under({})


def floats_under(environment):
    command = [sys.executable, "-W", "error", floats.__file__]
    done = subprocess.run(command, env=os.environ | environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)
