"""cp.async: what is copied, and which wait or barrier is missing when a thread reads too early."""

import blocks
import numpy as np
import pytest
from blocks import TILE, found, launch, names, pipelined, tiles

from acl_py import cta


def arrays(count=4):
    x = tiles(count)
    return x, np.zeros_like(x), count


def test_a_pipeline_of_two_stages_computes_and_is_silent():
    x, y, count = arrays()
    result = launch(pipelined, x, y, count, threads=TILE, shared=8 * TILE, out=["y"])
    assert (y == 2 * x).all()
    assert found(result) == []
    first = [name for name, _ in names(result)[:8]]
    assert first == [
        "cp.async.cg.16", "cp.async.commit_group", "cp.async.cg.16", "cp.async.commit_group",
        "cp.async.wait_group 1", "bar.sync 0", "ld.shared.32", "multiply",
    ]  # fmt: skip


def test_a_wait_for_all_stages_but_some_lasts_until_the_last_of_the_others_is_there():
    def sum_of_two(x, y, pending):
        s, t = cta.shared(np.float32, (2, TILE)), cta.tid
        pipe = cta.pipeline(stages=2)
        for i in range(2):
            pipe.producer_acquire()
            cta.memcpy_async(s[i], x[i], 16)
            pipe.producer_commit()
        pipe.consumer_wait_prior(pending)
        cta.syncthreads()
        y[0, t] = s[0, t] + s[1, t]

    x, y, _ = arrays()
    assert found(launch(sum_of_two, x, y, 0, threads=TILE)) == []
    assert ("RAW", "wait_group()") in found(launch(sum_of_two, x, y, 1, threads=TILE))


@pytest.mark.parametrize(
    ("left_out", "expected"),
    [
        ("wait", [("RAW", "wait_group()"), ("WAW", "wait_group()"), ("COPY_LEFT", "wait_all()")]),
        ("sync before", [("RAW", "syncthreads()")]),
        ("sync behind", [("WAR", "syncthreads()")]),
    ],
)
def test_each_call_that_a_pipeline_lacks_is_named(left_out, expected):
    result = launch(pipelined, *arrays(), left_out, threads=TILE)
    assert found(result) == expected
    for finding in result.findings:
        assert all(site.file == blocks.__file__ for site in finding.sites)


def test_a_copy_has_the_sectors_of_its_source_and_the_phases_of_its_target():
    """As the rows of tests/bench/pipelines.py, which are compared with a card."""

    def kernel(x):
        s, t = cta.shared(np.float32, (128, 4)), cta.tid
        for _ in range(2):
            cta.cp_async(s.at[t], x.at[t], 16)
            cta.wait_all()

    rows = [row for row in launch(kernel, np.ones((128, 4), np.float32), threads=128).blocks[0].rows if row.sectors]
    assert [(row.count, row.phases, row.sectors, row.misses) for row in rows] == [
        (1, (4,) * 4, (16,) * 4, (16,) * 4), (1, (4,) * 4, (16,) * 4, (0,) * 4),
    ]  # fmt: skip


def test_a_copy_is_its_own_threads_after_the_wait_and_others_after_a_barrier():
    def kernel(x, y, other, is_shown):
        s, t = cta.shared(np.float32, 64), cta.tid
        cta.cp_async(s.at[t], x.at[t], 4)
        cta.commit_group()
        cta.wait_group(0)
        if is_shown:
            cta.syncthreads()
        y[t] = s[63 - t if other else t]

    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    assert found(launch(kernel, x, y, False, False, threads=64)) == []
    assert found(launch(kernel, x, y, True, True, threads=64)) == []
    [finding] = launch(kernel, x, y, True, False, threads=64).findings
    assert finding.missing == "syncthreads()"
    assert "thread 0 reads" in str(finding)
    assert "the copy of thread 63" in str(finding)


def test_a_copy_that_its_thread_has_waited_for_is_shown_to_the_warp_by_syncwarp():
    def kernel(x, y):
        s, t = cta.shared(np.float32, 32), cta.tid
        cta.cp_async(s.at[t], x.at[t], 4)
        cta.wait_all()
        cta.syncwarp()
        y[t] = s[31 - t]

    assert found(launch(kernel, np.ones(32, np.float32), np.zeros(32, np.float32))) == []


def test_a_copy_that_was_never_committed_needs_both_calls():
    def kernel(x, y):
        s, t = cta.shared(np.float32, 32), cta.tid
        cta.cp_async(s.at[t], x.at[t], 4)
        cta.wait_group(0)  # there is no group
        y[t] = s[t]
        cta.wait_all()

    result = launch(kernel, np.ones(32, np.float32), np.zeros(32, np.float32))
    assert found(result) == [("RAW", "commit_group() and wait_group()")]


