"""Vector instructions that reduce, compare, choose, gather, rearrange and sort."""

from itertools import chain

import numpy as np
import pytest
from cores import found
from hypothesis import given
from hypothesis import strategies as st
from instructions import half, issued, on_core, same, single, vector

from device_model.aicore.findings import KernelError
from device_model.aicore.masks import BinaryRepeatParams
from device_model.aicore.names import CMPMODE, SELMODE, TPosition
from device_model.aicore.tensors import LocalTensor
from device_model.aicore.vector_gather import (
    Brcb,
    BrcbRepeatParams,
    Gather,
    GatherMask,
    GatherMaskParams,
    Transpose,
)
from device_model.aicore.vector_reduce import (
    BlockReduceMax,
    BlockReduceMin,
    BlockReduceSum,
    PairReduceSum,
    ReduceMax,
    ReduceMin,
    ReduceOrder,
    ReduceSum,
    RepeatReduceSum,
    WholeReduceMax,
    WholeReduceMin,
    WholeReduceSum,
)
from device_model.aicore.vector_select import Compare, Compares, Select
from device_model.aicore.vector_sort import MrgSort, MrgSort4Info, Sort32

seeds = st.integers(0, 2**32 - 1)
floats = st.sampled_from([half, single])


def normal(seed, count, dtype):
    return np.random.default_rng(seed).normal(size=count).astype(dtype)


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


@pytest.mark.parametrize("reduce", [ReduceSum, ReduceMax, ReduceMin])
def test_a_reduction_costs_its_repeats_though_it_writes_one_number(reduce):
    costs = []

    def kernel():
        dst, src, work = (LocalTensor(single, TPosition.VECCALC, 0x8020 * index, 8192) for index in range(3))
        for count in (64, 640, 641, 8192):
            reduce(dst, src, work, count)
            costs.append(sum(issued()[1:]) - 46)

    on_core(kernel)
    assert costs == [7, 70, 77 + 16, 896]


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


# Compare and select

ASK = {
    CMPMODE.LT: np.less,
    CMPMODE.GT: np.greater,
    CMPMODE.LE: np.less_equal,
    CMPMODE.GE: np.greater_equal,
    CMPMODE.EQ: np.equal,
    CMPMODE.NE: np.not_equal,
}


