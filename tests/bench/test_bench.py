"""The benches measure what they say: their models agree, and each part runs with little work."""

import re
import sys
from pathlib import Path

import pytest

from device_model.compiled import IS_COMPILED
from tests import forks
from tests.bench.__main__ import PARTS
from tests.bench.count import LIMIT, PYTHON, per_operation, ring_count
from tests.bench.ring import MODELS

ROOT = Path(__file__).parents[2]
SIZES = {  # of each part, so that it is over in a moment
    "start": {"RUNS": 1},
    "count": {"ROUNDS": (1, 2), "LAUNCHES": (1, 2), "LIMIT": 2000},
    "instructions": {"LENGTHS": (24, 48)},
    "dispatch": {"SMALL": 120, "LARGE": 120, "MANY_STREAMS": 16},
    "speed": {"TOTAL": 1 << 16, "CHUNK": 1 << 14, "PASSES": 2, "FLOATS": 1 << 8},
    "waits": {"SYNCS": 10, "RUNS": 1},
    "exponents": {"SHARE": 10, "RUNS": 1},
    "explain": {"OPS": 240},
    "advice": {"LIMITS": {120: 2}},
    "clock": {"SLEEPS": 20, "WAITS": 20, "RUNS": 1},
    "aicore": {"SIZE": 48 * 16384, "ROUNDS": 1, "PRODUCT": "pass", "TILES": 1, "SIDE": 256},
    "large_product": {"SIDE": 512},
    "acl": {"CALLS": 3, "RUNS": 1},
    "traces": {"FEW": 120, "MANY": 240, "RUNS": 1},
    "page": {"SIZES": (120, 240)},
    "accuracy": {},
    "copies": {},
    "lanes": {"RUNS": 1, "LAUNCHES": 2, "ROWS": ()},
    "graphs": {},
    "changes": {},
    "sanitizer": {"OPS": 240, "RUNS": 1, "LIMITS_US": {8: 1.5}, "LIVE": 9, "FLAT_OPS": (20, 40)},
    "explore": {"OPS": 48, "RUNS": 1},
    "blocks": {"FILES": "[bms]*.json"},  # tests/cta/test_cta_pipelines.py has rows of the two others
    "kernels": {"ABLATION": False},
    "sweeps": {"POINTS": 4, "SMALL": 40, "RUNS": 1},
    "crews": {"SCHEDULES": 8, "EVERY": 200, "COPIES": 2, "RUNS": 1},
    "values": {"COPIES": 16, "DEVICES": (8,), "RUNS": 1, "ELEMENTS": 1024, "TILE": 128, "LAUNCHES": 1},
    "fold": {"RANKS": 16, "STAGES": 2, "CALLS": 98},
    "attention": {"HEADS": 1, "LENGTH": 64, "BLOCKS": 1, "ROUNDS": 1},
}
LONG = (
    "start",
    "instructions",
    "dispatch",
    "blocks",
    "graphs",
    "kernels",
    "accuracy",
    "copies",
    "changes",
    "traces",
    "sweeps",
    "crews",
)  # many processes, or all that was measured
PROGRAM = """
from tests.bench import {part} as bench
sizes = {sizes}
assert vars(bench).keys() >= sizes.keys()
vars(bench).update(sizes)
bench.main()
"""


@pytest.mark.one_in(4)
@pytest.mark.parametrize("part", [pytest.param(part, marks=pytest.mark.slow if part in LONG else ()) for part in PARTS])
def test_a_part_prints_what_it_has_measured(part):
    done = forks.run("-c", PROGRAM.format(part=part, sizes=SIZES[part]), cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert re.search(r"\d", done.stdout)


def test_the_models_of_the_ring_do_the_same_in_the_same_simulated_time():
    names = "ours", "ours traced", "ours sanitized", "asyncio", "simpy"
    ours, traced, sanitized, asyncio, simpy = (MODELS[name](120, 4) for name in names)
    assert ours.ops == traced.ops == sanitized.ops == asyncio.ops == simpy.ops == 120
    assert ours.simulated_ns == traced.simulated_ns == sanitized.simulated_ns
    assert asyncio.simulated_ns == simpy.simulated_ns
    assert abs(ours.simulated_ns / simpy.simulated_ns - 1) < 0.005


counts = pytest.mark.skipif(
    sys.version_info[:2] != PYTHON or IS_COMPILED, reason="bytecodes are counted on CPython 3.11 only, on the pure core"
)


@counts
def test_an_operation_takes_at_most_955_bytecodes():
    assert 900 < ring_count(trace=False) <= LIMIT == 955


@counts
def test_the_count_is_what_a_longer_run_executes_more():
    """A call more for each operation costs the same each time, however the program begins and ends."""

    def called(number, calls):
        for _ in range(number):
            for _ in range(calls):
                abs(number)

    def counted(calls, *lengths):
        return per_operation(lambda number: called(number, calls), *lengths)

    one, two, three = (counted(calls, 10, 20) for calls in (1, 2, 3))
    assert two - one == three - two > 0
    assert counted(1, 10, 20) == counted(1, 100, 150)


@pytest.mark.slow
@counts
def test_the_bench_of_bytecodes_fails_above_its_limit():
    sizes = {"ROUNDS": (1, 2), "LAUNCHES": (1, 2), "LIMIT": 500}
    done = forks.run("-c", PROGRAM.format(part="count", sizes=sizes), cwd=ROOT)
    assert done.returncode == 1
    assert "MISSED" in done.stdout
    assert re.fullmatch(r"an operation takes \d+ bytecodes, more than 500\n", done.stderr)
