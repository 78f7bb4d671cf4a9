"""The tensor core: one mma gives the bits that an H200 gave, and those of the rule in exact fractions."""

import ctypes
import json
import math
import platform
import sys
from fractions import Fraction
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_model.sm.fragments import mma_m16n8k16
from device_model.sm.tensor_core import mma

DATA = Path(__file__).with_name("data")
TYPES = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
LOWEST = {"f16": -14, "bf16": -126, "f32": -126}  # exponents of normal numbers
NAN = 0x7FFFFFFF


def measured(name, type_):
    """The products of a file as registers: a, b, c and the result, each of shape (products, 32, words)."""
    rows = [row for row in json.loads((DATA / name).read_text())["rows"] if row["type"] == type_]
    assert rows
    return [np.array([row[key] for row in rows], np.uint32).reshape(len(rows), 32, -1) for key in "abcd"]


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("name", ["mma.json", "mma_special.json"])
def test_a_product_has_the_bits_that_the_card_gave(name, type_):
    a, b, c, d = measured(name, type_)
    result = mma_m16n8k16(a.view(TYPES[type_]), b.view(TYPES[type_]), c.view(np.float32))
    assert np.array_equal(result.view(np.uint32), d)


def exponent(value, lowest):
    """The exponent of a number as it is stored: a subnormal has the lowest one."""
    return max(math.frexp(value)[1] - 1, lowest)


def truncated(value, exponent):
    """*value* without the bits below 2**exponent."""
    return math.trunc(value / Fraction(2) ** exponent) * Fraction(2) ** exponent


def by_the_rule(a, b, c, lowest):
    """The bits of one element of a result, in exact arithmetic, one product at a time."""
    values = [x * y for x, y in zip(a, b, strict=True)] + [c]  # floats of 64 bits hold these products exactly
    if not all(map(math.isfinite, values)):
        total = sum(value for value in values if not math.isfinite(value))
        return NAN if math.isnan(total) else 0x7F800000 if total > 0 else 0xFF800000
    exponents = [exponent(x, lowest) + exponent(y, lowest) for x, y in zip(a, b, strict=True)]
    exponents.append(exponent(c, LOWEST["f32"]))
    largest = max((of for of, value in zip(exponents, values, strict=True) if value), default=0)
    total = sum(truncated(Fraction(value), largest - 25) for value in values)
    total = truncated(total, exponent(float(total), LOWEST["f32"]) - 23)
    if abs(total) >= 2**128:
        return 0x7F800000 if total > 0 else 0xFF800000
    return int(np.float32(float(total)).view(np.uint32))


def words(bits):
    """Words of *bits* bits: any, and often those of zeros, of subnormal and large numbers, infinities and NaN."""
    fraction = {16: 10, 32: 23}[bits]
    edges = [0, 1, (1 << fraction) - 1, 1 << fraction, (1 << bits - 1) - (1 << fraction) - 1,
             (1 << bits - 1) - (1 << fraction)]  # fmt: skip
    return st.one_of(st.integers(0, (1 << bits) - 1), st.sampled_from(edges + [edge | 1 << bits - 1 for edge in edges]))


@pytest.mark.parametrize("examples", [40, pytest.param(1_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("type_", TYPES)
def test_one_element_follows_the_rule_in_fractions(type_, examples):
    dtype = TYPES[type_]

    @settings(max_examples=examples)
    @given(st.lists(words(16), min_size=16, max_size=16), st.lists(words(16), min_size=16, max_size=16), words(32))
    def follows(left, right, added):
        a, b = (np.array(side, np.uint16).view(dtype) for side in (left, right))
        c = np.array([[added]], np.uint32).view(np.float32)
        with np.errstate(invalid="ignore"):  # signalling NaN
            exact = by_the_rule(a.astype(float).tolist(), b.astype(float).tolist(), float(c[0, 0]), LOWEST[type_])
        assert int(mma(a[None, :], b[:, None], c).view(np.uint32)[0, 0]) == exact

    follows()


def test_a_term_far_below_the_largest_is_lost():
    """The sum keeps 25 bits below the largest exponent, wherever the large term is."""
    a, b = np.zeros((1, 16), np.float16), np.ones((16, 1), np.float16)
    c = np.array([[2.0**10]], np.float32)
    kept, lost = 2.0**-14, 2.0**-16
    a[0, :6] = kept, kept, lost, lost, lost, lost
    assert mma(a, b, c)[0, 0] == 2**10 + 2.0**-13
    assert mma(a, b, c / 2)[0, 0] == 2**9 + 2.0**-13 + 2.0**-14


def test_a_zero_is_positive():
    """Also the sum of nothing but negative zeros, and a negative sum that is too small for float32."""
    a, b = np.full((1, 16), -0.0, np.float16), np.ones((16, 1), np.float16)
    assert mma(a, b, np.array([[-0.0]], np.float32)).view(np.uint32)[0, 0] == 0
    a, b = (x.astype(ml_dtypes.bfloat16) for x in (a - np.float16(2.0**-24), b))
    b[:] = ml_dtypes.bfloat16(2.0**-133)
    assert mma(a, b, np.zeros((1, 1), np.float32)).view(np.uint32)[0, 0] == 0


def test_a_sum_beyond_the_range_is_infinite_and_one_within_it_is_not():
    a, b = np.zeros((1, 16), ml_dtypes.bfloat16), np.ones((16, 1), ml_dtypes.bfloat16)
    a[0, :2] = 2.0**127, 1.5 * 2.0**126
    none = np.zeros((1, 1), np.float32)
    assert mma(a, b, none)[0, 0] == np.float32(1.75 * 2.0**127)
    a[0, 1] = 1.5 * 2.0**127
    assert mma(a, b, none)[0, 0] == np.inf
    assert mma(-a, b, none)[0, 0] == -np.inf
    a[0, 2] = -(2.0**127)  # the sum counts, not what comes before
    assert mma(a, b, none)[0, 0] == np.float32(1.5 * 2.0**127)


@pytest.mark.skipif(sys.platform != "linux" or platform.machine() != "x86_64", reason="sets the mode of an x86-64")
def test_the_rounding_mode_of_the_processor_has_no_part_in_it():
    a, b, c, d = measured("mma.json", "bf16")
    up, nearest = 0x800, 0
    libm = ctypes.CDLL("libm.so.6")
    assert libm.fesetround(up) == 0
    try:
        result = mma_m16n8k16(a.view(TYPES["bf16"]), b.view(TYPES["bf16"]), c.view(np.float32))
    finally:
        libm.fesetround(nearest)
    assert np.array_equal(result.view(np.uint32), d)


def test_other_types_and_shapes_are_refused():
    half, single = np.zeros((16, 16), np.float16), np.zeros((16, 8), np.float32)
    with pytest.raises(TypeError, match="these are float16, bfloat16 and float32"):
        mma(half, half[:, :8].astype(ml_dtypes.bfloat16), single)
    with pytest.raises(TypeError, match="these are float16, float16 and float16"):
        mma(half, half[:, :8], half[:, :8])
    with pytest.raises(ValueError, match=r"these shapes are \(16, 16\), \(8, 16\) and \(16, 8\)"):
        mma(half, half[:8], single)
