"""Loads and stores: what they move, what they cost, and what is refused."""

import numpy as np
import pytest
from blocks import found, launch

from acl_py import cta
from device_model.sm.instructions import Op


def rows_of(result, *ops):
    return [row for row in result.blocks[0].rows if row.op in ops]


def test_the_dimensions_that_an_index_leaves_are_one_wide_access():
    def kernel(x, y):
        t = cta.tid
        v = x[t]  # 16 bytes for each thread
        s = cta.shared(np.float32, (32, 4))
        s[t] = v
        y[t] = s[31 - t] + 1

    x, y = np.arange(128, dtype=np.float32).reshape(32, 4), np.zeros((32, 4), np.float32)
    result = launch(kernel, x, y)
    assert (y == x[::-1] + 1).all()
    assert [(row.op, row.count, row.sectors) for row in rows_of(result, Op.LDG, Op.STG)] == [
        (Op.LDG, 1, (16,)), (Op.STG, 1, (16,)),
    ]  # fmt: skip
    assert [(row.op, row.phases) for row in rows_of(result, Op.STS, Op.LDS_128)] == [
        (Op.STS, (4,)), (Op.LDS_128, (4,)),
    ]  # fmt: skip
    assert found(result) == [("RAW", "syncwarp()")]


@pytest.mark.parametrize(("stride", "phases", "sectors"), [(1, 1, 4), (2, 2, 8), (32, 32, 32), (33, 1, 32), (0, 1, 1)])
def test_conflicts_and_sectors_follow_from_addresses(stride, phases, sectors):
    def kernel(x, y):
        t = cta.tid
        s = cta.shared(np.float32, 2048)
        with cta.where(t >= 0):
            for i in range(64):
                s[i * 32 + t] = x[i * 32 + t]
        cta.syncthreads()
        y[t] = s[t * stride] + x[t * stride]

    x, y = np.arange(2048, dtype=np.float32), np.zeros(32, np.float32)
    result = launch(kernel, x, y)
    assert found(result) == []
    assert rows_of(result, Op.LDS_32)[0].phases == (phases,)
    assert rows_of(result, Op.LDG)[-1].sectors == (sectors,)
    assert rows_of(result, Op.LDG)[-1].misses == (0,)  # the L2 has them since the loop
    assert rows_of(result, Op.LDG)[0].misses == (4,)


def test_inactive_threads_move_nothing_and_their_warps_issue_nothing():
    def kernel(x, y):
        t = cta.tid
        with cta.where(t < 40):
            y[t] = x[t] * 2

    x, y = np.ones(96, np.float32), np.zeros(96, np.float32)
    result = launch(kernel, x, y, threads=96)
    assert (y == np.where(np.arange(96) < 40, 2, 0)).all()
    assert [(row.name, row.warps) for row in result.blocks[0].rows[-3:]] == [
        ("ld.global.32", 0b011), ("multiply", 0b011), ("st.global.32", 0b011),
    ]  # fmt: skip
    assert result.blocks[0].rows[-1].sectors == (4, 1, 0)


def test_where_no_thread_is_active_nothing_happens():
    def kernel(x):
        s, t = cta.shared(np.float32, 32), cta.tid
        s[t] = 0
        with cta.where(t > 99):
            s[t] = x[t + 1000]
            cta.cp_async(s.at[t], x.at[t], 4)
            cta.memcpy_async(s, x)
            cta.commit_group()
            cta.atomic_add(x.at[t], 1)
            cta.syncwarp()
        x[t] = x[t] + s[t]

    x = np.ones(32, np.float32)
    result = launch(kernel, x)
    assert (x == 1).all()
    assert found(result) == []
    assert [row.name for row in result.blocks[0].rows] == [
        "st.shared.32", "greater", "ld.global.32", "ld.shared.32", "add", "st.global.32",
    ]  # fmt: skip
    assert rows_of(result, Op.LDG)[0].misses == (4,)


def test_reads_of_bytes_that_nothing_wrote_are_reported():
    def kernel(x, y):
        t = cta.tid
        s = cta.shared(np.float16, 64)
        s[t] = x[t]
        cta.syncthreads()
        y[t] = s[t + 1]
        cta.syncthreads()
        x[t] = y[t + 32]

    x, y = np.ones(32, np.float16), np.zeros(64, np.float16)
    result = launch(kernel, x, y, out=["y"])
    shared, device = result.findings
    assert shared.rule is device.rule is cta.Rule.UNWRITTEN_READ
    assert "thread 31 reads shared[test_cta_memory.py:" in str(shared)
    assert "thread 0 reads y at" in str(device)
    assert np.isnan(y[31])  # poison


