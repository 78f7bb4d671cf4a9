"""The approximate functions, compared with decimals of fifty digits: far within the bounds of the PTX ISA."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
import values_oracle as oracle

from device_model.ptx.values import approximate, halves

PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798")
HALF_UNIT = 2.0**-24 * 1.001  # the last rounding, to f32, and a little more
COUNT = 250


@pytest.fixture(autouse=True)
def digits():
    with localcontext() as context:
        context.prec = 60
        yield


def exact(x):
    return Decimal(x.numerator) / Decimal(x.denominator) if isinstance(x, Fraction) else Decimal(float(x))


def ex2(x):
    return (x * Decimal(2).ln()).exp()


def lg2(x):
    return x.ln() / Decimal(2).ln()


def tanh(x):
    if abs(x) < Decimal("1e-10"):
        return x
    power = (2 * x).exp()
    return (power - 1) / (power + 1)


def sin(x):
    x = x % (2 * PI)
    term = total = x
    for n in range(1, 60):
        term *= -x * x / (2 * n * (2 * n + 1))
        total += term
    return total


def cos(x):
    return sin(x + PI / 2)


def uniform(low, high, seed=0):
    return np.random.default_rng(seed).uniform(low, high, COUNT).astype(np.float32)


def scales(seed=0, least=-149, most=128):
    """Positive numbers of all sizes."""
    random = np.random.default_rng(seed)
    return np.ldexp(random.uniform(1, 2, COUNT), random.integers(least, most, COUNT)).astype(np.float32)


def errors(found, wanted, relative):
    """The largest error, where results are not subnormal; there half the smallest subnormal is allowed besides."""
    worst = 0.0
    for x, y in zip(found.tolist(), wanted, strict=True):
        error = max(abs(exact(x) - y) - Decimal(2) ** -150, Decimal(0))
        worst = max(worst, float(error / abs(y)) if relative and y else float(error))
    return worst


@pytest.mark.parametrize(
    "a", [uniform(-149.5, 128), uniform(-1, 1), scales(least=-40, most=5), np.arange(-149, 128, dtype="f4")]
)
def test_ex2(a):
    assert errors(approximate.ex2(a), [ex2(exact(x)) for x in a], True) < HALF_UNIT


def test_ex2_of_integers_is_exact():
    a = np.arange(-149, 128)
    np.testing.assert_array_equal(approximate.ex2(a.astype(np.float32)), np.ldexp(np.float32(1), a))


@pytest.mark.parametrize("a", [uniform(0.5, 2), scales(), uniform(0.999, 1.001)])
def test_lg2(a):
    found, wanted = approximate.lg2(a), [lg2(exact(x)) for x in a]
    assert errors(found, wanted, True) < HALF_UNIT  # near 1 too, where the PTX ISA has a bound of the absolute error
    powers = np.ldexp(np.float32(1), np.arange(-149, 128))
    np.testing.assert_array_equal(approximate.lg2(powers), np.arange(-149, 128, dtype=np.float32))


@pytest.mark.parametrize("a", [uniform(-6.3, 6.3), uniform(-314, 314), scales(least=-60, most=3)])
@pytest.mark.parametrize("function", [sin, cos])
def test_sin_and_cos(function, a):
    found = getattr(approximate, function.__name__)(a)
    assert errors(found, [function(exact(x)) for x in a], False) < HALF_UNIT
    assert (np.abs(found) <= 1).all()


@pytest.mark.parametrize("a", [uniform(-12, 12), uniform(-0.2, 0.2), scales(most=5), uniform(0.1249, 0.1251)])
def test_tanh(a):
    assert errors(approximate.tanh(a), [tanh(exact(x)) for x in a], True) < HALF_UNIT


@pytest.mark.parametrize("name", ["rcp", "sqrt", "rsqrt"])
def test_roots_and_reciprocals(name):
    a = scales(1, least=-127)
    wanted = {"rcp": lambda x: 1 / x, "sqrt": Decimal.sqrt, "rsqrt": lambda x: 1 / x.sqrt()}[name]
    assert errors(getattr(approximate, name)(a), [wanted(exact(x)) for x in a], True) < HALF_UNIT


INFINITY, NAN, TINY = np.inf, np.nan, 2.0**-140
SPECIAL = np.float32([0.0, -0.0, TINY, -TINY, INFINITY, -INFINITY, NAN, -1.0])


@pytest.mark.parametrize(
    ("name", "flushed"),
    [
        ("ex2", [1, 1, 1, 1, INFINITY, 0, NAN, 0.5]),
        ("lg2", [-INFINITY, -INFINITY, -INFINITY, -INFINITY, INFINITY, NAN, NAN, NAN]),
        ("sin", [0, -0.0, 0, -0.0, NAN, NAN, NAN, -0.84147096]),
        ("cos", [1, 1, 1, 1, NAN, NAN, NAN, 0.5403023]),
        ("rcp", [INFINITY, -INFINITY, INFINITY, -INFINITY, 0, -0.0, NAN, -1]),
        ("rsqrt", [INFINITY, -INFINITY, INFINITY, -INFINITY, 0, NAN, NAN, NAN]),
        ("sqrt", [0, -0.0, 0, -0.0, INFINITY, NAN, NAN, NAN]),
    ],
)
def test_special_values(name, flushed):
    function = getattr(approximate, name)
    same(function(SPECIAL, ftz=True), np.float32(flushed))
    kept = np.array([0, 1, 4, 5, 6, 7])
    same(function(SPECIAL)[kept], np.float32(flushed)[kept])
    same(function(SPECIAL[7]), np.float32(flushed)[7])


def test_special_values_of_tanh_and_subnormals():
    same(approximate.tanh(SPECIAL), np.float32([0, -0.0, TINY, -TINY, 1, -1, NAN, -0.7615942]))
    same(approximate.sin(SPECIAL[2:4]), SPECIAL[2:4])
    same(approximate.ex2(np.float32([-140, -150, -126]), ftz=True), np.float32([0, 0, 2.0**-126]))
    same(approximate.rcp(np.float32([2.0**127, 2.0**-127])), np.float32([2.0**-127, 2.0**127]))
    same(approximate.rcp(np.float32([2.0**127, -(2.0**127)]), ftz=True), np.float32([0, -0.0]))


def same(found, wanted):
    np.testing.assert_array_equal(found, wanted)
    is_number = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found) & is_number, np.signbit(wanted) & is_number)


@pytest.mark.parametrize(("name", "wanted"), [("rcp_f64", lambda x: 1 / x), ("rsqrt_f64", lambda x: 1 / x.sqrt())])
def test_gross_approximations_of_f64(name, wanted):
    function, random = getattr(approximate, name), np.random.default_rng(2)
    a = np.ldexp(random.uniform(1, 2, COUNT), random.integers(-1020, 1020, COUNT))
    found = function(a)
    assert not (found.view(np.uint64) & 0xFFFFFFFF).any()
    assert errors(found, [wanted(exact(x)) for x in a], True) < 2.0**-19
    special = np.array([0.0, -0.0, 1e-310, INFINITY, NAN])
    same(function(special), np.array([INFINITY, -INFINITY, INFINITY, 0, NAN]))
    nans = np.array([0x7FF0000000000001, 0x7FF4000000000000, 0xFFFB54224847F3FC], np.uint64)  # one in the lower half
    assert function(nans.view(np.float64)).view(np.uint64).tolist() == [0, *[0x7FFFFFFF00000000] * 2]


@pytest.mark.parametrize(("kind", "bound"), [("f16", 2.0**-11), ("bf16", 2.0**-8)])
def test_halves(kind, bound):
    layout = {"f16": np.float16, "bf16": np.uint16}[kind]
    bits = np.random.default_rng(3).integers(0, 1 << 16, 400).astype(np.uint16)
    values = [oracle.decoded(x, kind)[1] for x in bits.tolist()]
    keep = [not isinstance(x, str) and -14 <= x < 15 for x in values]
    numbers = [exact(x) for x, is_kept in zip(values, keep, strict=True) if is_kept]
    a = bits[keep].view(layout)
    for name, reference in (("ex2", ex2), ("tanh", tanh)):
        found = getattr(halves, name)(a, kind).view(np.uint16).tolist()
        for bits_found, x in zip(found, numbers, strict=True):
            y = reference(x)
            error = abs(exact(oracle.decoded(bits_found, kind)[1]) - y)
            assert error <= abs(y) * Decimal(bound * 1.001) or error <= Decimal(2) ** -25
    one, nan = oracle.encoded(1, kind), 0x7FFF
    special = oracle.array([0, 0x8000, nan, oracle.encoded("inf", kind), oracle.encoded("-inf", kind)], kind)
    assert halves.ex2(special, kind).view(np.uint16).tolist() == [one, one, nan, oracle.encoded("inf", kind), 0]
    assert halves.tanh(special, kind).view(np.uint16).tolist() == [0, 0x8000, nan, one, one | 0x8000]
    word = np.array([one << 16 | 0x8000], np.uint32)
    assert halves.ex2(word, kind + "x2").tolist() == [oracle.encoded(2, kind) << 16 | one]


@pytest.mark.parametrize("a", [uniform(-0.5, 0.5), uniform(0.49, 0.51), uniform(-12, 12), scales(least=-40, most=3)])
def test_before_the_last_rounding(a):
    wide = a.astype(np.float64)
    assert errors(approximate.ex2_wide(wide), [ex2(exact(x)) for x in a], True) < 2.0**-36
    assert errors(approximate.tanh_wide(wide), [tanh(exact(x)) for x in a], True) < 2.0**-30
