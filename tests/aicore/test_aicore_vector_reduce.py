"""Vector instructions that bring elements together, in the order of the card."""

import numpy as np
import pytest
from cores import found
from hypothesis import given
from hypothesis import strategies as st
from instructions import floats, half, in_ub, issued, normal, on_core, same, seeds, single, vector

from device_model.aicore.core.names import TPosition
from device_model.aicore.core.tensors import LocalTensor
from device_model.aicore.functions.rows import GetReduceRepeatSumSpr
from device_model.aicore.vector.reduce import ReduceMax, ReduceMin, ReduceSum
from device_model.aicore.vector.reduce_repeats import (
    BlockReduceMax,
    BlockReduceMin,
    BlockReduceSum,
    PairReduceSum,
    ReduceDataBlock,
    ReduceOrder,
    ReduceRepeat,
    ReduceType,
    RepeatReduceSum,
    WholeReduceMax,
    WholeReduceMin,
    WholeReduceSum,
)
from device_model.kernel.findings import KernelError


def pairwise(row):
    """Neighbours, then their sums: each rounded to the type."""
    row = list(row)
    while len(row) > 1:
        row = [row[i] + row[i + 1] for i in range(0, len(row), 2)]
    return row[0]


def repeats_of(x, lanes):
    return np.pad(x, (0, -len(x) % lanes)).reshape(-1, lanes)


@given(seed=seeds, count=st.integers(1, 2000), dtype=floats)
def test_reduce_sum_adds_as_the_card_does(seed, count, dtype):
    x, lanes = normal(seed, 2048, dtype), 256 // dtype.itemsize
    total = dtype.type(0)
    for row in repeats_of(x[:count], lanes):
        total = total + pairwise(row)
    tmp = np.zeros(64, dtype)
    result, launched = vector(lambda d, a, t: ReduceSum(d, a, t, count), np.zeros(16, dtype), x, tmp)
    assert result[0] == total
    assert not result[1:].any()
    assert found(launched) == []


@given(seed=seeds, mask=st.integers(1, 64), repeats=st.integers(1, 12), stride=st.integers(0, 10))
def test_reduce_sum_with_mask_adds_repeats_as_a_tree(seed, mask, repeats, stride):
    x = normal(seed, 2048, single)
    rows = [np.pad(x[at * stride * 8 :][:mask], (0, 64 - mask)) for at in range(repeats)]
    sums = [pairwise(row) for row in rows]
    sums += [np.float32(0)] * ((1 << (repeats - 1).bit_length()) - repeats)
    result, _ = vector(
        lambda d, a, t: ReduceSum(d, a, t, mask, repeats, stride), np.zeros(8, single), x, np.zeros(64, single)
    )
    assert result[0] == pairwise(sums)


# To the one result: two flags of 10 cycles, and the scalar pipe takes and stores a number in 11 each. ReduceMax first
# reduces the results of the repeats.
@pytest.mark.parametrize(("reduce", "again"), [(ReduceSum, 0), (ReduceMax, 53), (ReduceMin, 53)])
def test_a_reduction_costs_its_repeats_and_the_way_of_its_one_result(reduce, again):
    costs = []

    def kernel():
        dst, src, work = (LocalTensor(single, TPosition.VECCALC, 0x8020 * index, 8192) for index in range(3))
        for count in (64, 640, 641, 8192):
            reduce(dst, src, work, count)
            _, startup, steady = issued()
            assert startup == 0  # it is paid behind other instructions, too
            costs.append(steady - 46 - 42)

    on_core(kernel)
    assert costs == [7, 70 + again, 77 + 16 + again, 896 + again]


