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
from device_model.aicore.shaping.balance import Assignment, Balancer, Moves, balance, block_us
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


COSTS = [int(cost) for cost in np.random.default_rng(6).integers(1, 13, 32)]  # of each row: how often it is computed
ROWS = [int(size) for size in np.random.default_rng(5).integers(1, 20, 32) ** 2]  # tiles of each row


def costly_rows(x, y, rows_of):
    """y = exp(x) for ragged rows, each as often as its cost says."""
    x_gm, y_gm = (GlobalTensor(float32).SetGlobalBuffer(each) for each in (x, y))

    def load(tile, a):
        DataCopy(a, x_gm[tile[0] :], tile[1])

    def compute(tile, a, b):
        for _ in range(tile[2]):
            Exp(b, a, tile[1])

    def store(tile, b):
        DataCopy(y_gm[tile[0] :], b, tile[1])

    pipeline = Pipeline(TPipe(), 2)
    pipeline.AddStage(Pipe.MTE2, load, [(float32, 64 * TILE)])
    pipeline.AddStage(Pipe.V, compute, [(float32, 64 * TILE)])
    pipeline.AddStage(Pipe.MTE3, store)
    pipeline.Run(
        (sum(ROWS[:row]) * TILE + at, min(64 * TILE, ROWS[row] * TILE - at), COSTS[row])
        for row in rows_of[GetBlockIdx()]
        for at in range(0, ROWS[row] * TILE, 64 * TILE)
    )


def launches(balancer, count):
    """What the balancer learned from each of *count* launches."""
    x = np.zeros(sum(ROWS) * TILE, np.float32)
    learned = []
    for _ in range(count):
        y = np.zeros_like(x)
        result = launch(costly_rows, x, y, balancer.assignment.units, blocks=len(balancer.assignment.units))
        assert y.min() == 1
        learned.append(balancer.learn(block_us(result)))
    return learned


@pytest.mark.slow
def test_ten_launches_bring_the_slowest_core_to_the_mean_and_it_stays_there():
    """The lengths of the rows are known, what they cost is not: a row may take twelve times as long as another."""
    learned = launches(Balancer(ROWS, 4), 10)
    assert learned[0].imbalance > 0.2
    assert all(each.imbalance < 0.065 for each in learned[1:])
    assert learned[-1].imbalance < 0.02
    assert learned[-1].moved == ()


def test_what_a_balancer_learns_and_moves_launch_by_launch():
    """Four units are taken for equal, and the first one takes seven times as long as each of the others."""
    true, balancer = [7.0, 1.0, 1.0, 1.0], Balancer([1, 1, 1, 1], 2)
    history = []
    for _ in range(4):
        units = balancer.assignment.units
        moves = balancer.learn([sum(true[unit] for unit in each) for each in units])
        history.append((units, round(moves.imbalance, 3), moves.moved))
    assert history == [
        (((0, 2), (1, 3)), 0.6, ((0, 0, 1), (1, 1, 0))),  # 0 and 2 seem to take 4 each
        (((1, 2), (0, 3)), 0.6, ((3, 1, 0),)),  # 0 was the long one
        (((1, 2, 3), (0,)), 0.4, ()),
        (((1, 2, 3), (0,)), 0.4, ()),
    ]
    assert [round(time) for time in balancer.times] == true


@given(st.lists(st.floats(0.1, 10), min_size=4, max_size=24), st.integers(2, 4), st.randoms(use_true_random=False))
def test_the_best_launch_of_those_remembered_is_where_units_move_from(true, cores, random):
    balancer = Balancer([random.uniform(0.5, 2) for _ in true], cores)
    launched = []
    for number in range(8):
        units = balancer.assignment.units
        assert sorted(unit for each in units for unit in each) == list(range(len(true)))
        measured = [sum(true[unit] for unit in each) for each in units]
        moves = balancer.learn(measured)
        launched.append((moves.imbalance, units))
        assert (moves.launch, moves.busiest) == (number + 1, max(measured))
        best = min(imbalance for imbalance, _ in launched)
        before = [each for imbalance, each in launched if imbalance == best]
        after = balancer.assignment.units
        steps = [sum(unit not in place[core] for unit in after[core]) for place in before for core in range(cores)]
        assert best > 0.02 or after in before
        assert any(max(steps[at : at + cores]) <= 1 for at in range(0, len(steps), cores))
        if moves.moved == ():
            assert after == units


