"""Barriers: what they put in order, who has to reach them, and the phases of mbarriers."""

import numpy as np
import pytest
from blocks import found, launch, names

from acl_py import cta
from device_model.sm.instructions import Op


def exchange(barrier):
    def kernel(x, distance):
        s, t = cta.shared(np.float32, 64), cta.tid
        s[t] = x[t]
        barrier()
        x[t] = s[t ^ distance]

    return kernel


@pytest.mark.parametrize(
    ("barrier", "distance", "expected"),
    [
        (cta.syncthreads, 1, []),
        (cta.syncthreads, 32, []),
        (lambda: cta.syncthreads_or(True), 32, []),
        (cta.syncwarp, 1, []),
        (cta.syncwarp, 32, [("RAW", "syncthreads()")]),
        (lambda: cta.bar_sync(3, 64), 32, []),
        (lambda: None, 0, []),
        (lambda: None, 1, [("RAW", "syncwarp()")]),
        (lambda: None, 32, [("RAW", "syncthreads()")]),
        (lambda: cta.shfl_xor(1, 1), 1, [("RAW", "syncwarp()")]),
    ],
)
def test_a_barrier_orders_the_threads_that_reach_it(barrier, distance, expected):
    x = np.arange(64, dtype=np.float32)
    result = launch(exchange(barrier), x, distance, threads=64)
    assert (x == np.arange(64) ^ distance).all()
    assert found(result) == expected


def test_readers_of_several_warps_hold_back_a_write():
    def kernel(x, is_mended):
        s, t = cta.shared(np.float32, 1), cta.tid
        with cta.where(t == 0):
            s[t] = 1
        cta.syncthreads()
        x[t] = s[t * 0]
        if is_mended:
            cta.syncthreads()
        with cta.where(t == 0):
            s[t] = 2

    x = np.zeros(96, np.float32)
    assert found(launch(kernel, x, True, threads=96)) == []
    assert found(launch(kernel, x, False, threads=96)) == [("WAR", "syncthreads()")]


def test_a_thread_may_overwrite_what_it_alone_has_read_since_the_barrier():
    def kernel(x, barrier):
        s, t = cta.shared(np.float32, 32), cta.tid
        s[t] = x[t]
        cta.syncwarp()
        x[t] = s[t ^ 1]  # the reader before it is another one
        if barrier:
            barrier()
        x[t] = s[t]
        s[t] = 0

    x = np.zeros(32, np.float32)
    for barrier in (cta.syncthreads, cta.syncwarp):
        assert found(launch(kernel, x, barrier)) == []
    assert found(launch(kernel, x, None)) == [("WAR", "syncwarp()")]


def test_of_many_readers_of_one_place_each_holds_back_a_write():
    def kernel(x, writer):
        s, t = cta.shared(np.float32, 1), cta.tid
        with cta.where(t == 0):
            s[t] = 1
        cta.syncwarp()
        x[t] = s[t * 0]
        with cta.where(t == writer):
            s[t * 0] = 2

    for writer in (0, 30, 31):
        assert found(launch(kernel, np.zeros(32, np.float32), writer)) == [("WAR", "syncwarp()")]


def test_a_barrier_that_not_all_threads_reach_is_a_hang_with_both_lines():
    def kernel(x):
        t = cta.tid
        with cta.where(t < 16):
            cta.syncthreads()
        x[t] = 1

    with pytest.raises(
        cta.KernelHangError,
        match=r"threads 0 to 15 of block 0 wait in bar.sync 0 at test_cta_barriers.py:\d+, which threads 16 to 63 do "
        r"not reach: they go on at test_cta_barriers.py:\d+",
    ):
        launch(kernel, np.zeros(64, np.float32), threads=64)


def test_both_branches_may_reach_the_barrier():
    def kernel(x):
        t = cta.tid
        s = cta.shared(np.float32, 64)
        s[t] = x[t]
        low = t < 16
        with cta.where(low):
            cta.syncthreads()
        with cta.where(~low):
            cta.syncthreads()
        x[t] = s[63 - t]

    x = np.arange(64, dtype=np.float32)
    assert found(launch(kernel, x, threads=64)) == []


