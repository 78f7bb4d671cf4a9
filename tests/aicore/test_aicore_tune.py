"""The tuner: its table, its best row, the rows that do not count and why; the same on every executor."""

import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

from acl_py import asc
from device_model.aicore.runner import run
from device_model.profile import load

DEVICE = "ascend910b1"
LENGTH = 1 << 16


@asc.kernel
def scale(x: asc.In, y: asc.Out, factor: float, tile: int, depth: int):
    """y = x * factor."""
    tiling = asc.block_tiling(x.nbytes // 2, asc.GetBlockNum(), unit=256, tile=tile)
    x_gm, y_gm = (asc.GlobalTensor(asc.half).SetGlobalBuffer(each) for each in (x, y))
    pipeline = asc.Pipeline(asc.TPipe(), depth)
    pipeline.AddStage(asc.Pipe.MTE2, lambda at, a: asc.DataCopy(a, x_gm[at[0] :], at[1]), [(asc.half, tile)])
    pipeline.AddStage(asc.Pipe.V, lambda at, a, b: asc.Muls(b, a, factor, at[1]), [(asc.half, tile)])
    pipeline.AddStage(asc.Pipe.MTE3, lambda at, b: asc.DataCopy(y_gm[at[0] :], b, at[1]))
    pipeline.Run(tiling.tiles(asc.GetBlockIdx()))


def is_scaled(x, y, factor):
    return np.array_equal(y, x * np.float16(factor))


def arguments():
    return (np.arange(LENGTH) % 100).astype(np.float16), np.zeros(LENGTH, np.float16), 2.0


CHOICES = {"tile": (512, 4096, 65536), "depth": (1, 2)}


def tuned(choices=CHOICES, **options):
    return asc.tune(scale, 4, arguments(), choices, **{"device": DEVICE, "check": is_scaled} | options)


def test_each_choice_has_a_row_in_the_order_given_with_the_time_of_a_launch():
    tuning = tuned()
    assert [tuple(row.choice.values()) for row in tuning.rows] == [
        (512, 1), (512, 2), (4096, 1), (4096, 2), (65536, 1), (65536, 2),
    ]  # fmt: skip
    spec = load(DEVICE).aicore
    for row in tuning.rows[:4]:
        launch = run(scale.function, 4, (*arguments(), *row.choice.values()), spec)
        assert row.us == launch.timeline.duration_ns / 1000
        assert row.busy_us == launch.timeline.busy_us
    assert tuning.best is min(tuning.rows[:4], key=lambda row: row.us)
    assert tuning.worst is tuning.rows[0]
    assert [row.us is None for row in tuning.rows] == [False] * 4 + [True] * 2
    assert "do not fit in UB of block 0 (AIV)" in tuning.rows[4].failure


def test_the_table_shows_times_how_busy_pipes_were_and_why_rows_do_not_count():
    tuning = tuned({"depth": (2, 9), "tile": (4096,)})
    header, good, bad = str(tuning).splitlines()
    assert header.split() == ["depth", "tile", "us", "scalar", "vec", "mte2", "mte3", "MB/s", "peak", "binds"]
    assert good.split()[:3] == ["2", "4096", f"{tuning.best.us:.2f}"]
    assert good.endswith("best")
    assert bad.endswith("KernelError: a pipeline of depth 9; a depth is 1 to 8: each slot takes an event id")


def test_the_arguments_stay_as_they_were():
    x, y, factor = arguments()
    asc.tune(scale, 4, (x, y, factor), {"tile": (512,), "depth": (1,)}, device=DEVICE)
    assert not y.any()


def test_the_number_of_blocks_is_a_choice_too():
    x = np.zeros(1 << 19, np.float16)
    choices = {"block_dim": (1, 2, 16), "tile": (8192,), "depth": (2,)}
    tuning = asc.tune(scale, 4, (x, x, 2.0), choices, device=DEVICE, check=is_scaled)
    assert [row.us for row in tuning.rows] == sorted((row.us for row in tuning.rows), reverse=True)
    assert tuning.best.choice["block_dim"] == 16
    assert tuned({"block_dim": (4,), "tile": (512,), "depth": (1,)}).best.us == tuned().rows[0].us


def test_wrong_results_and_findings_do_not_count():
    wrong = tuned({"tile": (512,), "depth": (1,)}, check=lambda x, y, factor: False)
    assert wrong.rows[0].failure == "the check says that the result is wrong"
    assert "mte2" not in str(wrong)
    with pytest.raises(ValueError, match=r"no choice of the tuning counts:\n  tile=512, depth=1: the check says"):
        _ = wrong.best

    @asc.kernel
    def hasty(x: asc.InOut, waits: bool):
        local, x_gm = asc.LocalTensor(asc.half, asc.TPosition.VECCALC, 0, 64), asc.GlobalTensor().SetGlobalBuffer(x)
        asc.DataCopy(local, x_gm, 64)
        asc.SetFlag(asc.HardEvent.MTE2_MTE3, 0)
        if waits:
            asc.WaitFlag(asc.HardEvent.MTE2_MTE3, 0)
        asc.DataCopy(x_gm, local, 64)

    tuning = asc.tune(hasty, 1, (np.zeros(64, np.float16),), {"waits": (False, True)}, device=DEVICE)
    assert tuning.best is tuning.rows[1]
    assert tuning.rows[0].failure.startswith("RAW in block 0 (AIV): DataCopy (MTE3)")


def test_what_a_kernel_raises_is_its_rows_failure():
    @asc.kernel
    def picky(x: asc.In, tile: int):
        if x.nbytes % tile:
            raise RuntimeError(f"{x.nbytes} bytes are no whole tiles of {tile}")

    tuning = asc.tune(picky, 1, (np.zeros(64, np.uint8),), {"tile": (24, 32)}, device=DEVICE)
    assert [row.failure for row in tuning.rows] == ["RuntimeError: 64 bytes are no whole tiles of 24", ""]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("make", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_every_executor_gives_the_same(make):
    options = {"mp_context": multiprocessing.get_context("spawn")} if make is ProcessPoolExecutor else {}
    with make(1, **options) as executor:
        assert tuned(executor=executor) == tuned()


def test_kernels_are_pickled_by_name():
    assert pickle.loads(pickle.dumps(scale)) is scale


def test_what_cannot_be_tuned_is_refused():
    with pytest.raises(TypeError, match="<core kernel scale> has no parameter tiles; choices are for parameters"):
        tuned({"tiles": (1,), "depth": (1,)})
    with pytest.raises(TypeError, match=r"takes \(x, y, factor, tile\) beside the choices, not 3 arguments"):
        tuned({"depth": (1,)})
    with pytest.raises(ValueError, match="nothing to try for depth"):
        tuned({"tile": (512,), "depth": ()})
    with pytest.raises(ValueError, match="profile h200 describes no AI cores; tune on one that does: ascend"):
        tuned(device="h200")


def test_a_row_says_how_fast_bytes_moved_and_what_binds():
    tuning = tuned({"tile": (512, 8192), "depth": (1, 2)})
    for row in tuning.rows:
        assert row.binding.mb_per_s == pytest.approx(2 * 2 * LENGTH / row.us)
        assert row.binding.peak == pytest.approx(row.binding.mb_per_s / 1_490_000)
    assert [row.binding.binds for row in tuning.rows] == ["MTE2", "MTE2", "turns", "scalar"]
    ones = np.ones(4096, np.float16)
    few = asc.tune(scale, 16, (ones, ones, 1.0), {"tile": (256,), "depth": (1,)}, device=DEVICE)
    assert few.best.binding.binds == "head"


@pytest.mark.parametrize("executor", [None, "threads"])
def test_choices_that_a_bound_rules_out_are_not_run_and_the_winner_stays(executor):
    choices = {"tile": (4096, 65536, 8192), "depth": (1, 2), "block_dim": (1, 16)}
    many = np.ones(1 << 20, np.float16)
    given = scale, 4, (many, np.zeros_like(many), 2.0), choices
    with ThreadPoolExecutor(2) as pool:
        all_of_them = asc.tune(*given, device=DEVICE)
        some = asc.tune(*given, device=DEVICE, prune=True, executor=pool if executor else None)
    assert some.best == all_of_them.best
    left_out = [(one, other) for one, other in zip(some.rows, all_of_them.rows, strict=True) if one != other]
    assert [one.choice["block_dim"] for one, _ in left_out] == [1] * 4
    for one, other in left_out:
        assert one.us is None
        least = float(one.failure.removeprefix("not run: it takes ").removesuffix(" us or more"))
        assert some.best.us < least < other.us
    failures = [row.failure for row in some.rows if row.choice["tile"] == 65536]
    assert all("do not fit in UB" in failure for failure in failures)
