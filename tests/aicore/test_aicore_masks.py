"""Masks: lanes of each repeat, or in counter mode elements over all of them; beside the instruction or in it."""

import numpy as np
import pytest
from cores import found
from hypothesis import given
from hypothesis import strategies as st
from instructions import floats, half, issued, seeds, single, vector

from device_model.aicore.core.names import CMPMODE, SELMODE
from device_model.aicore.vector.elementwise import Adds
from device_model.aicore.vector.fill import Copy, CopyRepeatParams
from device_model.aicore.vector.gather import Gather
from device_model.aicore.vector.masks import (
    MASK_PLACEHOLDER,
    ResetMask,
    SetMaskCount,
    SetMaskNorm,
    SetVectorMask,
)
from device_model.aicore.vector.reduce import ReduceSum
from device_model.aicore.vector.reduce_repeats import BlockReduceSum, WholeReduceSum
from device_model.aicore.vector.select import Compare, Select
from device_model.kernel.findings import KernelError


def test_words_of_a_mask_may_be_numpys():
    """128 lanes take two words of 64 bits; shifted as NumPy does, the second would be lost."""
    x, words = np.ones(128, half), np.array([1, 1 << 63], np.uint64)
    for mask in (words, list(words)):
        result, _ = vector(lambda d, a, mask=mask: Adds(d, a, 1, mask, 1), np.zeros(128, half), x)
        assert result.nonzero()[0].tolist() == [0, 127]


def test_a_count_is_no_fraction():
    """65 / 2 would silently be 32."""
    x = np.ones(128, half)
    with pytest.raises(TypeError, match="a count or a mask must be an int, not 32.5: divide with"):
        vector(lambda d, a: Adds(d, a, 1, 65 / 2), np.zeros(128, half), x)


@given(seed=seeds, count=st.integers(1, 2000), dtype=floats)
def test_a_mask_in_counter_mode_counts_elements_over_all_repeats(seed, count, dtype):
    """A sum in two steps, as kernels write it whose lengths are no whole repeats."""
    lanes = 256 // dtype.itemsize
    # Each element adds 0 or 1: half holds sums up to 2048 exactly.
    x = np.random.default_rng(seed).integers(-1, 1, 2048).astype(dtype)

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
            r"a mask of 64 elements; this instruction takes a mask of lanes: call SetMaskNorm\(\) first",
        ),
        (lambda d, a: Adds(d, a, 1, -5, 1), "a mask of -5 elements; in counter mode it is 0 or more"),
    ],
)
def test_what_a_mask_in_counter_mode_is_not(instruction, words):
    def counting(dst, src):
        SetMaskCount()
        instruction(dst.ReinterpretCast(np.uint8) if "64" in words else dst, src)

    with pytest.raises((KernelError, TypeError), match=words):
        vector(counting, np.zeros(64, single), np.zeros(64, single))


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        ([-1, 1], "64-bit words"),
        ([1 << 64], "64-bit words"),
        ([0, 0], "at least one set"),
        (0, "1 to 128 lanes"),
        (129, "1 to 128 lanes"),
    ],
)
def test_a_mask_has_bits_for_the_lanes_of_its_type(mask, words):
    with pytest.raises(KernelError, match=words):
        vector(lambda d, a: Adds(d, a, 1, mask, 1), np.zeros(256, half), np.zeros(256, half))


def test_a_mask_set_apart_may_count_more_than_64_lanes_and_be_reset():
    def first_lanes(dst, src):
        SetVectorMask(100)
        Adds(dst, src, 1, MASK_PLACEHOLDER, 1)
        ResetMask()
        Adds(dst[128:], src, 1, MASK_PLACEHOLDER, 1)

    result, _ = vector(first_lanes, np.zeros(256, half), np.zeros(256, half))
    assert result.nonzero()[0].tolist() == [*range(100), *range(128, 256)]


@pytest.mark.parametrize("count", [1, 64, 100, 128, 64 * 256])
def test_in_counter_mode_the_number_is_that_of_all_elements(count):
    """In the instruction or set apart; it makes as many repeats as it takes, and costs them."""
    x, costs = np.arange(64 * 256, dtype=np.float32), []

    def as_count(dst, src):
        Adds(dst, src, 1, count)
        costs.append(issued())

    def as_mask(dst, src):
        SetMaskCount()
        Adds(dst, src, 1, count, 1)
        costs.append(issued())

    def set_apart(dst, src):
        SetMaskCount()
        SetVectorMask(0, count)
        Adds(dst, src, 1, MASK_PLACEHOLDER, 1)
        costs.append(issued())

    for instruction in (as_count, as_mask, set_apart):
        result, _ = vector(instruction, np.zeros_like(x), x, step=81_920)
        assert result.tolist() == [*(x[:count] + 1), *[0] * (len(x) - count)]
    assert costs == [costs[0]] * 3


def test_every_form_with_a_mask_takes_the_number_of_elements():
    x = np.arange(256, dtype=np.float32)

    def reduce(dst, src, tmp):
        SetMaskCount()
        ReduceSum(dst, src, tmp, 200, 1, 8)
        WholeReduceSum(dst[8:], src, 200, 1, 1, 1, 8)

    sums, _ = vector(reduce, np.zeros(64, single), x, np.zeros(256, single))
    assert sums[0] == x[:200].sum()
    assert sums[8:13].tolist() == [x[:64].sum(), x[64:128].sum(), x[128:192].sum(), x[192:200].sum(), 0]

    def gather(dst, src, offsets):
        SetMaskCount()
        Gather(dst, src, offsets, 0, 100, 1)

    offsets = (255 - np.arange(256, dtype=np.uint32)) * 4
    gathered, _ = vector(gather, np.zeros(256, single), x, offsets)
    assert gathered.tolist() == [*x[:155:-1], *[0] * 156]

    def select(dst, src, bits):
        SetMaskCount()
        Select(dst, bits, src, -1, SELMODE.VSEL_TENSOR_SCALAR_MODE, 100, 1)

    selected, _ = vector(select, np.zeros(256, single), x, np.full(32, 0b10, np.uint8))
    assert selected.tolist() == [x[at] if at % 8 == 1 else -1 for at in range(100)] + [0] * 156


def test_in_counter_mode_a_count_is_a_count_and_bits_are_lanes():
    def counting(dst, src):
        SetMaskCount()
        Adds(dst, src, 1, 3)
        Adds(dst[64:], src, 1, np.int64(5))
        Adds(dst[128:], src, 1, [0b11], 2)
        SetMaskNorm()
        Adds(dst[256:], src, 1, 2, 2)

    result, _ = vector(counting, np.zeros(384, single), np.zeros(384, single))
    assert result.nonzero()[0].tolist() == [0, 1, 2, *range(64, 69), 128, 129, 192, 193, 256, 257, 320, 321]