def test_a_barrier_in_a_branch_that_no_thread_takes_is_none():
    def kernel(x):
        t = cta.tid
        with cta.where(t >= 64):
            cta.syncthreads()
            cta.syncthreads_or(t < 64)
        x[t] = t

    result = launch(kernel, np.zeros(64, np.int32), threads=64)
    assert names(result) == [("greater_equal", 1), ("st.global.32", 1)]


def test_a_barrier_with_a_condition_tells_all_threads_what_holds_and_shows_what_was_written():
    def kernel(x):
        s, t = cta.shared(np.int32, 96), cta.tid
        s[t] = t
        for row, learnt in enumerate(
            (cta.syncthreads_or(t == 70), cta.syncthreads_or(t > 95), cta.syncthreads_and(t < 96),
             cta.syncthreads_and(t != 70), cta.syncthreads_count(t % 3 == 0))
        ):  # fmt: skip
            x[row, t] = learnt
        x[5, t] = s[95 - t]

    x = np.zeros((6, 96), np.int32)
    result = launch(kernel, x, threads=96)
    assert found(result) == []
    assert ([[1, 0, 1, 0, 32, 95 - t] for t in range(96)] == x.T).all()
    rows = [row for row in result.blocks[0].rows if row.op is Op.BARRIER]
    assert [row.name for row in rows] == [*["bar.red.or 0"] * 2, *["bar.red.and 0"] * 2, "bar.red.count 0"]
    asked = [row for row in result.blocks[0].rows if row.name == "equal"]
    assert rows[0].reads == asked[0].writes


@pytest.mark.parametrize(
    ("condition", "error", "message"),
    [
        (lambda t: t[:, None] < 3, cta.KernelError, r"syncthreads_and\(\) at \S+ got \(1,\) values of each thread"),
        (
            None,
            cta.KernelHangError,
            r"threads 32 to 63 of block 0 do not reach syncthreads_and\(\) at \S+:\d+, which waits",
        ),
    ],
)
def test_a_barrier_with_a_condition_takes_one_of_each_thread(condition, error, message):
    def kernel():
        t = cta.tid
        if condition is not None:
            cta.syncthreads_and(condition(t))
        with cta.where(t < 32):
            cta.syncthreads_and(t < 3)

    with pytest.raises(error, match=message):
        launch(kernel, threads=64)


def test_a_barrier_in_the_last_branch_is_a_hang_too():
    def kernel():
        with cta.where(cta.tid < 16):
            cta.syncthreads()

    with pytest.raises(cta.KernelHangError, match="which threads 16 to 31 do not reach: they have ended"):
        launch(kernel)


def test_an_mbarrier_shows_copies_to_those_who_wait():
    def kernel(x, y, waits, copies):
        s, t = cta.shared(np.float32, (2, 64)), cta.tid
        full = cta.mbarrier(64)
        cta.syncthreads()
        for i in range(4):
            cta.cp_async(s.at[i % 2, t], x.at[i, t], 4)
            if copies:
                cta.cp_async_mbarrier_arrive(full, noinc=True)
            else:
                full.arrive()
            if waits:
                full.wait(i % 2)
            y[i, t] = s[i % 2, 63 - t]
            cta.syncthreads()
        cta.wait_all()

    x, y = np.arange(256, dtype=np.float32).reshape(4, 64), np.zeros((4, 64), np.float32)
    assert found(launch(kernel, x, y, True, True, threads=64)) == []
    assert (y == x[:, ::-1]).all()
    assert ("RAW", "the wait for its mbarrier") in found(launch(kernel, x, y, False, True, threads=64))
    missing = "commit_group() and wait_group() and syncthreads()"
    assert ("RAW", missing) in found(launch(kernel, x, y, True, False, threads=64))


