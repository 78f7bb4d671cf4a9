"""Longest first: never worse than Graham's bound, and better than giving out units in turn where they differ."""

from itertools import product

import numpy as np
import pytest
from cores import SPEC, found, launch
from hypothesis import given
from hypothesis import strategies as st

from device_model.aicore.core.blocks import GetBlockIdx
from device_model.aicore.core.tensors import GlobalTensor, float32
from device_model.aicore.flags.stages import Pipe, Pipeline
from device_model.aicore.flags.tpipe import TPipe
from device_model.aicore.moving.copies import DataCopy
from device_model.aicore.runner import run
from device_model.aicore.shaping.balance import Assignment, balance, block_us
from device_model.aicore.vector.elementwise import Exp


def best_of_all(times, cores):
    """The busiest core's time in the best assignment there is."""
    loads = (
        max(sum(time for time, at in zip(times, places, strict=True) if at == core) for core in range(cores))
        for places in product(range(cores), repeat=len(times))
    )
    return min(loads)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=7), st.integers(1, 3))
def test_the_busiest_core_is_within_a_third_of_the_best(times, cores):
    busiest = balance(times, cores).busiest
    assert busiest <= best_of_all(times, cores) * (4 / 3 - 1 / (3 * cores)) + 1e-9


@given(st.lists(st.floats(0, 1e6), max_size=60), st.integers(1, 48))
def test_each_unit_is_given_to_one_core_and_its_load_is_their_sum(times, cores):
    assignment = balance(times, cores)
    assert sorted(unit for units in assignment.units for unit in units) == list(range(len(times)))
    assert len(assignment.units) == len(assignment.loads) == cores
    for units, load in zip(assignment.units, assignment.loads, strict=True):
        assert list(units) == sorted(units)
        assert load == pytest.approx(sum(times[unit] for unit in units))
    if sum(times):
        assert assignment.imbalance >= -1e-9
        assert assignment.busiest <= max(max(times), sum(times) / cores + max(times) * (1 - 1 / cores)) * (1 + 1e-9)


def test_the_case_that_the_bound_is_about():
    assignment = balance([5, 5, 4, 4, 3, 3, 3], 3)
    assert assignment == Assignment(((0, 4, 6), (1, 5), (2, 3)), (11.0, 8.0, 8.0))  # 9 is possible: 4/3 - 1/9
    assert str(assignment) == "7 units on 3 cores: the busiest has 11, the mean is 9, imbalance 22.2 %"


def test_times_are_numbers_from_zero_on():
    with pytest.raises(ValueError, match="unit 1 takes -1"):
        balance([1, -1], 2)
    with pytest.raises(ValueError, match="unit 0 takes nan"):
        balance([float("nan")], 2)
    with pytest.raises(ValueError, match="0 cores"):
        balance([1], 0)
    assert balance([], 2).imbalance == 0


TILE = 64
LENGTHS = [int(size) for size in np.random.default_rng(5).integers(1, 60, 64) ** 2]  # tiles of each row
STARTS = [sum(LENGTHS[:row]) * TILE for row in range(len(LENGTHS))]


def exp_rows(x, y, rows_of):
    """y = exp(x) for ragged rows."""
    x_gm, y_gm = (GlobalTensor(float32).SetGlobalBuffer(each) for each in (x, y))

    def load(tile, a):
        DataCopy(a, x_gm[tile[0] :], tile[1])

    def store(tile, b):
        DataCopy(y_gm[tile[0] :], b, tile[1])

    pipeline = Pipeline(TPipe(), 2)
    pipeline.AddStage(Pipe.MTE2, load, [(float32, 64 * TILE)])
    pipeline.AddStage(Pipe.V, lambda tile, a, b: Exp(b, a, tile[1]), [(float32, 64 * TILE)])
    pipeline.AddStage(Pipe.MTE3, store)
    pipeline.Run(
        (STARTS[row] + at, min(64 * TILE, LENGTHS[row] * TILE - at))
        for row in rows_of[GetBlockIdx()]
        for at in range(0, LENGTHS[row] * TILE, 64 * TILE)
    )


@pytest.mark.slow
def test_a_kernel_balanced_by_measured_times_is_faster_than_one_in_turn():
    x = np.zeros(sum(LENGTHS) * TILE, np.float32)
    cores = 8

    def duration(rows_of):
        y = np.zeros_like(x)
        result = launch(exp_rows, x, y, rows_of, blocks=len(rows_of))
        assert found(result) == []
        assert y.min() == 1
        return result

    measured = block_us(duration([(row,) for row in range(len(LENGTHS))]))
    assert len(measured) == len(LENGTHS)
    by_time = balance(measured, cores)
    in_turn = [tuple(range(core, len(LENGTHS), cores)) for core in range(cores)]
    in_turn_load = max(sum(measured[row] for row in rows) for rows in in_turn)
    assert by_time.imbalance < 0.02
    assert by_time.busiest < 0.85 * in_turn_load
    balanced = duration(by_time.units).timeline.duration_ns
    assert balanced < 0.9 * duration(in_turn).timeline.duration_ns


def test_times_of_blocks_need_a_timed_launch():
    with pytest.raises(ValueError, match="the launch has no times"):
        block_us(run(lambda: None, 1, (), SPEC, timing=False))