def test_two_pending_copies_to_the_same_bytes_are_reported():
    def kernel(x):
        s, t = cta.shared(np.float32, 32), cta.tid
        for _ in range(2):
            cta.cp_async(s.at[t], x.at[t], 4)
            cta.commit_group()
        cta.wait_all()

    assert found(launch(kernel, np.ones(32, np.float32))) == [("WAW", "wait_group()")]


def test_bytes_that_a_copy_does_not_read_are_zeros():
    def kernel(x, y):
        s, t = cta.shared(np.float32, (32, 4)), cta.tid
        cta.cp_async(s.at[t, 0], x.at[t * 4], 16, cache="cg", src_size=cta.select(t < 8, 16, 4), ignore=t == 31)
        cta.wait_all()
        y[t] = s[t]

    x, y = np.arange(1, 129, dtype=np.float32), np.zeros((32, 4), np.float32)
    assert found(launch(kernel, x, y)) == []
    expected = x.reshape(32, 4).copy()
    expected[8:, 1:] = 0
    expected[31] = 0
    assert (y == expected).all()


def test_a_copy_that_is_ignored_reads_nothing():
    def kernel(x, y):
        s, t = cta.shared(np.float32, (32, 4)), cta.tid
        x[4 + t] = t  # the first 16 bytes and those from byte 144 on hold nothing
        cta.cp_async(s.at[t, 0], x.at[t * 4], 16, ignore=(t == 0) | (t > 8))
        cta.wait_all()
        y[t] = s[t]

    x, y = np.zeros(128, np.float32), np.ones((32, 4), np.float32)
    assert found(launch(kernel, x, y, out=["x"])) == []
    assert (y[1:9].reshape(-1) == np.arange(32)).all()
    assert (y[9:] == 0).all()


def test_copies_of_16_bytes_keep_each_bit():
    def kernel(x, y):
        s, t = cta.shared(np.uint32, (64, 4)), cta.tid
        cta.cp_async(s.at[t, 0], x.at[t, 0], 16, cache="cg")
        cta.wait_all()
        y[t] = s[t]

    x = np.random.default_rng(1).integers(0, 1 << 32, (64, 4), np.uint32)
    x[::2] |= 0x7FF00000  # infinities and NaN of float64, quiet and signalling ones
    x[::4] &= 0xFFF7FFFF
    y = np.zeros_like(x)
    assert found(launch(kernel, x, y, threads=64)) == []
    assert (x == y).all()


def test_the_thread_that_copies_what_nobody_wrote_is_named():
    def kernel(x):
        s, t = cta.shared(np.float32, (32, 4)), cta.tid
        with cta.where(t < 5):
            x[t] = 1
        cta.cp_async(s.at[t, 0], x.at[t * 4], 16, src_size=cta.select(t < 1, 16, cta.select(t < 2, 4, 8)), ignore=t < 1)
        cta.wait_all()

    [finding] = launch(kernel, np.zeros(128, np.float32), out=["x"]).findings
    assert str(finding).startswith("UNWRITTEN_READ in block 0: thread 2 reads x at ")


@pytest.mark.parametrize(
    ("copy", "message"),
    [
        (lambda s, x, t: cta.cp_async(s.at[t], x.at[t], 12), "copy of 12 bytes with cache='ca'"),
        (lambda s, x, t: cta.cp_async(s.at[t], x.at[t], 8, cache="cg"), "ca copies 4, 8 or 16 bytes, cg 16"),
        (lambda s, x, t: cta.cp_async(s.at[t], x.at[t], 8), r"thread 1 of block 0 at \S+: byte 4 .* is misaligned"),
        (lambda s, x, t: cta.cp_async(s.at[t], s.at[t], 4), "copies from global to shared memory"),
        (lambda s, x, t: cta.cp_async(s.at[t * 4], x.at[t * 2], 16), "misaligned"),
        (lambda s, x, t: cta.cp_async(s.at[t * 4 // 4 * 2], x.at[t * 2], 8), None),
        (lambda s, x, t: cta.cp_async(s.at[t], x.at[t + 100], 4), "index 128 is outside of"),
        (lambda s, x, t: cta.wait_group(-1), "the number of groups that may be pending"),
    ],
)  # fmt: skip
def test_an_impossible_copy_ends_the_kernel(copy, message):
    def kernel(x):
        s = cta.shared(np.float32, 128)
        copy(s, x, cta.tid)
        cta.wait_all()

    x = np.ones(128, np.float32)
    if message is None:
        assert found(launch(kernel, x)) == []
    else:
        with pytest.raises(cta.KernelError, match=message):
            launch(kernel, x)