@pytest.mark.parametrize("mode", CMPMODE)
@given(seed=seeds, dtype=floats, repeats=st.integers(1, 5))
def test_compare_gives_bits_and_select_takes_them(mode, seed, dtype, repeats):
    lanes = 256 // dtype.itemsize
    count = repeats * lanes
    x, y = (np.random.default_rng(seed + each).integers(-3, 3, count).astype(dtype) for each in range(2))
    truth = ASK[mode](x, y)
    packed = np.packbits(truth, bitorder="little")
    by_count, _ = vector(lambda d, a, b: Compare(d, a, b, mode, count), np.zeros(256, np.uint8), x, y)
    by_mask, _ = vector(lambda d, a, b: Compare(d, a, b, mode, lanes, repeats), np.zeros(256, np.uint8), x, y)
    assert np.array_equal(by_count[: count // 8], packed)
    assert np.array_equal(by_mask, by_count)
    scalar, _ = vector(lambda d, a: Compares(d, a, 1, mode, count), np.zeros(256, np.uint8), x)
    assert np.array_equal(scalar[: count // 8], np.packbits(ASK[mode](x, 1), bitorder="little"))

    chosen, _ = vector(
        lambda d, m, a, b: Select(d, m, a, b, SELMODE.VSEL_TENSOR_TENSOR_MODE, count),
        np.zeros(count, dtype),
        by_count,
        x,
        y,
    )
    assert same(chosen, np.where(truth, x, y))
    halved, _ = vector(
        lambda d, m, a: Select(d, m, a, 0.5, SELMODE.VSEL_TENSOR_SCALAR_MODE, count),
        np.zeros(count, dtype),
        by_count,
        x,
    )
    assert same(halved, np.where(truth, x, dtype.type(0.5)))
    first = np.tile(truth[:lanes], repeats)
    again, _ = vector(
        lambda d, m, a, b: Select(d, m, a, b, SELMODE.VSEL_CMPMASK_SPR, 5, repeats, BinaryRepeatParams()),
        np.zeros(count, dtype), by_count, x, y,
    )  # fmt: skip
    active = np.arange(count) % lanes < 5
    assert same(again, np.where(active, np.where(first, x, y), dtype.type(0)))


# Gather


@given(
    seed=seeds,
    dtype=st.sampled_from([half, single, np.dtype(np.int16), np.dtype(np.uint32)]),
    count=st.integers(1, 200),
)
def test_gather_takes_bytes_offsets(seed, dtype, count):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 99, 512).astype(dtype)
    index = rng.integers(0, 500, 200)
    offsets = (index * dtype.itemsize).astype(np.uint32)
    base = 12 * dtype.itemsize
    result, launched = vector(lambda d, a, o: Gather(d, a, o, base, count), np.zeros(200, dtype), x, offsets)
    assert same(result[:count], x[index[:count] + 12])
    assert not result[count:].any()
    assert found(launched) == []


def test_gather_outside_of_its_source_is_refused():
    with pytest.raises(KernelError, match=r"offset 400 from .*multiples of 4 below 256"):
        vector(
            lambda d, a, o: Gather(d, a, o, 0, 1), np.zeros(8, single), np.zeros(64, single), np.full(8, 400, np.uint32)
        )


@given(seed=seeds, dtype=floats, repeats=st.integers(1, 4), pattern=st.integers(0, 7), counted=st.booleans())
def test_gather_mask_packs_what_the_pattern_picks(seed, dtype, repeats, pattern, counted):
    lanes = 256 // dtype.itemsize
    each = 40 if counted else lanes
    x = normal(seed, 4 * lanes, dtype)
    bits = np.random.default_rng(seed).integers(0, 256, 256).astype(np.uint8)
    rows = x[: repeats * lanes].reshape(repeats, lanes)[:, :each]
    lane = np.arange(each)
    fixed = {1: lane % 2 == 0, 2: lane % 2 == 1, 3: lane % 4 == 0, 4: lane % 4 == 1, 5: lane % 4 == 2, 6: lane % 4 == 3}
    if pattern == 0:
        picked = np.unpackbits(bits, bitorder="little").reshape(-1, 256)[:repeats, :each].astype(bool)
        expected = rows[picked]
    else:
        expected = rows[:, fixed.get(pattern, lane >= 0)].ravel()
    counts = []

    def gather(d, a, p):
        chosen = p if pattern == 0 else pattern
        params = GatherMaskParams(1, repeats, 8, 1)  # a repeat's bits are 32 bytes on
        counts.append(GatherMask(d, a, chosen, counted, each, params))

    user = bits.view(np.uint16 if dtype == half else np.uint32)
    result, _ = vector(gather, np.zeros(512, dtype), x, user)
    assert counts == [len(expected)]
    assert same(result[: counts[0]], expected)


def test_brcb_transpose():
    x = np.arange(16, dtype=np.float32)
    result, _ = vector(lambda d, a: Brcb(d, a, 2, BrcbRepeatParams(1, 8)), np.zeros(128, single), x)
    assert same(result, np.repeat(x, 8))
    matrix = np.arange(256).astype(half)
    turned, _ = vector(Transpose, np.zeros(256, half), matrix)
    assert same(turned, matrix.reshape(16, 16).T.ravel())


# Sort


def records(raw, dtype):
    """Sorted lists as (score, index) pairs."""
    layout = np.dtype({"names": ["s", "i"], "formats": [dtype, np.uint32], "offsets": [0, 4], "itemsize": 8})
    return [(float(each["s"]), int(each["i"])) for each in raw.view(np.uint8).view(layout)]


def ordered(pairs):
    """Descending; equal scores stay in order."""
    return sorted(pairs, key=lambda pair: -pair[0])


@given(seed=seeds, dtype=floats, repeats=st.integers(1, 4))
def test_sort32_sorts_groups_and_mrgsort_merges_them(seed, dtype, repeats):
    size = 8 // dtype.itemsize
    x = np.random.default_rng(seed).integers(-50, 50, 128).astype(dtype)
    index = np.arange(128, dtype=np.uint32)
    count = 32 * repeats
    result, launched = vector(lambda d, a, i: Sort32(d, a, i, repeats), np.zeros(128 * size, dtype), x, index)
    pairs = [(float(score), number) for number, score in enumerate(x)]
    groups = [ordered(pairs[at : at + 32]) for at in range(0, count, 32)]
    assert records(result[: count * size], dtype) == list(chain(*groups))
    assert found(launched) == []
    if repeats < 2:
        return
    taken = []

    def merge(d, s):
        lists = [s[number * 32 * size :] for number in range(repeats)]
        taken.append(MrgSort(d, lists, MrgSort4Info((32, 32, 32, 32), False, (1 << repeats) - 1)))

    merged, _ = vector(merge, np.zeros(128 * size, dtype), result)
    assert records(merged[: count * size], dtype) == ordered(list(chain(*groups)))
    assert taken == [(32,) * repeats + (0,) * (4 - repeats)]


def test_mrgsort_stops_when_a_list_is_used_up():
    lists = np.zeros(8 * 2, single)
    lists[0::2] = [9, 8, 7, 6, 5, 2, 1, 0]
    taken = []

    def merge(d, s):
        taken.append(MrgSort(d, [s, s[8:]], MrgSort4Info((4, 4, 0, 0), True, 0b11)))

    result, _ = vector(merge, np.zeros(16, single), lists)
    assert taken == [(4, 0, 0, 0)]
    assert result[0::2].tolist() == [9, 8, 7, 6, 0, 0, 0, 0]