def test_units_that_take_another_time_than_before_move_at_once():
    """The cores end together for three launches. Then the data change, and unit 0 takes five times as long."""
    balancer = Balancer([1, 1, 1, 1], 2)
    assert [balancer.learn([2, 2]).moved for _ in range(3)] == [(), (), ()]
    true = [5.0, 1.0, 1.0, 1.0]
    history = []
    for _ in range(3):
        units = balancer.assignment.units
        moves = balancer.learn([sum(true[unit] for unit in each) for each in units])
        history.append((units, round(moves.imbalance, 3), moves.moved))
    assert history == [
        (((0, 2), (1, 3)), 0.5, ((0, 0, 1), (1, 1, 0))),  # 0 and 2 seem to take 3 each
        (((1, 2), (0, 3)), 0.5, ((3, 1, 0),)),
        (((1, 2, 3), (0,)), 0.25, ()),
    ]


def test_an_outlier_counts_no_more_than_the_bound():
    balancer = Balancer([1.0, 1.0], 2, bound=1.5)
    balancer.learn([1.0, 1.0])
    assert balancer.times == [1.0, 1.0]
    moves = balancer.learn([100.0, 1.0])
    assert moves.bounded == (0,)
    assert str(moves) == (
        "launch 2: the slowest core took 100, the mean 50.5, 98.0 % more; moved nothing; planned imbalance 33.4 %; "
        "beyond the bound: core 0"
    )
    assert 1 < balancer.times[0] < 2.5  # and not 100


def test_the_text_of_what_has_moved():
    moves = Moves(3, 12.0, 10.0, tuple((unit, 0, 1) for unit in range(10)), 0.01, ())
    assert str(moves) == (
        "launch 3: the slowest core took 12, the mean 10, 20.0 % more; moved 10 units: 0 from core 0 to 1, "
        "1 from core 0 to 1, 2 from core 0 to 1, 3 from core 0 to 1, 4 from core 0 to 1, 5 from core 0 to 1, "
        "6 from core 0 to 1, 7 from core 0 to 1 and 2 others; planned imbalance 1.0 %"
    )
    assert str(Moves(1, 0.0, 0.0, (), 0.0, ())) == (
        "launch 1: the slowest core took 0, the mean 0; moved nothing; planned imbalance 0.0 %"
    )


def test_units_of_which_nothing_is_known_share_the_time_of_their_core():
    balancer = Balancer([0, 0, 0, 0], 2)
    balancer.learn([4.0, 0.0])
    assert sum(balancer.times) == pytest.approx(4, rel=0.01)


def test_a_balancer_takes_no_nonsense():
    for options, message in (
        ({"weight": 0}, "weight=0: it must be over 0 and at most 1"),
        ({"weight": 1.5}, "weight=1.5"),
        ({"bound": 1}, "bound=1: it must be a factor over 1"),
        ({"margin": -0.1}, "margin=-0.1: it must be 0 or more"),
    ):
        with pytest.raises(ValueError, match=message):
            Balancer([1, 2], 2, **options)
    balancer = Balancer([1, 2], 2)
    with pytest.raises(ValueError, match="3 times: the assignment is for 2 cores, so launch as many blocks"):
        balancer.learn([1, 2, 3])
    with pytest.raises(ValueError, match="core 1 took nan: a time is a number from 0 on"):
        balancer.learn([1, float("nan")])
    assert repr(balancer).startswith("<Balancer after 0 launches: 2 units on 2 cores")