@pytest.mark.parametrize(("flip", "expected"), [(0, []), (1, [("RAW", "syncwarp()")])])
def test_bytes_that_are_written_together_may_be_read_and_written_apart(flip, expected):
    """Accesses of 16 bytes come first, so the parts of these bytes have a common past, but not a common future."""

    def kernel(x, y, z):
        s, t = cta.shared(np.float16, (32, 8)), cta.tid
        s[t] = x[t]
        y[t] = s[t ^ flip, 2]  # flipped, a thread reads what its neighbour wrote
        cta.syncthreads()
        s[t // 8, t % 8] = t  # 8 threads write 2 bytes each of one piece
        z[t] = s[t // 8, t % 8]

    x, y, z = np.arange(256, dtype=np.float16).reshape(32, 8), np.zeros(32, np.float16), np.zeros(32, np.float16)
    result = launch(kernel, x, y, z)
    assert found(result) == expected
    assert (y == x[np.arange(32) ^ flip, 2]).all()
    assert (z == np.arange(32)).all()


def test_threads_that_write_different_values_to_one_place_are_reported():
    def kernel(x, differs):
        s, t = cta.shared(np.int32, 1), cta.tid
        s[t * 0] = t if differs else 7
        cta.syncthreads()
        x[t] = s[t * 0]

    x = np.zeros(32, np.int32)
    assert found(launch(kernel, x, False)) == []
    assert found(launch(kernel, x, True)) == [("WAW", "an atomic operation, or a place for each thread")]


@pytest.mark.parametrize(
    ("access", "message"),
    [
        (lambda x, s, t: x[t + 1], r"thread 31 of block 0 at test_cta_memory.py:\d+: index 32 is outside of <global x"),
        (lambda x, s, t: s[t - 4], r"threads 0 to 3 of block 0 .*: index -4 is outside of <shared"),
        (lambda x, s, t: s.reshape(16, 4).at[t // 2, 1:3].load(), r"byte 4 of <shared .* for an access of 8"),
        (lambda x, s, t: x[40], "is outside of"),
        (lambda x, s, t: x[t, 0], "2 indices for"),
        (lambda x, s, t: x[t > 3], "for a mask use where"),
        (lambda x, s, t: x[np.arange(5)], "its first axis must be the 32 threads"),
        (lambda x, s, t: x.__setitem__(slice(0, 4), 1), "does not say which thread stores what"),
        (lambda x, s, t: x.__setitem__(t, cta.zeros(3)), "does not fit"),
        (lambda x, s, t: cta.shared(np.float32, 13000), "static arrays have 49152 bytes in all"),
    ],
)  # fmt: skip
def test_an_impossible_access_ends_the_kernel_with_thread_and_line(access, message):
    def kernel(x):
        s = cta.shared(np.float32, 64)
        s[cta.tid] = s[cta.tid + 32] = 0
        access(x, s, cta.tid)

    with pytest.raises(cta.KernelError, match=message):
        launch(kernel, np.zeros(32, np.float32))


def test_dynamic_shared_memory_is_what_the_kernel_asked_for():
    def kernel():
        cta.shared(np.float32, 64)
        cta.shared(np.float32, 65)

    launch(kernel, shared=516)
    with pytest.raises(cta.KernelError, match=r"ends at byte 516 of shared memory, .* made with shared=512"):
        launch(kernel, shared=512)


def test_atomics_add_in_the_order_of_threads_and_need_no_barrier_among_themselves():
    def kernel(x, y):
        s, t = cta.shared(np.int32, 4), cta.tid
        with cta.where(t < 4):
            s[t] = 0
        cta.syncthreads()
        y[t] = cta.atomic_add(s.at[t % 4], 1)
        cta.atomic_max(x.at[t * 0], t)
        cta.syncthreads()
        with cta.where(t < 4):
            x[t + 1] = s[t]

    x, y = np.zeros(5, np.int32), np.zeros(64, np.int32)
    result = launch(kernel, x, y, threads=64)
    assert found(result) == []
    assert x.tolist() == [63, 16, 16, 16, 16]
    assert y.tolist() == [thread // 4 for thread in range(64)]


@pytest.mark.parametrize("is_shared", [False, True])
def test_compare_and_swap_lets_one_thread_take_each_place(is_shared):
    """Threads put their numbers into a table in which two of them want each place; the later one takes the next."""

    def kernel(x, y):
        s, t = cta.shared(np.int32, 32), cta.tid
        table = s if is_shared else x
        table[t] = -1
        cta.syncthreads()
        place = t // 2 * 2
        taken = cta.atomic_cas(table.at[place], -1, t)
        with cta.where(taken >= 0):
            place += 1
            y[t] = cta.atomic_cas(table.at[place], -1, t)
        cta.syncthreads()
        x[t] = table[t]

    x, y = np.zeros(32, np.int32), np.full(32, 7, np.int32)
    result = launch(kernel, x, y)
    assert found(result) == []
    assert x.tolist() == list(range(32))
    assert y.tolist() == [7, -1] * 16
    assert [row.op for row in result.blocks[0].rows if row.name == "atom.cas"] == [
        Op.ATOMS if is_shared else Op.ATOMG
    ] * 2


def test_compare_and_swap_needs_a_barrier_before_others_read_and_integers():
    def reads_at_once(x):
        s, t = cta.shared(np.int32, 64), cta.tid
        s[t] = 0
        cta.syncthreads()
        cta.atomic_cas(s.at[t], 0, t)
        x[t] = s[63 - t]

    assert found(launch(reads_at_once, np.zeros(64, np.int32), threads=64)) == [("RAW", "syncthreads()")]
    with pytest.raises(cta.KernelError, match=r"atomic_cas\(\) at \S+ of x, which holds float32"):
        launch(lambda x: cta.atomic_cas(x.at[cta.tid], 0, 1), np.zeros(32, np.float32))


def test_a_read_beside_atomics_needs_a_barrier():
    def kernel(x):
        s, t = cta.shared(np.int32, 1), cta.tid
        with cta.where(t == 0):
            s[t] = 0
        cta.syncthreads()
        cta.atomic_add(s.at[t * 0], 1)
        x[t] = s[t * 0]

    assert found(launch(kernel, np.zeros(64, np.int32), threads=64)) == [("RAW", "syncthreads()")]
