"""Roles: a warp copies, the others compute, and mbarriers hand tiles over."""

import numpy as np
import pytest
from blocks import found, launch, tiles

import acl_py as acl
from acl_py import cta

TILES, STAGES, TILE = 6, 2, 96


def specialised(x, y, without=""):
    s = cta.shared(np.float32, (STAGES, TILE))
    full = [cta.mbarrier(32) for _ in range(STAGES)]
    empty = [cta.mbarrier(96) for _ in range(STAGES)]
    cta.syncthreads()

    def producer():
        t = cta.tid
        for i in range(TILES):
            turn, stage = divmod(i, STAGES)
            if without != "empty":
                empty[stage].wait((turn + 1) % 2)
            for copy in range(3):
                cta.cp_async(s.at[stage, copy * 32 + t % 32], x.at[i, copy * 32 + t % 32], 4)
            if without == "copies":
                full[stage].arrive()
            else:
                cta.cp_async_mbarrier_arrive(full[stage], noinc=True)
        cta.wait_all()

    def consumer():
        t = cta.tid - 32
        for i in range(TILES):
            turn, stage = divmod(i, STAGES)
            if without != "full":
                full[stage].wait(turn % 2)
            y[i, t] = s[stage, 95 - t] * 2
            if without != "arrival":
                empty[stage].arrive()

    cta.roles((32, producer), (96, consumer))


def arrays():
    x = tiles(TILES, TILE)
    return x, np.zeros_like(x)


def test_roles_hand_tiles_over():
    x, y = arrays()
    result = launch(specialised, x, y, threads=128)
    assert (y == 2 * x[:, ::-1]).all()
    assert found(result) == []
    warps = {row.name: row.warps for row in result.blocks[0].rows}
    assert (warps["cp.async.ca.4"], warps["ld.shared.32"]) == (0b0001, 0b1110)


def test_an_arrival_that_does_not_wait_for_the_copies_is_found():
    findings = found(launch(specialised, *arrays(), "copies", threads=128))
    assert ("RAW", "commit_group() and wait_group() and bar_sync() or an mbarrier") in findings


def write(s, t):
    s[t] = t


@pytest.mark.parametrize(
    ("is_shown", "first", "second", "expected"),
    [
        (True, lambda s, t: s[t], lambda s, t: s[t], []),
        (False, lambda s, t: s[t], lambda s, t: s[127 - t], [("RAW", "syncthreads()")]),  # written before the roles
        (True, write, lambda s, t: s[127 - t], [("RAW", "bar_sync() or an mbarrier")]),
        (True, lambda s, t: s[127 - t], write, [("WAR", "bar_sync() or an mbarrier")]),
        (True, lambda s, t: s[t], lambda s, t: (write(s, t), s[t ^ 32]), [("RAW", "bar_sync()")]),
    ],
)
def test_the_missing_barrier_is_one_that_both_threads_can_reach(is_shown, first, second, expected):
    """A block of two roles, each of two warps."""

    def kernel():
        s, t = cta.shared(np.int32, 128), cta.tid
        s[t] = t
        if is_shown:
            cta.syncthreads()
        cta.roles((64, lambda: first(s, t)), (64, lambda: second(s, t)))

    assert found(launch(kernel, threads=128)) == expected


@pytest.mark.parametrize(
    ("without", "rule", "missing"),
    [("full", "RAW", "the wait for its mbarrier"), ("empty", "WAW", "the wait for its mbarrier")],
)
def test_a_role_that_does_not_wait_is_found_before_the_phases_run_apart(without, rule, missing):
    """Without the waits of one role the other misses phases: parities come twice, and it waits without end."""
    with pytest.raises(cta.KernelHangError, match="for phase 3 of <mbarrier") as raised:
        launch(specialised, *arrays(), without, threads=128)
    assert (rule, missing) in found(raised.value.result)


def test_roles_that_wait_for_each_other_are_a_hang_with_all_waits():
    with pytest.raises(
        cta.KernelHangError,
        match=r"threads 0 to 31 in a wait for phase 0 of <mbarrier .*; threads 32 to 127 in a wait for phase 1 of",
    ):
        launch(specialised, *arrays(), "arrival", threads=128)


def test_named_barriers_meet_between_roles():
    def kernel(x):
        s, t = cta.shared(np.float32, 32), cta.tid

        def first():
            cta.bar_sync(1, 64)
            x[t] = s[t % 32]
            cta.syncthreads()

        def second():
            s[t % 32] = t
            cta.bar_sync(1, 64)
            cta.syncthreads()

        cta.roles((32, first), (32, second))
        x[t] = x[t] + s[t % 32]

    x = np.zeros(64, np.float32)
    assert found(launch(kernel, x, threads=64)) == []
    assert x[:32].tolist() == [2 * value for value in range(32, 64)]


@pytest.mark.parametrize("counts", [(33, 31), (64, 64), (0, 64)])
def test_impossible_roles_are_refused(counts):
    with pytest.raises(cta.KernelError, match=r"roles of .* multiples of 32"):
        launch(lambda: cta.roles(*((count, lambda: None) for count in counts)), threads=64)


def test_an_error_in_a_role_ends_the_kernel():
    def kernel():
        def wrong():
            raise ZeroDivisionError("as planned")

        cta.roles((32, lambda: cta.bar_sync(2, 64)), (32, wrong))

    with pytest.raises(ZeroDivisionError, match="as planned"):
        launch(kernel, threads=64)


async def test_roles_are_timed():
    async with acl.simulate(device="h200") as sim:
        kernel = cta.kernel(threads=128)(specialised)
        x, y = [acl.Array(await acl.Malloc(TILES * TILE * 4), np.float32, (TILES, TILE)) for _ in range(2)]
        await acl.Memset(x, x.nbytes, 0, x.nbytes)
        op = await kernel[1](x, y)
        await acl.SynchronizeDevice()
        assert sim.findings == []
        assert op.end_ns - op.start_ns > 1000
