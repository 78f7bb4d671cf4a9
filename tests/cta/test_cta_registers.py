"""Registers: what NumPy does with them is counted as instructions of the warps."""

import numpy as np
import pytest
from blocks import launch, names

from acl_py import cta
from device_model.sm.fragments import C
from device_model.sm.instructions import Op


def test_each_element_of_a_thread_is_an_instruction():
    def kernel(x):
        t = cta.tid
        v = x[t]
        total = np.exp(v - v.max(axis=1)[:, None]).sum(axis=1)
        x[t] = np.where(total[:, None] > 1, v / 2, v)

    result = launch(kernel, np.ones((32, 8), np.float32))
    assert names(result)[1:] == [
        ("maximum", 7), ("subtract", 8), ("exp", 8), ("exp", 8), ("add", 7), ("greater", 1), ("divide", 8),
        ("divide", 8), ("sel", 8), ("st.global.128", 2),
    ]  # fmt: skip
    rows = result.blocks[0].rows
    assert [row.op for row in rows[3:5]] == [Op.FMA, Op.SFU]
    assert rows[1].chains == 1
    assert rows[4].reads == rows[3].writes


def test_the_special_unit_computes_powers_of_two_alone():
    def kernel(x):
        x[cta.tid] = np.exp2(np.log2(x[cta.tid]))

    rows = launch(kernel, np.ones(32, np.float32)).blocks[0].rows
    assert [(row.name, row.op) for row in rows[1:-1]] == [("log2", Op.SFU), ("exp2", Op.SFU)]


def test_an_instruction_knows_the_registers_that_it_needs():
    def kernel(x):
        t = cta.tid
        a = x[t]
        b = cta.fma(a, a, 1)
        b += a
        x[t] = b

    load, fma, add, store = launch(kernel, np.ones(32, np.float32)).blocks[0].rows[-4:]
    assert fma.reads == load.writes * 2
    assert add.reads == (*fma.writes, *load.writes)
    assert store.reads == add.writes


def test_fma_is_rounded_once():
    def kernel(x):
        a = x[cta.tid]
        x[cta.tid] = cta.fma(a, a, -1)

    x = np.full(32, 1 + 2**-23, np.float32)
    launch(kernel, x)
    assert (x == np.float32(2**-22 + 2**-46)).all()


def test_assignments_under_where_change_active_threads_only():
    def kernel(x):
        t = cta.tid
        acc = cta.zeros((2,))
        with cta.where(t % 2 == 0):
            acc[:, 0] = 5
            acc += 1
        x[t] = acc

    x = np.zeros((32, 2), np.float32)
    launch(kernel, x)
    assert (x == np.where(np.arange(32)[:, None] % 2, 0, [6, 1])).all()


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda t: t[0], "a thread reaches its own registers only"),
        (lambda t: t[t], "a thread reaches its own registers only"),
        (lambda t: t.sum(), "a reduction over the threads"),
        (lambda t: np.maximum.accumulate(t), "maximum.accumulate of a register"),
        (lambda t: cta.where(t).__enter__(), "where.. takes a truth value for each"),
        (lambda t: cta.shfl(t, 0, 5), "a shuffle of width 5"),
    ],
)
def test_what_no_thread_can_do_is_refused(use, message):
    with pytest.raises(cta.KernelError, match=message):
        launch(lambda: use(cta.tid))


def test_the_language_is_refused_outside_of_a_kernel():
    with pytest.raises(cta.KernelError, match=r"outside a thread-block kernel; .* @cta.kernel"):
        cta.syncthreads()
    with pytest.raises(AttributeError, match=r"no attribute 'threadIdx'; CUDA's threadIdx is cta.tid"):
        cta.threadIdx  # noqa: B018


def test_blocks_know_their_place():
    def kernel(x):
        (i, j, k), (nx, ny, _) = cta.block, cta.grid
        t = cta.tid
        x[k, j, i, t] = t + cta.threads * (i + nx * (j + ny * k)) + 0 * cta.warp * cta.lane

    x = np.zeros((4, 3, 2, 32), np.int32)
    launch(kernel, x, grid=(2, 3, 4))
    assert (x.reshape(-1) == np.arange(x.size)).all()


