"""Conversions, compared with fractions."""

import math
from fractions import Fraction

import numpy as np
import pytest
import values_oracle as oracle

from device_model.ptx.values import conversions

INTEGERS = [np.dtype(f"{family}{size}") for family in "iu" for size in (1, 2, 4, 8)]
FLOATS = ["f16", "bf16", "f32", "f64"]
ROUNDINGS = ["rn", "rz", "rm", "rp"]
TO_INTEGER = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}


def integers(dtype, count, seed):
    width = 8 * dtype.itemsize
    random = [int(x) >> 64 - width for x in np.random.default_rng(seed).integers(0, 1 << 64, count, np.uint64)]
    found = [0, 1, 2, 3, 100, (1 << width) - 1, (1 << width) - 2] + random + [x >> x % width for x in random]
    for n in range(width):
        found += [1 << n, (1 << n) - 1, (1 << n) + 1, (3 << n) + 1 & (1 << width) - 1, (5 << n) - 1 & (1 << width) - 1]
    for fraction in (7, 10, 23, 52):  # ties, and what is next to them
        for n in range(max(width - fraction - 2, 0)):
            found += [((1 << fraction + 1) + k << n) + d for k in (1, 3) for d in (-1, 0, 1)]
    return np.array([x & (1 << width) - 1 for x in found], dtype.str.replace("i", "u")).view(dtype)


def floats(kind, count, seed):
    found = oracle.special(kind) + oracle.random_bits(kind, count, seed)
    one = Fraction(1)
    for n in (0, 1, 7, 8, 15, 16, 31, 32, 63, 64):
        for sign in (1, -1):
            for nearby in (-one, -one / 2, Fraction(0), one / 2, one):
                found.append(oracle.encoded(sign * (Fraction(2) ** n + nearby), kind))
                found.append(oracle.encoded(sign * (Fraction(2) ** n + nearby), kind, "rz") - 1)
    return [x & (1 << sum(oracle.LAYOUTS[kind]) + 1) - 1 for x in found]


@pytest.mark.parametrize("source", INTEGERS, ids=str)
def test_integers_to_integers(source):
    a = integers(source, 100, 1)
    for to in INTEGERS:
        bounds, width = np.iinfo(to), 8 * to.itemsize
        found = conversions.integer_to_integer(a, to)
        assert found.dtype == to
        assert [(x - y) % (1 << width) for x, y in zip(found.tolist(), a.tolist(), strict=True)] == [0] * len(a)
        found = conversions.integer_to_integer(a, to, sat=True)
        assert found.tolist() == [min(max(x, bounds.min), bounds.max) for x in a.tolist()]


@pytest.mark.parametrize("source", INTEGERS, ids=str)
@pytest.mark.parametrize("to", FLOATS)
def test_integers_to_floats(source, to):
    a = integers(source, 20, 2)
    a = np.concatenate([a[:40], a[40::5]])
    for rounding in ROUNDINGS:
        expected = [oracle.encoded(Fraction(x), to, rounding) for x in a.tolist()]
        oracle.same(conversions.integer_to_float(a, to, rounding=rounding), expected, to)
        oracle.same(conversions.integer_to_float(a[-1], to, rounding=rounding), expected[-1], to)
    expected = [oracle.saturate(oracle.encoded(Fraction(x), to), to) for x in a.tolist()]
    oracle.same(conversions.integer_to_float(a, to, sat=True), expected, to)


@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("to", INTEGERS, ids=str)
def test_floats_to_integers(source, to):
    found = floats(source, 40, 3)
    a, bounds = oracle.array(found, source), np.iinfo(to)
    for rounding, function in TO_INTEGER.items():
        expected = []
        for bits in found:
            _, x = oracle.decoded(bits, source)
            if x == "nan":
                highest = bounds.min if to.kind == "i" else 1 << 8 * to.itemsize - 1
                expected.append(highest if source == "f64" or to.itemsize == 8 else 0)
            elif isinstance(x, str):
                expected.append(bounds.max if x == "inf" else bounds.min)
            else:
                expected.append(min(max(function(x), bounds.min), bounds.max))
        result = conversions.float_to_integer(a, source, to, rounding=rounding)
        assert result.dtype == to
        assert result.tolist() == expected
        assert conversions.float_to_integer(a[-1], source, to, rounding=rounding) == expected[-1]


def test_ftz_of_an_operand():
    tiny = np.array([1, 0x80000001], np.uint32).view(np.float32)
    assert conversions.float_to_integer(tiny, "f32", "i4", rounding="rpi").tolist() == [1, 0]
    assert conversions.float_to_integer(tiny, "f32", "i4", rounding="rmi").tolist() == [0, -1]
    assert conversions.float_to_integer(tiny, "f32", "i4", rounding="rpi", ftz=True).tolist() == [0, 0]
    assert conversions.float_to_integer(tiny, "f32", "i4", rounding="rmi", ftz=True).tolist() == [0, 0]
    assert conversions.float_to_float(tiny, "f32", "f64", ftz=True).view(np.uint64).tolist() == [0, 1 << 63]
    small = np.array([2.0**-140, -(2.0**-140), 2.0**-126])
    found = conversions.float_to_float(small, "f64", "f32", ftz=True).view(np.uint32).tolist()
    assert found == [0, 0x80000000, 0x00800000]


