"""Vector instructions that compare, choose and sort."""

from itertools import chain

import numpy as np
import pytest
from cores import found
from hypothesis import given
from hypothesis import strategies as st
from instructions import floats, in_ub, issued, normal, on_core, same, seeds, single, vector

from device_model.aicore.core.names import CMPMODE, SELMODE, TPosition
from device_model.aicore.core.tensors import LocalTensor, uint8
from device_model.aicore.vector.masks import MASK_PLACEHOLDER, BinaryRepeatParams, SetVectorMask
from device_model.aicore.vector.select import Compare, Compares, GetCmpMask, Select, SetCmpMask
from device_model.aicore.vector.sort import MrgSort, MrgSort4Info, Sort32
from device_model.kernel.findings import KernelError

ASK = {
    CMPMODE.LT: np.less,
    CMPMODE.GT: np.greater,
    CMPMODE.LE: np.less_equal,
    CMPMODE.GE: np.greater_equal,
    CMPMODE.EQ: np.equal,
    CMPMODE.NE: np.not_equal,
}


@pytest.mark.one_in(3)
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


@given(seed=seeds, dtype=floats, wide=st.booleans())
def test_compare_without_dst_gives_its_bits_to_the_register(seed, dtype, wide):
    lanes = 256 // dtype.itemsize
    x, y = (np.random.default_rng(seed + each).integers(-3, 3, lanes * 2).astype(dtype) for each in range(2))
    mask = lanes if wide else 5
    seen = []

    def compare(dst, bits, a, b):
        Compare(None, a, b, CMPMODE.LT, mask, repeat_params=BinaryRepeatParams(1, 2, 1, 8, 8, 8))
        seen.append(issued())
        GetCmpMask(bits)
        bits_of.append(bits.view.copy())
        Select(dst, None, a, b, SELMODE.VSEL_CMPMASK_SPR, lanes, 1, BinaryRepeatParams())

    bits_of = []
    chosen, launched = vector(compare, np.zeros(lanes, dtype), np.zeros(32, np.uint8), x, y)
    left = x.reshape(-1, 32 // dtype.itemsize)[::2].ravel()[:lanes]  # every other block
    truth = (left < y[:lanes]) & (np.arange(lanes) < mask)
    expected = np.zeros(32, np.uint8)
    expected[: lanes // 8] = np.packbits(truth, bitorder="little")
    assert np.array_equal(bits_of[0], expected)
    assert same(chosen, np.where(truth, x[:lanes], y[:lanes]))
    assert seen == [("Compare", 36, 1 if wide else 17)]
    assert found(launched) == []
    assert [each.name for each in launched.programs[0].instructions[1].waits] == ["Compare"]


def test_bits_that_are_set_serve_a_select_with_the_mask_of_the_core():
    x, y = (np.full(64, each, single) for each in (1, 2))

    def choose(dst, bits, a, b):
        SetCmpMask(bits)
        SetVectorMask(7)
        Select(dst, None, a, b, SELMODE.VSEL_CMPMASK_SPR, MASK_PLACEHOLDER, 1, BinaryRepeatParams())

    chosen, launched = vector(choose, np.zeros(64, single), np.full(16, 0b01010101, np.uint8), x, y)
    assert chosen.tolist() == [1, 2] * 3 + [1] + [0] * 57
    assert found(launched) == []


def test_a_register_that_nothing_was_compared_into_is_found():
    launched = on_core(lambda: GetCmpMask(LocalTensor(uint8, TPosition.VECCALC, 0, 128)))
    (finding,) = launched.findings
    assert "GetCmpMask (V)" in str(finding)
    assert "reads CmpMask[0:16], where nothing was written" in str(finding)


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (lambda t: Compare(None, t, t, CMPMODE.LT, 64, 2), "Compare of 2 repeats without dst; CmpMask has"),
        (lambda t: Compare(None, t, t, CMPMODE.LT, 65), "a mask of 65 lanes"),
        (lambda t: GetCmpMask(t[:2]), "GetCmpMask with .*; it has 16 bytes or more"),
        (lambda t: SetCmpMask(t[2:]), "SetCmpMask with .* begins at a multiple of them"),
        (lambda t: GetCmpMask(t.ReinterpretCast(np.int64)), "GetCmpMask: dst is int64; it takes int8"),
        (lambda t: Select(t, None, t, 1.0, SELMODE.VSEL_TENSOR_SCALAR_MODE, 64), "and no sel_mask; CmpMask has bits"),
    ],
)
def test_what_does_not_fit_the_register_is_refused(instruction, message):
    with pytest.raises(KernelError, match=message):
        on_core(lambda: instruction(in_ub(np.zeros(128, single), 0)))


def test_integers_are_compared_into_ub_only():
    with pytest.raises(KernelError, match="Compare: src0 is int32; it takes float16, float32"):
        on_core(lambda: Compare(None, *[in_ub(np.zeros(64, np.int32), 0)] * 2, CMPMODE.EQ, 64))


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


@pytest.mark.parametrize("mask", [8, [3]], ids=str)
def test_a_mask_leaves_no_lane_of_a_comparison_out(mask):
    """Published kernels give the lanes of a short tail; Atlas A2 and A3 compare all of them."""
    x = normal(5, 128, single)
    result, launched = vector(lambda d, a: Compares(d, a, 0.0, CMPMODE.GT, mask, 2), np.zeros(32, np.uint8), x)
    assert np.unpackbits(result, bitorder="little")[:128].tolist() == (x > 0).tolist()
    assert found(launched) == []


def test_lengths_alone_serve_a_merge():
    x, index = np.array([9, 7, 5, 3, 8, 6, 4, 2], single), np.arange(8, dtype=np.uint32)
    sorted_records = np.stack([x, index.view(single)], axis=1).ravel()
    counts = []

    def merge(dst, src):
        numbers = [0, 0, 0, 0]
        MrgSort(dst, [src, src[8:]], [4, 4, 0, 0], numbers, 0b11, 1, is_exhausted_suspension=True)
        counts.append(numbers)
        with pytest.raises(TypeError, match="MrgSort4Info says what is merged"):
            MrgSort(dst, [src, src[8:]], MrgSort4Info([4, 4, 0, 0], False, 0b11), None, 0b11)

    merged, _ = vector(merge, np.zeros(16, single), sorted_records)
    assert merged[:14:2].tolist() == [9, 8, 7, 6, 5, 4, 3]
    assert counts == [[4, 3, 0, 0]]
