"""Tuning thread-block kernels: the tuner of core kernels, with times of an SM; the same on every executor."""

import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
from blocks import on_device

import acl_py as acl
from acl_py import cta

BLOCKS, LENGTH = 4, 4096  # elements of a block


@cta.kernel(threads=128)
def double(x: cta.In, y: cta.Out, tile: int, stages: int):
    """y = 2 x, in tiles that go through shared memory."""
    s, t = cta.shared(np.float32, (stages, tile)), cta.tid
    first, tiles = cta.block[0] * LENGTH, LENGTH // tile
    each = np.arange(0, tile, cta.threads)[None, :] + t[:, None]
    for number in range(tiles + stages - 1):
        if number < tiles:
            cta.cp_async(s.at[number % stages, each], x.at[first + number * tile + each], 4)
        cta.commit_group()
        if number >= stages - 1:
            cta.wait_group(stages - 1)
            cta.syncthreads()
            done = number - stages + 1
            y[first + done * tile + each] = s[done % stages, each] * 2
            cta.syncthreads()
    cta.wait_all()


def is_doubled(x, y):
    return np.array_equal(y, 2 * x)


def arguments():
    x = np.arange(BLOCKS * LENGTH, dtype=np.float32)
    return x, np.zeros_like(x)


CHOICES = {"tile": (128, 1024, 8192), "stages": (1, 2)}


def tuned(kernel=double, choices=CHOICES, **options):
    return cta.tune(kernel, BLOCKS, arguments(), choices, **{"device": "h200", "check": is_doubled} | options)


async def launched_us(tile, stages):
    x, y = [await on_device(values) for values in arguments()]
    launch = await double[BLOCKS](x, y, tile, stages)
    await acl.SynchronizeDevice()
    return (launch.end_ns - launch.start_ns) / 1000


def test_each_choice_has_the_time_of_a_launch_and_what_does_not_fit_says_why():
    tuning = tuned()
    times = [row.us for row in tuning.rows]
    assert times[:4] == [acl.run(launched_us, *row.choice.values(), device="h200") for row in tuning.rows[:4]]
    assert times[4:] == [None, None]
    assert tuning.best.us == min(times[:4])
    assert tuning.rows[1].us < tuning.rows[0].us  # two stages hide the copies
    assert "shared memory" in tuning.rows[5].failure
    assert str(tuning).splitlines()[0].split()[:3] == ["tile", "stages", "us"]


def test_the_arguments_stay_as_they_were():
    x, y = arguments()
    cta.tune(double, BLOCKS, (x, y), {"tile": (128,), "stages": (1,)}, device="h200")
    assert not y.any()


def test_the_grid_is_a_choice_too():
    @cta.kernel
    def where(y: cta.InOut):
        y[cta.block[0] * 4 + cta.block[1]] = 1.0

    grids = {"block_dim": (1, (2, 3, 1))}
    rows = cta.tune(where, 1, (np.zeros(8, np.float32),), grids, device="h200", check=lambda y: y.sum() == 6).rows
    assert [row.us is not None for row in rows] == [False, True]


def test_wrong_results_and_findings_do_not_count():
    @cta.kernel
    def reverse(x: cta.In, y: cta.Out, waits: bool):
        s, t = cta.shared(np.float32, cta.threads), cta.tid
        s[t] = x[t]
        if waits:
            cta.syncthreads()
        y[t] = s[cta.threads - 1 - t]

    x = np.arange(128, dtype=np.float32)
    rows = cta.tune(reverse, 1, (x, x), {"waits": (False, True)}, device="h200").rows
    assert [row.us is None for row in rows] == [True, False]
    assert "missing syncthreads()" in rows[0].failure
    wrong = tuned(check=lambda x, y: False, choices={"tile": (128,), "stages": (1,)})
    assert wrong.rows[0].failure == "the check says that the result is wrong"


def test_a_row_has_all_findings_of_its_run_as_a_launch_has_them():
    """Two mistakes: half of the Out argument is not written, and a barrier is missing; and then an error, too."""

    @cta.kernel
    def reverse(x: cta.In, y: cta.Out, fails: bool):
        s, t = cta.shared(np.float32, cta.threads), cta.tid
        s[t] = x[t]
        y[t] = s[cta.threads - 1 - t]
        if fails:
            x[t] = 0

    x = np.arange(128, dtype=np.float32)
    rows = cta.tune(reverse, 1, (x, np.zeros(256, np.float32)), {"fails": (False, True)}, device="h200").rows
    unordered, unwritten = rows[0].findings
    assert unordered.endswith("missing syncthreads()")
    assert unwritten.startswith("UNWRITTEN_OUT in all blocks: bytes 512:1024 of y are never written")
    assert rows[0].failure == f"{unordered}; and 1 more"
    assert rows[1].findings == (unordered,)
    assert rows[1].failure.startswith("KernelError: the kernel writes x at test_cta_tune.py")


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_any_number_of_processes_makes_the_same_table(workers):
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as executor:
        assert tuned(executor=executor) == tuned()


def test_kernels_are_pickled_by_name():
    assert pickle.loads(pickle.dumps(double)) is double


def test_more_than_48_kb_need_allow_shared_as_in_a_launch():
    large = cta.kernel(shared=60_000)(double.function)
    assert [row.us for row in tuned(large).rows] == [None] * 6
    assert "60000 bytes of dynamic shared memory, and 49152 are allowed" in tuned(large).rows[0].failure
    assert "call double.allow_shared(60000)" in tuned(large).rows[0].failure
    large.allow_shared(60_000)
    assert tuned(large).best.choice == tuned().best.choice


def test_what_cannot_be_tuned_is_refused():
    with pytest.raises(ValueError, match=r"profile ascend910b1 describes no SMs; tune on one that does: .*h200"):
        tuned(device="ascend910b1")
    with pytest.raises(TypeError, match="has no parameter tiles"):
        tuned(choices={"tiles": (1,), "stages": (1,)})


def test_a_block_that_no_sm_holds_is_a_row_without_a_time():
    @cta.kernel(threads=1024, registers=255)
    def large(y: cta.Out, number: float):
        y[cta.tid] = number

    (row,) = cta.tune(large, 1, (np.zeros(1024, np.float32),), {"number": (1.0,)}, device="h200").rows
    assert row.failure == (
        "KernelError: <thread-block kernel large> needs more than an SM has: 1024 threads with 255 registers each, "
        "261120 in all; an SM has 65536 registers and 2048 threads; make blocks smaller"
    )
