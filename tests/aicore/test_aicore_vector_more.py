"""Vector instructions that reduce, compare, choose, gather, rearrange and sort."""

from itertools import chain

import numpy as np
import pytest
from cores import found
from hypothesis import given
from hypothesis import strategies as st
from instructions import half, issued, on_core, same, single, vector

from device_model.aicore.findings import KernelError
from device_model.aicore.masks import (
    MASK_PLACEHOLDER,
    BinaryRepeatParams,
    ResetMask,
    SetMaskCount,
    SetMaskNorm,
    SetVectorMask,
)
from device_model.aicore.names import CMPMODE, SELMODE, TPosition
from device_model.aicore.tensors import LocalTensor
from device_model.aicore.vector import (
    AddRelu,
    Adds,
    ArithProgression,
    Copy,
    CopyRepeatParams,
    CreateVecIndex,
    Mul,
    MulAddDst,
    ShiftLeft,
    ShiftRight,
    SubRelu,
)
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
        taken.append(MrgSort(d, [s, s[8:]], MrgSort4Info([4, 4, 0, 0], True, 0b11)))

    result, _ = vector(merge, np.zeros(16, single), lists)
    assert taken == [(4, 0, 0, 0)]
    assert result[0::2].tolist() == [9, 8, 7, 6, 0, 0, 0, 0]


@given(seed=seeds, dtype=st.sampled_from([half, single, np.dtype(np.int16)]), count=st.integers(1, 300))
def test_sums_and_differences_cut_at_zero(seed, dtype, count):
    x, y = (np.random.default_rng(seed + at).integers(-99, 99, count).astype(dtype) for at in range(2))
    out = np.zeros(count, dtype)
    assert same(vector(lambda d, a, b: AddRelu(d, a, b, count), out, x, y)[0], np.maximum(x + y, dtype.type(0)))
    assert same(vector(lambda d, a, b: SubRelu(d, a, b, count), out, x, y)[0], np.maximum(x - y, dtype.type(0)))


@given(seed=seeds, dtype=st.sampled_from([np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (16, 32)]))
def test_shifts_are_those_of_the_type(seed, dtype):
    limits = np.iinfo(dtype)
    x = np.random.default_rng(seed).integers(limits.min, limits.max, 100, dtype, endpoint=True)
    for bits in (0, 1, 5, limits.bits - 1):
        left, _ = vector(lambda d, a, bits=bits: ShiftLeft(d, a, bits, 100), np.zeros_like(x), x)
        right, _ = vector(lambda d, a, bits=bits: ShiftRight(d, a, bits, 100), np.zeros_like(x), x)
        assert left.tolist() == [int(np.array(int(each) << bits).astype(dtype)) for each in x]
        assert right.tolist() == [int(each) >> bits for each in x]
    with pytest.raises(KernelError, match=f"by 33 bits; give 0 to {limits.bits}"):
        vector(lambda d, a: ShiftRight(d, a, 33, 100), np.zeros_like(x), x)


def test_copy_spreads_a_row_and_picks_lanes():
    x = np.arange(256, dtype=np.float32)
    rows, _ = vector(lambda d, a: Copy(d, a, 64, 4, CopyRepeatParams(1, 1, 8, 0)), np.zeros_like(x), x)
    assert rows.tolist() == x[:64].tolist() * 4
    words = np.array([0xAAAA], np.uint64)  # a mask of bits may be an array
    odd, _ = vector(lambda d, a: Copy(d, a, words, 2, CopyRepeatParams()), np.zeros_like(x), x)
    chosen = [at for at in range(128) if at % 64 < 16 and at % 2]
    assert odd.nonzero()[0].tolist() == chosen
    assert odd[chosen].tolist() == chosen


def test_progressions_count_on_over_lanes_that_are_left_out():
    out = np.full(128, -1, np.int32)
    assert vector(lambda d: CreateVecIndex(d, 5, 100), out)[0].tolist() == [*range(5, 105)] + [-1] * 28
    masked, _ = vector(lambda d: CreateVecIndex(d, 5, [0b1010], 2, 1, 8), out)
    assert {at: int(masked[at]) for at in (masked != -1).nonzero()[0]} == {1: 6, 3: 8, 65: 70, 67: 72}
    steps, _ = vector(lambda d: ArithProgression(d, 1, 0.5, 70), np.zeros(70, half))
    assert same(steps, (1 + np.arange(70) / 2).astype(half))


