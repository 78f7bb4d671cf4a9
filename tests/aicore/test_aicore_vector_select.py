"""Vector instructions that compare, choose and sort."""

from itertools import chain

import numpy as np
import pytest
from cores import found
from hypothesis import given
from hypothesis import strategies as st
from instructions import floats, normal, same, seeds, single, vector

from device_model.aicore.core.names import CMPMODE, SELMODE
from device_model.aicore.vector.masks import BinaryRepeatParams
from device_model.aicore.vector.select import Compare, Compares, Select
from device_model.aicore.vector.sort import MrgSort, MrgSort4Info, Sort32

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
