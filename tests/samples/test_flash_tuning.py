"""Tuning FlashAttention: one table in this process, in others and on a cluster; rows that do not fit say why."""

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
import tuning
from aicore import DEVICE, Shape

from acl_py import asc

SHAPE = Shape(1, 64, 96, 64)
CHOICES = {"br": (32, 64), "bc": (32, 512), "stages": (1, 2)}


@pytest.fixture(scope="module")
def here():
    return tuning.tuned(choices=CHOICES, shape=SHAPE)


def test_the_best_row_is_the_fastest_and_rows_that_do_not_fit_name_the_memory(here):
    assert [tuple(row.choice.values()) for row in here.rows] == [
        (32, 32, 1), (32, 32, 2), (32, 512, 1), (32, 512, 2), (64, 32, 1), (64, 32, 2), (64, 512, 1), (64, 512, 2),
    ]  # fmt: skip
    assert [row.us is not None for row in here.rows] == [True, True, False, False] * 2
    assert here.best.us == min(row.us for row in here.rows if row.us is not None)
    assert "do not fit in L0B of block 0" in here.rows[2].failure
    assert "do not fit in L0A of block 0" in here.rows[6].failure


@pytest.mark.one_in(2)
@pytest.mark.parametrize("workers", [1, 3])
def test_any_number_of_processes_makes_the_same_table(here, workers):
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as executor:
        there = tuning.tuned(executor, CHOICES, SHAPE)
    assert there == here
    assert str(there) == str(here)


@asc.kernel
def tells_its_process(x: asc.In, number: int):
    raise RuntimeError(f"process {os.getpid()}")


@pytest.mark.slow
@pytest.mark.timeout(180)  # it starts four processes
def test_a_cluster_makes_the_same_table_in_its_own_processes(here):
    distributed = pytest.importorskip("distributed", reason="pip install -e '.[dask]'")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        executor = client.get_executor()
        there = tuning.tuned(executor, CHOICES, SHAPE)
        processes = [f"RuntimeError: process {number}" for number in client.run(os.getpid).values()]
        args, numbers = (np.zeros(1, np.uint8),), {"number": range(8)}
        rows = asc.tune(tells_its_process, 1, args, numbers, device=DEVICE, executor=executor).rows
    assert there == here
    assert str(there) == str(here)
    assert len(processes) == 2
    assert {row.failure for row in rows} <= set(processes)