def test_shuffles_and_votes_work_within_warps():
    def kernel(x):
        t = cta.tid
        for row, value in enumerate(
            (
                cta.shfl_xor(t, 5), cta.shfl_down(t, 1), cta.shfl_up(t, 2), cta.shfl(t, 3, 8), cta.ballot(t % 32 < 4),
                cta.any_sync(t == 40), cta.all_sync(t < 40), cta.shfl_xor(t, 1, 16), cta.shfl_xor(t, 16, 16),
            )
        ):  # fmt: skip
            x[row, t] = value

    x = np.zeros((9, 64), np.int64)
    launch(kernel, x, threads=64)
    t = np.arange(64)
    lane = t % 32
    assert (x[0] == t ^ 5).all()
    assert (x[1] == np.where(lane == 31, t, t + 1)).all()
    assert (x[2] == np.where(lane < 2, t, t - 2)).all()
    assert (x[3] == t // 8 * 8 + 3).all()
    assert (x[4] == 15).all()
    assert (x[5] == (t >= 32)).all()
    assert (x[6] == (t < 32)).all()
    assert (x[7] == t ^ 1).all()
    assert (x[8] == np.where(lane < 16, t, t - 16)).all()  # the group of a lane and those before it


def test_lanes_whose_rows_ldmatrix_does_not_load_may_name_any_place():
    def kernel(y):
        t = cta.tid
        s = cta.shared(np.float16, (8, 32))
        s[t // 4, t % 4 * 8] = 1
        y[t] = cta.ldmatrix(s.at[t % 8, cta.select(t < 8, 0, 1)], 1)[:, 0]

    y = np.zeros(32, np.float16)
    launch(kernel, y)
    assert (y[::4] == 1).all()  # the first element of each row


@pytest.mark.parametrize("exact", [False, True])
def test_a_tile_from_ldmatrix_is_the_product_and_counts_its_instructions(exact):
    """Each of two warps multiplies its own 32 x 32 by one 32 x 16."""

    def kernel(a, b, c, one):
        t, lane, warp = cta.tid, cta.lane[:, None, None], cta.warp[:, None, None]
        sa, sb = cta.shared(np.float16, (64, 32)), cta.shared(np.float16, (32, 16))
        for i in range(4):
            cta.cp_async(sa.at[i * 16 + t // 4, t % 4 * 8], a.at[i * 16 + t // 4, t % 4 * 8], 16)
        cta.cp_async(sb.at[t // 2, t % 2 * 8], b.at[t // 2, t % 2 * 8], 16)
        cta.wait_all()
        cta.syncthreads()
        first, second = 16 * np.arange(2)[None, :, None], np.arange(2)[None, None, :]
        fa = cta.ldmatrix(sa.at[warp * 32 + lane % 16 + first, lane // 16 * 8 + 16 * second], 4)
        fb = cta.ldmatrix(sb.at[lane % 16 + first, 8 * second], 2, transposed=True)
        c[t] = cta.tile_mma(fa, fb, cta.zeros((2, 2, 4)), exact=exact)
        one[t] = cta.mma(fa[:, 0, 1], fb[:, 1, 0], cta.mma(fa[:, 0, 0], fb[:, 0, 0], cta.zeros(4)))

    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((64, 32)).astype(np.float16), rng.standard_normal((32, 16)).astype(np.float16)
    c, one = np.zeros((64, 2, 2, 4), np.float32), np.zeros((64, 4), np.float32)
    result = launch(kernel, a, b, c, one, threads=64)
    assert not list(result.findings)
    assert [row.count for row in result.blocks[0].rows if row.op is Op.MMA] == [8, 1, 1]
    expected = (a.astype(np.float32) @ b.astype(np.float32)).reshape(2, 2, 16, 2, 8)
    for warp in range(2):
        lanes = slice(32 * warp, 32 * warp + 32)
        for i in range(2):
            for j in range(2):
                assert np.abs(C.join(c[lanes, i, j]) - expected[warp, i, :, j]).max() < 1e-5
        assert np.abs(C.join(one[lanes]) - expected[warp, 0, :, 0]).max() < 1e-5
    if exact:
        assert (one == c[:, 0, 0]).all()


@pytest.mark.parametrize("axis", [1, -1, (1, 3), (2, 4), (1, 2, 3, 4)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_a_reduction_over_any_axes_of_a_thread_is_numpys(axis, keepdims):
    values = np.random.default_rng(3).integers(-9, 9, (32, 1, 3, 2, 4)).astype(np.float32)
    is_counted = np.arange(4) > 1

    def kernel(v):
        register = v[cta.tid]
        for name in ("sum", "max", "min"):
            wanted = getattr(values, name)(axis=axis, keepdims=keepdims)
            assert np.array_equal(getattr(register, name)(axis=axis, keepdims=keepdims), wanted)
        assert np.array_equal(register.sum(axis, where=is_counted), values.sum(axis, where=is_counted))
        assert np.array_equal((register > 8).any(axis), (values > 8).any(axis))
        assert np.array_equal(register.max(axis, initial=5), values.max(axis, initial=5))

    launch(kernel, values)


def test_constants_take_no_instruction_and_two_values_are_packed_by_one():
    def kernel(x, y):
        t = cta.tid
        y[t] = (cta.zeros(8) + x[t]).astype(np.float16)

    result = launch(kernel, np.ones((32, 8), np.float32), np.ones((32, 8), np.float16))
    assert names(result)[1:] == [("add", 8), ("cvt.x2", 4), ("st.global.128", 1)]
    assert [row.op for row in result.blocks[0].rows[1:3]] == [Op.FMA, Op.ALU]


def test_a_reduction_is_a_chain_for_each_of_its_results():
    def kernel(x):
        t = cta.tid
        v = x[t]
        x[t] = v + v.reshape(v.shape[0], 2, 4).sum(axis=2).sum(axis=1)[:, None]

    rows = launch(kernel, np.ones((32, 8), np.float32)).blocks[0].rows
    assert [(row.name, row.count, row.chains) for row in rows[1:4]] == [("add", 6, 2), ("add", 1, 1), ("add", 8, 0)]


def test_what_is_computed_from_thread_indices_alone_is_computed_once():
    def kernel(x):
        for step in range(3):
            t = cta.tid ^ 1
            n = x[t] + (cta.lane + step)
            for _ in range(2):
                x[t] = n + 1

    result = launch(kernel, np.zeros(32, np.int32))
    counted = [name for name, _ in names(result) if not name.startswith(("ld", "st"))]
    # In each step the lane and the step are added, then both loaded numbers and, twice, 1: what is loaded is no index.
    assert counted == ["bitwise_xor"] + 3 * ["add", "add", "add", "add"]
