"""Arithmetic of f32 and f64, compared with fractions bit for bit."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import values_oracle as oracle

from device_model.ptx.values import comparisons, floats
from tests.campaigns import many

ROUNDINGS = ["rn", "rz", "rm", "rp"]
KINDS = ["f32", "f64"]
BINARY = ["add", "sub", "mul", "div"]


def operands(kind, arity, count, seed):
    """All pairs or triples of special values, or some of them, and random bits."""
    lanes = list(itertools.product(oracle.special(kind), repeat=arity))
    if len(lanes) > count:
        lanes = [lanes[place] for place in np.random.default_rng(seed).permutation(len(lanes))[:count]]
    columns = [oracle.random_bits(kind, count, seed + place) for place in range(arity)]
    return [list(column) + more for column, more in zip(zip(*lanes, strict=True), columns, strict=True)]


def check(function, reference, kind, rounding, columns):
    result = function(*(oracle.array(column, kind) for column in columns), rounding=rounding)
    oracle.same(result, [reference(*lane, kind, rounding) for lane in zip(*columns, strict=True)], kind)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("kind", KINDS)
def test_two_operands(kind, name, rounding):
    check(getattr(floats, name), getattr(oracle, name), kind, rounding, operands(kind, 2, 400, 1))


@pytest.mark.slow
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("kind", KINDS)
def test_two_operands_many(kind, name, rounding):
    check(getattr(floats, name), getattr(oracle, name), kind, rounding, operands(kind, 2, many(30_000), 2))


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_fma(kind, rounding):
    check(floats.fma, oracle.fma, kind, rounding, operands(kind, 3, 700, 3))


@pytest.mark.slow
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_fma_many(kind, rounding):
    check(floats.fma, oracle.fma, kind, rounding, operands(kind, 3, many(25_000), 4))


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_fma_with_cancellation_and_ties(kind, rounding):
    a, b = (oracle.random_bits(kind, 250, seed) for seed in (5, 6))
    product = [oracle.mul(x, y, kind) for x, y in zip(a, b, strict=True)]
    sign = 1 << sum(oracle.LAYOUTS[kind])
    check(floats.fma, oracle.fma, kind, rounding, [a, b, [bits ^ sign for bits in product]])
    # A product of two sparse numbers is often a tie; the least number tips it.
    for tip in (1, 1 | sign, 0):
        check(floats.fma, oracle.fma, kind, rounding, [a, b, [tip] * len(a)])


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_fma_of_subnormals(kind, rounding):
    exponent_bits, fraction_bits = oracle.LAYOUTS[kind]
    random = np.random.default_rng(7)
    half = (1 << exponent_bits - 2) - fraction_bits // 2
    small = [(half + int(e) << fraction_bits) | int(f) for e, f in zip(
        random.integers(-3, 20, 300), random.integers(0, 1 << fraction_bits, 300), strict=True)]  # fmt: skip
    tiny = [int(bits) for bits in random.integers(0, 1 << fraction_bits, 150)]
    tiny += [bits | 1 << exponent_bits + fraction_bits for bits in tiny]
    check(floats.fma, oracle.fma, kind, rounding, [small, small[::-1], tiny])


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_fma_next_to_ties_of_subnormals(rounding):
    # Half of the least subnormal and a little more or less, which a double does not show beside larger ones.
    half = 127 - 75 << 23
    a, b = [half + 8] * 80, [half - 8, half - 16] * 40  # 1 + 2**-20 and 1 - 2**-21 or 1 - 2**-20, times 2**-75
    c = [(1 << 22) + 5 * n for n in range(40)] + [1 << 31 | (1 << 22) + 5 * n for n in range(40)]
    check(floats.fma, oracle.fma, "f32", rounding, [a, b, c])


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_sqrt_and_rcp(kind, rounding):
    column = oracle.special(kind) + oracle.random_bits(kind, 400, 8)
    squares = [oracle.mul(bits, bits, kind) for bits in column]
    check(floats.sqrt, oracle.sqrt, kind, rounding, [column + squares])
    one = oracle.encoded(Fraction(1), kind)
    check(floats.rcp, lambda a, k, r: oracle.div(one, a, k, r), kind, rounding, [column])


@pytest.mark.parametrize("name", [*BINARY, "fma"])
def test_options(name):
    columns = operands("f32", 3 if name == "fma" else 2, 200, 9)
    arrays = [oracle.array(column, "f32") for column in columns]
    reference, function = getattr(oracle, name), getattr(floats, name)
    flushed = [oracle.flushing(reference, *lane, kind="f32") for lane in zip(*columns, strict=True)]
    oracle.same(function(*arrays, ftz=True), flushed, "f32")
    if name != "div":
        oracle.same(function(*arrays, ftz=True, sat=True), [oracle.saturate(b, "f32") for b in flushed], "f32")


def test_ftz_flushes_what_is_subnormal_when_it_is_rounded_with_any_exponent():
    """Measured on an H200: 1 - 2**-24 of the least normal number goes, and 1 - 2**-46 of it stays."""
    half = [0x3F7FFFFF, 0xBF7FFFFF, 0x3F7FFFFF]
    a, b = np.uint32(half).view(np.float32), np.uint32([0x00800000, 0x00800000, 0x00800001]).view(np.float32)
    assert floats.mul(a, b).view(np.uint32).tolist() == [0x00800000, 0x80800000, 0x00800000]
    assert floats.mul(a, b, ftz=True).view(np.uint32).tolist() == [0, 0x80000000, 0x00800000]


@pytest.mark.parametrize("rounding", ["rn", "rz", "rm", "rp"])
def test_ftz_at_the_least_normal_number(rounding):
    random = np.random.default_rng(10)
    columns = [[0x3F800000 - int(x) for x in random.integers(1, 6, 200)], [0x00800000 + n % 5 for n in range(200)],
               [[0, 0x80000000, 0x00800000, 0x80800000][n % 4] for n in range(200)]]  # fmt: skip
    for name, count in (("mul", 2), ("fma", 3), ("add", 2), ("div", 2)):
        reference, lanes = getattr(oracle, name), list(zip(*columns[:count], strict=True))
        for sign in (0, 1 << 31):
            lanes = [(lane[0] ^ sign, *lane[1:]) for lane in lanes]
            expected = [oracle.flushing(reference, *lane, kind="f32", rounding=rounding) for lane in lanes]
            arrays = [oracle.array(column, "f32") for column in zip(*lanes, strict=True)]
            oracle.same(getattr(floats, name)(*arrays, rounding=rounding, ftz=True), expected, "f32")


def test_broadcasting_and_lanes_without_dimension():
    a = np.float32(3) * np.ones((2, 4), np.float32)
    one = np.array(0x3F800001, np.uint32).view(np.float32)
    for rounding in ROUNDINGS:
        assert floats.fma(a, one, one, rounding=rounding).shape == (2, 4)
        assert floats.fma(one, one, a, rounding=rounding).shape == (2, 4)
        assert floats.fma(one, one, one, rounding=rounding).shape == ()
        wide = np.float64(1e300) * np.ones((2, 1))
        tiny = np.array(5e-324)
        assert floats.fma(wide, wide[:1].T, tiny, rounding=rounding).shape == (2, 1)
        assert floats.add(wide, tiny, rounding=rounding).shape == (2, 1)
        assert floats.mul(tiny, tiny, rounding=rounding).shape == ()
        assert floats.div(tiny, tiny, rounding=rounding) == 1


def test_div_approx_far_out():
    b = np.array([2.0**127, -(2.0**127), 2.0**126, np.inf], np.float32)
    np.testing.assert_array_equal(floats.div_approx(np.full(4, 2.0**127, np.float32), b), np.float32([0, -0.0, 2, 0]))
    assert np.isnan(floats.div_approx(np.full(4, np.inf, np.float32), b)[:2]).all()


def test_canonical():
    bits = np.array([0x7F800001, 0xFFC00000, 0x3F800000], np.uint32)
    assert floats.canonical(bits.view(np.float32)).view(np.uint32).tolist() == [0x7FFFFFFF, 0x7FFFFFFF, 0x3F800000]
    a = np.array([0x7FF0000000000001, 0x3FF0000000000000, 0x7FF0000000000000], np.uint64).view(np.float64)
    b = np.array([0xFFF8000000000002, 0xFFF8000000000002, 0xFFF0000000000000], np.uint64).view(np.float64)
    found = floats.canonical(floats.add(a, b), a, b).view(np.uint64).tolist()
    assert found == [0x7FF8000000000001, 0xFFF8000000000002, 0xFFF8000000000000]


def test_sign_bits():
    for kind in KINDS:
        bits = oracle.special(kind)
        a, sign = oracle.array(bits, kind), 1 << sum(oracle.LAYOUTS[kind])
        dtype = oracle.UNSIGNED[kind]
        assert floats.neg(a).view(dtype).tolist() == [x ^ sign for x in bits]
        assert floats.abs_(a).view(dtype).tolist() == [x & ~sign for x in bits]
        moved = floats.copysign(a[::-1], a).view(dtype).tolist()
        assert moved == [(y & sign) | (x & ~sign) for x, y in zip(bits, bits[::-1], strict=True)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{}, {"nan": True}, {"xorsign": True}, {"nan": True, "xorsign": True}])
def test_extremes(kind, options):
    columns = operands(kind, 2, 200, 10)
    a, b = (oracle.array(column, kind) for column in columns)
    for is_max, function in ((False, comparisons.minimum), (True, comparisons.maximum)):
        expected = [oracle.extreme(x, y, kind, is_max, **options) for x, y in zip(*columns, strict=True)]
        oracle.same(function(a, b, **options), expected, kind)


def test_extreme_of_three():
    columns = operands("f32", 3, 300, 11)
    a, b, c = (oracle.array(column, "f32") for column in columns)
    for nan in (False, True):
        expected = [oracle.extreme(oracle.extreme(x, y, "f32", True, nan=nan), z, "f32", True, nan=nan)
                    for x, y, z in zip(*columns, strict=True)]  # fmt: skip
        oracle.same(comparisons.maximum(a, b, c, nan=nan), expected, "f32")
    magnitudes = [[bits & 0x7FFFFFFF for bits in column] for column in columns]
    expected = [oracle.extreme(oracle.extreme(x, y, "f32", False), z, "f32", False)
                for x, y, z in zip(*magnitudes, strict=True)]  # fmt: skip
    oracle.same(comparisons.minimum(a, b, c, absolute=True), expected, "f32")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ftz", [False, True])
def test_compare(kind, ftz):
    if ftz and kind == "f64":
        return
    columns = operands(kind, 2, 200, 12)
    a, b = (oracle.array(column, kind) for column in columns)
    far = {"inf": float("inf"), "-inf": -float("inf")}
    pairs = []
    for lane in zip(*columns, strict=True):
        values = [oracle.decoded(oracle.flush(x, kind) if ftz else x, kind)[1] for x in lane]
        pairs.append(None if "nan" in values else [far.get(v, v) if isinstance(v, str) else v for v in values])
    signs = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
    for name, sign in signs.items():
        ordered = [eval(f"x {sign} y", {"x": p[0], "y": p[1]}) if p else None for p in pairs]
        assert comparisons.compare(a, b, name, ftz=ftz).tolist() == [bool(x) for x in ordered]
        assert comparisons.compare(a, b, name + "u", ftz=ftz).tolist() == [x is None or x for x in ordered]
    assert comparisons.compare(a, b, "num").tolist() == [p is not None for p in pairs]
    assert comparisons.compare(a, b, "nan").tolist() == [p is None for p in pairs]


def test_compare_integers_and_set():
    a, b = np.array([-1, 2, 2], np.int32), np.array([1, 2, 1], np.int32)
    assert comparisons.compare(a, b, "lt").tolist() == [True, False, False]
    assert comparisons.compare(a.view(np.uint32), b.view(np.uint32), "hi").tolist() == [True, False, True]
    found = comparisons.compare(a, b, "ge")
    assert comparisons.as_value(found, np.uint32).tolist() == [0, 0xFFFFFFFF, 0xFFFFFFFF]
    assert comparisons.as_value(found, np.int32).tolist() == [0, -1, -1]
    assert comparisons.as_value(found, np.float32).tolist() == [0, 1, 1]
    assert comparisons.combine(found, np.array([True, False, True]), "xor").tolist() == [True, True, False]


@pytest.mark.parametrize("kind", KINDS)
def test_testp(kind):
    bits = oracle.special(kind) + oracle.random_bits(kind, 50, 13)
    values = [oracle.decoded(x, kind)[1] for x in bits]
    is_number = [not isinstance(x, str) for x in values]
    is_normal = [n and oracle.flush(x, kind) == x for n, x in zip(is_number, bits, strict=True)]  # 0 too
    expected = {
        "finite": is_number,
        "infinite": [x in ("inf", "-inf") for x in values],
        "number": [x != "nan" for x in values],
        "notanumber": [x == "nan" for x in values],
        "normal": is_normal,
        "subnormal": [oracle.flush(x, kind) != x for x in bits],
    }
    for name, truth in expected.items():
        assert comparisons.test(oracle.array(bits, kind), name).tolist() == truth
    with pytest.raises(ValueError, match="testp"):
        comparisons.test(oracle.array(bits, kind), "odd")