def between(kind, wide):
    """Numbers of a wide type at, and next to, the halves between two numbers of a narrow one."""
    found = []
    for bits in oracle.special(kind)[:19] + oracle.random_bits(kind, 40, 4):
        _, x = oracle.decoded(bits, kind)
        sign, y = oracle.decoded(bits ^ 1, kind)
        if not isinstance(x, str) and not isinstance(y, str):
            tie = oracle.encoded((x + y) / 2, wide, sign=sign)
            found += [tie, tie + 1, max(tie - 1, 0)]
    return found


@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("to", FLOATS)
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_floats_to_floats(source, to, rounding):
    found = floats(source, 60, 5)
    if oracle.LAYOUTS[to][1] + 1 < oracle.LAYOUTS[source][1]:
        found += between(to, source)

    def reference(bits):
        sign, x = oracle.decoded(bits, source)
        if x == "nan" and (source, to) == ("f64", "f16"):
            return sign << 15 | 0x7E00 | bits >> 42 & 0x3FF
        return oracle.encoded(x, to, rounding, sign)

    a, expected = oracle.array(found, source), [reference(bits) for bits in found]
    oracle.same(conversions.float_to_float(a, source, to, rounding=rounding), expected, to)
    result = conversions.float_to_float(a, source, to, rounding=rounding, sat=True)
    oracle.same(result, [oracle.saturate(bits, to) for bits in expected], to)
    result = conversions.float_to_float(a, source, to, rounding=rounding, relu=True)
    oracle.same(result, [oracle.relu(bits, to) for bits in expected], to)
    if to in ("f16", "bf16"):
        result = conversions.float_to_float(a, source, to, rounding=rounding, satfinite=True)
        oracle.same(result, [finite(bits, to) for bits in expected], to)


def test_a_nan_that_comes_from_or_goes_to_64_bits_keeps_its_sign_and_the_top_of_its_fraction():
    def converted(bits, source, to, **options):
        found = conversions.float_to_float(oracle.array([bits], source), source, to, **options)
        return hex(found.view(f"u{found.dtype.itemsize}")[0])

    assert converted(0xFFA12345, "f32", "f64") == "0xfffc2468a0000000"
    assert converted(0x7D01, "f16", "f64") == "0x7ffc040000000000"
    assert converted(0xFFF4000020000001, "f64", "f32") == "0xffe00001"
    assert converted(0xFFF0040000000000, "f64", "f16") == "0xfe01"
    assert converted(0xFFF4000020000001, "f64", "f32", sat=True) == "0x0"
    assert converted(0xFFA12345, "f32", "f64", ftz=True) == "0x7fffffffe0000000"


def test_f16_rounded_down_or_up_with_ftz_sees_subnormal_operands():
    tiny = np.array([0x00000001, 0x80000001], np.uint32).view(np.float32)
    found = {rounding: conversions.float_to_float(tiny, "f32", "f16", rounding=rounding, ftz=True).view("u2").tolist()
             for rounding in ROUNDINGS}  # fmt: skip
    assert found == {"rn": [0, 0x8000], "rz": [0, 0x8000], "rm": [0, 0x8001], "rp": [1, 0x8000]}


def finite(bits, kind):
    _, x = oracle.decoded(bits, kind)
    return bits - 1 if x in ("inf", "-inf") else bits


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("rounding", TO_INTEGER)
def test_floats_to_integral_floats(kind, rounding):
    found = floats(kind, 100, 6)

    def reference(bits):
        sign, x = oracle.decoded(bits, kind)
        return oracle.encoded(x if isinstance(x, str) else Fraction(TO_INTEGER[rounding](x)), kind, sign=sign)

    result = conversions.float_to_float(oracle.array(found, kind), kind, kind, rounding=rounding)
    oracle.same(result, [reference(bits) for bits in found], kind)


@pytest.mark.parametrize("to", ["f16", "bf16"])
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_pairs(to, rounding):
    found = floats("f32", 200, 7) + between(to, "f32")
    a, b = oracle.array(found, "f32"), oracle.array(found[::-1], "f32")

    def reference(bits):
        sign, x = oracle.decoded(bits, "f32")
        return oracle.encoded(x, to, rounding, sign)

    half = [reference(bits) for bits in found]
    expected = [high << 16 | low for high, low in zip(half, half[::-1], strict=True)]
    assert conversions.pair(a, b, to + "x2", rounding=rounding).tolist() == expected
    assert conversions.pair(a[3], b[3], to + "x2", rounding=rounding) == expected[3]
    half = [oracle.relu(finite(bits, to), to) for bits in half]
    expected = [high << 16 | low for high, low in zip(half, half[::-1], strict=True)]
    assert conversions.pair(a, b, to + "x2", rounding=rounding, relu=True, satfinite=True).tolist() == expected


@pytest.mark.parametrize("rounding", ["rna", "rn", "rz"])
def test_tf32(rounding):
    found = floats("f32", 500, 8) + between("tf32", "f32")

    def reference(bits):
        sign, x = oracle.decoded(bits, "f32")
        return 0x7FFFFFFF if x == "nan" else oracle.encoded(x, "tf32", rounding, sign) << 13

    expected = [reference(bits) for bits in found]
    a = oracle.array(found, "f32")
    assert conversions.to_tf32(a, rounding=rounding).tolist() == expected
    positive = [0 if bits >> 31 else bits for bits in expected]
    assert conversions.to_tf32(a, rounding=rounding, relu=True).tolist() == positive
    limited = [bits - 0x2000 if bits << 1 & 0xFFFFFFFF == 0xFF000000 else bits for bits in expected]
    assert conversions.to_tf32(a, rounding=rounding, satfinite=True).tolist() == limited
