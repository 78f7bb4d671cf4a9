"""Arithmetic of f16 and bf16, one by one and in pairs, compared with fractions."""

import itertools

import numpy as np
import pytest
import values_oracle as oracle

from device_model.ptx.values import halves, rounding

KINDS = ["f16", "bf16"]
FLOATS = {"f16": np.float16, "bf16": np.uint16}


def operands(kind, arity, count, seed):
    special = list(itertools.product(oracle.special(kind), repeat=arity))
    special = [special[place] for place in np.random.default_rng(seed).permutation(len(special))[:count]]
    columns = [oracle.random_bits(kind, count, seed + place) for place in range(arity)]
    return [list(column) + more for column, more in zip(zip(*special, strict=True), columns, strict=True)]


def check(function, reference, kind, columns, **options):
    """The function one by one, and in pairs."""
    expected = [reference(*lane) for lane in zip(*columns, strict=True)]
    oracle.same(function(*(oracle.array(column, kind) for column in columns), kind, **options), expected, kind)
    words = [np.array(column, np.uint16).view(np.uint32) for column in columns]
    found = function(*words, kind + "x2", **options)
    assert found.dtype == np.uint32
    oracle.same(found.view(np.uint16), expected, kind)
    last = function(*(word[-1] for word in words), kind + "x2", **options)  # without dimension
    assert last.shape == ()
    assert last == found[-1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "fma"])
def test_arithmetic(kind, name):
    function, reference = getattr(halves, name), getattr(oracle, name)
    columns = operands(kind, 3 if name == "fma" else 2, 400, 1)
    check(function, lambda *lane: reference(*lane, kind), kind, columns)
    columns = [column[::6] for column in columns]
    check(function, lambda *lane: oracle.saturate(reference(*lane, kind), kind), kind, columns, sat=True)
    check(function, lambda *lane: oracle.relu(reference(*lane, kind), kind), kind, columns, relu=True)

    if kind == "f16":  # bf16 has no .ftz
        check(function, lambda *lane: oracle.flushing(reference, *lane, kind=kind), kind, columns, ftz=True)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "fma"])
def test_arithmetic_many(kind, name):
    reference = getattr(oracle, name)
    columns = operands(kind, 3 if name == "fma" else 2, 80_000, 2)
    check(getattr(halves, name), lambda *lane: reference(*lane, kind), kind, columns)


@pytest.mark.parametrize("kind", KINDS)
def test_fma_at_ties(kind):
    one = 2 ** (oracle.LAYOUTS[kind][0] - 1) - 1 << oracle.LAYOUTS[kind][1]
    fraction = (1 << oracle.LAYOUTS[kind][1]) - 1
    random = [np.random.default_rng(seed).integers(0, 1 << 16, 600).tolist() for seed in (3, 4)]
    a, b = ([bits & 0x8000 | one | bits & fraction for bits in column] for column in random)
    for tip in (0, 1, 0x8001):
        columns = [a, b, [tip] * len(a)]
        check(halves.fma, lambda *lane: oracle.fma(*lane, kind), kind, columns)


@pytest.mark.parametrize("kind", KINDS)
def test_products_that_are_subnormal(kind):
    exponent_bits, fraction_bits = oracle.LAYOUTS[kind]
    random = np.random.default_rng(5)
    half = (1 << exponent_bits - 2) << fraction_bits
    offsets = half - (2 << fraction_bits), half - (6 << fraction_bits), 0
    a, b, c = (random.integers(0, 1 << fraction_bits + 2, 600) + offset for offset in offsets)
    columns = [column.tolist() for column in (a, b, c)]
    check(halves.fma, lambda *lane: oracle.fma(*lane, kind), kind, columns)
    check(halves.mul, lambda *lane: oracle.mul(*lane, kind), kind, columns[:2])


@pytest.mark.parametrize("kind", KINDS)
def test_signs(kind):
    bits = oracle.special(kind)
    infinity = oracle.encoded("inf", kind)

    def sign(change, flush=lambda a, _: a):
        is_kept = kind == "bf16"  # a NaN
        return lambda a: change(flush(a, kind)) if is_kept or a & 0x7FFF <= infinity else 0x7FFF

    check(halves.neg, sign(lambda a: a ^ 0x8000), kind, [bits])
    check(halves.abs_, sign(lambda a: a & 0x7FFF), kind, [bits])
    check(halves.neg, sign(lambda a: a ^ 0x8000, oracle.flush), kind, [bits], ftz=True)
    check(halves.abs_, sign(lambda a: a & 0x7FFF, oracle.flush), kind, [bits], ftz=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{}, {"nan": True}, {"xorsign": True}, {"nan": True, "xorsign": True}])
def test_extremes(kind, options):
    columns = operands(kind, 2, 200, 6)
    for is_max, function in ((False, halves.minimum), (True, halves.maximum)):
        check(function, lambda a, b, m=is_max: oracle.extreme(a, b, kind, m, **options), kind, columns, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_extremes_of_flushed(kind):
    small = list(zip(*itertools.product(oracle.special(kind)[::3], repeat=2), strict=True))
    reference = lambda a, b: oracle.extreme(oracle.flush(a, kind), oracle.flush(b, kind), kind, True)  # noqa: E731
    check(halves.maximum, reference, kind, [list(column) for column in small], ftz=True)


@pytest.mark.parametrize("kind", KINDS)
def test_compare(kind):
    columns = operands(kind, 2, 300, 7)
    a, b = (oracle.array(column, kind) for column in columns)
    values = [[oracle.decoded(bits, kind)[1] for bits in lane] for lane in zip(*columns, strict=True)]
    equal = ["nan" not in lane and lane[0] == lane[1] for lane in values]
    assert halves.compare(a, b, kind, "eq").tolist() == equal
    assert halves.compare(a, b, kind, "neu").tolist() == [not x for x in equal]
    words = [np.array(column, np.uint16).view(np.uint32) for column in columns]
    found = halves.compare(*words, kind + "x2", "eq")
    assert found.shape == (300, 2)
    assert found.ravel().tolist() == equal
    one = oracle.encoded(1, kind)
    assert halves.as_value(found, kind + "x2").view(np.uint16).tolist() == [one * x for x in equal]
    assert halves.as_value(found.ravel(), kind).view(np.uint16).tolist() == [one * x for x in equal]


@pytest.mark.parametrize("kind", KINDS)
def test_all_values_widen_and_come_back(kind):
    bits = np.arange(1 << 16, dtype=np.uint16)
    is_nan = bits & 0x7FFF > oracle.encoded("inf", kind)
    expected = np.where(is_nan, 0x7FFF, bits)
    if kind == "f16":
        wide = rounding.from_f16(bits.view(np.float16))
        np.testing.assert_array_equal(wide, bits.view(np.float16).astype(np.float32))
        for x in (wide, wide.astype(np.float64)):
            np.testing.assert_array_equal(rounding.to_f16(x).view(np.uint16), expected)
    else:
        wide = rounding.from_bf16(bits)
        for x in (wide, wide.astype(np.float64)):
            np.testing.assert_array_equal(rounding.to_bf16(x), expected)