def test_a_copy_that_arrives_at_an_mbarrier_is_shown_by_its_wait_and_by_no_barrier_of_threads():
    def kernel(x, y):
        s, t = cta.shared(np.float32, 64), cta.tid
        full = cta.mbarrier(64)
        cta.syncthreads()
        cta.cp_async(s.at[t], x.at[t], 4)
        cta.cp_async_mbarrier_arrive(full, noinc=True)
        cta.syncthreads()
        y[t] = s[63 - t]
        full.wait(0)

    result = launch(kernel, np.ones(64, np.float32), np.zeros(64, np.float32), threads=64)
    assert found(result) == [("RAW", "the wait for its mbarrier")]


def test_an_expectation_holds_for_one_phase_only():
    def kernel():
        bar = cta.mbarrier(32)
        cta.syncthreads()
        with cta.where(cta.tid == 0):
            bar.expect(32)
        bar.arrive(2)
        bar.wait(0)
        bar.arrive()
        bar.wait(1)

    assert found(launch(kernel)) == []


def test_an_mbarrier_has_its_own_name_in_the_rows_also_where_another_one_is_gone():
    def kernel():
        for _ in range(3):
            ready = cta.mbarrier(32)
            cta.syncthreads()
            ready.arrive()
            ready.wait(0)
            del ready

    blocks = launch(kernel, grid=(2, 1, 1)).blocks
    first, second = ([row.key for row in block.rows if row.op is Op.ARRIVE] for block in blocks)
    assert len(set(first)) == 3
    assert first == second


def test_a_parity_that_does_not_flip_is_a_second_wait_for_one_phase():
    def late(first, second):
        bar = cta.mbarrier(32)
        cta.syncthreads()
        bar.arrive()
        bar.wait(first)
        with cta.where(cta.tid < 16):
            bar.arrive()
        bar.wait(second)

    with pytest.raises(cta.KernelHangError, match=r"wait .* for phase 1 .* 32 arrivals, and 16 have come"):
        launch(late, 0, 1)
    [finding] = launch(late, 0, 0).findings
    assert (finding.rule.name, finding.missing) == ("PHASE_TWICE", "a flip of the parity")
    assert len(finding.sites) == 2


def test_an_mbarrier_is_known_after_a_barrier_only():
    def kernel():
        bar = cta.mbarrier(32)
        bar.arrive()

    assert found(launch(kernel)) == [("EMPTY_PHASE", "syncthreads()")]


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda bar: bar.wait(0), cta.KernelHangError, "needs 32 arrivals, and 0 have come"),
        (lambda bar: bar.arrive(2), cta.KernelError, "64 arrivals .* expects 32"),
        (lambda bar: cta.mbarrier(0), cta.KernelError, "an mbarrier for 0 arrivals"),
        (lambda bar: cta.bar_sync(16, 32), cta.KernelError, "barriers 0 to 15"),
        (lambda bar: cta.bar_sync(1, 33), cta.KernelError, "a multiple of 32"),
    ],
)
def test_impossible_barriers_end_the_kernel(use, error, message):
    def kernel():
        bar = cta.mbarrier(32)
        cta.syncthreads()
        use(bar)

    with pytest.raises(error, match=message):
        launch(kernel)


@pytest.mark.parametrize("scope", ["thread", "block"])
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_pipelines_of_both_scopes_are_silent_and_right(scope, stages):
    def kernel(x, y, tiles):
        s, t = cta.shared(np.float32, (stages, 64)), cta.tid
        pipe = cta.pipeline(stages, scope)
        for i in range(tiles + stages - 1):
            if i < tiles:
                pipe.producer_acquire()
                cta.memcpy_async(s[i % stages], x[i], 4)
                pipe.producer_commit()
            if i >= stages - 1:
                at = i - stages + 1
                pipe.consumer_wait()
                if scope == "thread":
                    cta.syncthreads()
                y[at, t] = s[at % stages, 63 - t]
                pipe.consumer_release()
                if scope == "thread":
                    cta.syncthreads()

    x, y = np.arange(6 * 64, dtype=np.float32).reshape(6, 64), np.zeros((6, 64), np.float32)
    assert found(launch(kernel, x, y, 6, threads=64)) == []
    assert (y == x[:, ::-1]).all()