@given(seed=seeds, count=st.integers(1, 1000), dtype=floats)
def test_reduce_max_and_min_find_the_first(seed, count, dtype):
    x = np.random.default_rng(seed).integers(-9, 9, 1024).astype(dtype)
    bits = np.uint16 if dtype == half else np.uint32
    for instruction, find in ((ReduceMax, np.argmax), (ReduceMin, np.argmin)):
        tmp = np.zeros(64, dtype)
        result, _ = vector(lambda d, a, t, i=instruction: i(d, a, t, count, True), np.zeros(16, dtype), x, tmp)
        index = find(x[:count])
        assert (result[0], result.view(bits)[1]) == (x[index], index)
        plain, _ = vector(lambda d, a, t, i=instruction: i(d, a, t, count), np.zeros(16, dtype), x, tmp)
        assert (plain[0], plain[1]) == (x[index], 0)


@given(seed=seeds, dtype=floats, repeats=st.integers(1, 6), mask=st.integers(1, 64), gap=st.integers(1, 3))
def test_repeats_blocks_and_pairs_are_reduced_alone(seed, dtype, repeats, mask, gap):
    lanes, per_block = 256 // dtype.itemsize, 32 // dtype.itemsize
    x = normal(seed, 6 * lanes, dtype)
    rows = x[: repeats * lanes].reshape(repeats, lanes)
    out = np.zeros(6 * 3 * lanes, dtype)

    def with_gap(values, each):
        expected = out.copy()
        for repeat in range(repeats):
            expected[repeat * gap * each :][:each] = values[repeat]
        return expected

    def cut(fill):
        return np.where(np.arange(lanes) < mask, rows, dtype.type(fill))

    cases = [
        (lambda d, a: WholeReduceSum(d, a, mask, repeats, gap, 1, 8), [[pairwise(row)] for row in cut(0)], 1),
        (lambda d, a: RepeatReduceSum(d, a, repeats, mask, 0, 1, gap, 8), [[pairwise(row)] for row in cut(0)], 1),
        (lambda d, a: PairReduceSum(d, a, repeats, mask, gap, 1, 8), cut(0)[:, ::2] + cut(0)[:, 1::2], lanes // 2),
        (
            lambda d, a: BlockReduceSum(d, a, repeats, mask, gap, 1, 8),
            [[pairwise(block) for block in row.reshape(8, per_block)] for row in cut(0)],
            8,
        ),
        (lambda d, a: BlockReduceMax(d, a, repeats, mask, gap, 1, 8), cut(-np.inf).reshape(-1, 8, per_block).max(2), 8),
        (lambda d, a: BlockReduceMin(d, a, repeats, mask, gap, 1, 8), cut(np.inf).reshape(-1, 8, per_block).min(2), 8),
    ]
    for instruction, values, each in cases:
        result, launched = vector(instruction, out, x)
        assert same(result, with_gap(values, each))
        assert found(launched) == []


@pytest.mark.parametrize("order", ReduceOrder)
@given(seed=seeds, mask=st.integers(1, 64))
def test_whole_reduce_max_and_min_write_what_the_order_says(order, seed, mask):
    x = np.random.default_rng(seed).integers(-99, 99, 256).astype(single)
    rows = x.reshape(4, 64)[:, :mask]
    for instruction, find in ((WholeReduceMax, np.argmax), (WholeReduceMin, np.argmin)):
        lane = find(rows, axis=1).astype(np.uint32)
        value = rows[np.arange(4), lane]
        expected = {
            ReduceOrder.ORDER_VALUE_INDEX: np.stack((value.view(np.uint32), lane), 1).ravel(),
            ReduceOrder.ORDER_INDEX_VALUE: np.stack((lane, value.view(np.uint32)), 1).ravel(),
            ReduceOrder.ORDER_ONLY_VALUE: value.view(np.uint32),
            ReduceOrder.ORDER_ONLY_INDEX: lane,
        }[order]
        out = np.zeros(8, np.uint32 if order is ReduceOrder.ORDER_ONLY_INDEX else single)
        result, _ = vector(lambda d, a, i=instruction: i(d, a, mask, 4, 1, 1, 8, order), out, x)
        assert result.view(np.uint32)[: len(expected)].tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", [half, single])
def test_indices_alone_may_go_to_a_tensor_of_the_sources_type(dtype):
    """Ascend C has one type for both tensors; the indices in it are uint32 all the same."""
    lanes = 256 // dtype.itemsize
    x = normal(0, 3 * lanes, dtype)

    def indices(dst, src):
        WholeReduceMax(dst, src, lanes, 3, 1, 1, 8, ReduceOrder.ORDER_ONLY_INDEX)

    result, _ = vector(indices, np.zeros(32 // dtype.itemsize, dtype), x)
    assert result.view(np.uint32)[:3].tolist() == x.reshape(3, lanes).argmax(axis=1).tolist()


@given(seed=seeds, dtype=floats, repeats=st.integers(1, 4), shift=st.integers(0, 3))
def test_results_of_a_reduction_may_lie_on_what_has_been_read(seed, dtype, repeats, shift):
    """In place the first repeat writes a part of itself; further on it would overwrite what comes next."""
    lanes, per_block = 256 // dtype.itemsize, 32 // dtype.itemsize
    x = np.random.default_rng(seed).integers(-9, 10, 8 * lanes).astype(dtype)
    sums = x[: repeats * lanes].reshape(-1, per_block).sum(axis=1)
    first, seen = shift * lanes, []

    def kernel():
        tile = in_ub(x, 0)
        BlockReduceSum(tile[first:], tile, repeats, lanes, 1, 1, 8)
        seen.append(tile.view[first:][: repeats * 8].copy())

    result = on_core(kernel)
    if 0 < shift < repeats:
        assert found(result) == [("PARTIAL_OVERLAP", "")]
    else:
        assert found(result) == []
        assert same(seen[0], sums)


@pytest.mark.parametrize("kind", ReduceType)
def test_one_name_reduces_repeats_and_blocks_by_its_type(kind):
    x = normal(5, 256, single)
    numpy = {ReduceType.SUM: np.sum, ReduceType.MAX: np.max, ReduceType.MIN: np.min}[kind]
    only_value = ReduceOrder.ORDER_ONLY_VALUE
    repeats, _ = vector(
        lambda d, s: ReduceRepeat(d, s, 64, 4, 1, 1, 8, only_value, reduce_type=kind), np.zeros(8, single), x
    )
    blocks, _ = vector(lambda d, s: ReduceDataBlock(d, s, 64, 4, 1, 1, 8, reduce_type=kind), np.zeros(32, single), x)
    assert np.allclose(repeats[:4], numpy(x.reshape(4, 64), axis=1), rtol=1e-5)
    assert np.allclose(blocks, numpy(x.reshape(32, 8), axis=1), rtol=1e-5, atol=1e-6)


def test_the_last_sum_is_read_without_a_flag():
    x = np.arange(1, 201).astype(single)
    seen = []

    def kernel():
        src, dst, tmp = in_ub(x, 0), in_ub(np.zeros(8, single), 0x1000), in_ub(np.zeros(64, single), 0x2000)
        with pytest.raises(KernelError, match=r"without a ReduceSum; call ReduceSum\(dst, src, tmp, count\) first"):
            GetReduceRepeatSumSpr()
        ReduceSum(dst, src, tmp, 64, 1)  # the form with a mask leaves the register
        ReduceSum(dst, src, tmp, 200)
        seen.append(GetReduceRepeatSumSpr())
        ReduceMax(dst, src, tmp, 200)
        seen.append(GetReduceRepeatSumSpr())

    result = on_core(kernel)
    assert seen == [20_100.0, 20_100.0]
    assert found(result) == []
    done = [each for each in result.programs[0].instructions if each.name in ("ReduceSum", "WaitFlag<V_S>")]
    assert [each.name for each in done] == ["ReduceSum", "ReduceSum", "WaitFlag<V_S>", "WaitFlag<V_S>"]
    assert done[2].end > done[1].end