@pytest.mark.parametrize("dtype", [half, single])
def test_indices_alone_may_go_to_a_tensor_of_the_sources_type(dtype):
    """Ascend C has one type for both tensors; the indices in it are uint32 all the same."""
    lanes = 256 // dtype.itemsize
    x = normal(0, 3 * lanes, dtype)

    def indices(dst, src):
        WholeReduceMax(dst, src, lanes, 3, 1, 1, 8, ReduceOrder.ORDER_ONLY_INDEX)

    result, _ = vector(indices, np.zeros(32 // dtype.itemsize, dtype), x)
    assert result.view(np.uint32)[:3].tolist() == x.reshape(3, lanes).argmax(axis=1).tolist()


def test_a_fixed_pattern_touches_only_what_it_picks():
    """The other half of the buffer may be on its way out meanwhile."""
    x = np.arange(128, dtype=np.float32)
    _, launched = vector(
        lambda d, a: GatherMask(d, a, 1, False, 0, GatherMaskParams(1, 2, 8, 0)), np.zeros(128, single), x
    )
    (gather,) = launched.programs[0].instructions
    assert gather.name == "GatherMask"

    def kernel():
        tile = LocalTensor(single, TPosition.VECCALC, 0, 256)
        GatherMask(tile, tile[128:], 1, False, 0, GatherMaskParams(1, 2, 8, 0))

    assert found(on_core(kernel)) == []


def test_words_of_a_mask_may_be_numpys():
    """128 lanes take two words of 64 bits; shifted as NumPy does, the second would be lost."""
    x, words = np.ones(128, half), np.array([1, 1 << 63], np.uint64)
    for mask in (words, list(words)):
        result, _ = vector(lambda d, a, mask=mask: Adds(d, a, 1, mask, 1), np.zeros(128, half), x)
        assert result.nonzero()[0].tolist() == [0, 127]


def test_a_count_is_no_fraction():
    """65 / 2 would silently be 32."""
    x = np.ones(128, half)
    with pytest.raises(TypeError, match="'float' object cannot be interpreted as an integer"):
        vector(lambda d, a: Adds(d, a, 1, 65 / 2), np.zeros(128, half), x)


@given(seed=seeds, count=st.integers(1, 2000), dtype=floats)
def test_a_mask_in_counter_mode_counts_elements_over_all_repeats(seed, count, dtype):
    """A sum in two steps, as kernels write it whose lengths are no whole repeats."""
    lanes, x = 256 // dtype.itemsize, np.random.default_rng(seed).integers(-1, 2, 2048).astype(dtype)

    def sums(dst, src, tmp):
        SetMaskCount()
        SetVectorMask(0, count)
        Adds(src, src, 1, MASK_PLACEHOLDER, 1)
        BlockReduceSum(tmp, src, 1, MASK_PLACEHOLDER, 1, 1, 8)
        SetVectorMask(-(-count // (32 // dtype.itemsize)))
        WholeReduceSum(dst, tmp, MASK_PLACEHOLDER, 1, 1, 1, 8)
        SetMaskNorm()
        ResetMask()
        Adds(dst, dst, 0, MASK_PLACEHOLDER, 1)

    result, launched = vector(sums, np.zeros(lanes, dtype), x, np.zeros(2048, dtype))
    each = np.pad(x[:count].astype(int) + 1, (0, 2048 - count)).reshape(-1, lanes * (32 // dtype.itemsize)).sum(axis=1)
    assert result[: len(each)].tolist() == each.tolist()
    assert found(launched) == []


def test_a_mask_may_be_set_apart_from_the_instruction():
    x = np.arange(1, 257).astype(np.float32)

    def spread(dst, src):
        SetVectorMask(0, 0b101)
        Adds(dst, src, 0, MASK_PLACEHOLDER, 2)
        SetVectorMask(3)
        Adds(dst[128:], src[128:], 0, MASK_PLACEHOLDER, 2)

    result, _ = vector(spread, np.zeros(256, single), x)
    assert result.nonzero()[0].tolist() == [0, 2, 64, 66, 128, 129, 130, 192, 193, 194]

    def every_other_block(dst, src):
        SetMaskCount()
        Copy(dst, src, [70], 1, CopyRepeatParams(1, 2, 8, 16))  # bits, which are another mask
        SetVectorMask(0, 70)
        Copy(dst, src, MASK_PLACEHOLDER, 1, CopyRepeatParams(1, 2, 8, 16))

    picked = [first + lane for first in range(0, 144, 16) for lane in range(8)][:70]
    result, _ = vector(every_other_block, np.zeros(128, single), x)
    assert result.tolist() == [*x[picked], *[0] * 58]


@pytest.mark.parametrize(
    ("instruction", "words"),
    [
        (lambda d, a: Adds(d, a, 1, MASK_PLACEHOLDER, 1), r"call SetVectorMask\(0, number\) first"),
        (lambda *_: SetVectorMask(1, 2, 3), r"takes \(high, low\) or \(count\)"),
        (
            lambda d, a: [SetVectorMask(64), Compare(d, a, a, CMPMODE.EQ, MASK_PLACEHOLDER, 1)],
            r"a mask of 64 elements; here it must tell lanes: call SetMaskNorm\(\) first",
        ),
    ],
)
def test_what_a_mask_in_counter_mode_is_not(instruction, words):
    def counting(dst, src):
        SetMaskCount()
        instruction(dst.ReinterpretCast(np.uint8) if "64" in words else dst, src)

    with pytest.raises((KernelError, TypeError), match=words):
        vector(counting, np.zeros(64, single), np.zeros(64, single))


def test_halves_may_be_multiplied_into_a_float():
    x, y = normal(0, 100, half), normal(1, 100, half)
    out = normal(2, 100, single)
    result, _ = vector(lambda d, a, b: MulAddDst(d, a, b, 100), out, x, y)
    exact = x.astype(np.float64) * y.astype(np.float64) + out
    assert same(result, exact.astype(single))
    with pytest.raises(KernelError, match="src1 is float32; it takes float16"):
        vector(lambda d, a, b: MulAddDst(d, a, b, 100), out, x, y.astype(single))
    with pytest.raises(KernelError, match="src0 is float16; it takes float32"):
        vector(lambda d, a, b: Mul(d, a, b, 100), out, x, y)
