"""Functions of whole tensors, made of vector instructions: their values, their pieces, and their temporary buffers."""

from math import erf, erfc

import numpy as np
import pytest
from cores import found, names
from instructions import half, in_ub, on_core, single, vector

from device_model.aicore.core.names import TPosition
from device_model.aicore.core.tensors import LocalTensor, uint8
from device_model.aicore.flags.queues import TBuf
from device_model.aicore.flags.tpipe import TPipe
from device_model.aicore.functions import activations, powers, rounding
from device_model.kernel.findings import KernelError


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu(x):
    return x * sigmoid(1.5957691216057308 * (x + 0.044715 * x**3))


NEAR, POSITIVE, BELOW_1, ABOVE_1 = (-6, 6), (0.01, 60), (-0.99, 0.99), (1, 90)
UNARY = {
    rounding.Ceil: (np.ceil, NEAR), rounding.Floor: (np.floor, NEAR), rounding.Round: (np.rint, NEAR),
    rounding.Trunc: (np.trunc, NEAR), rounding.Frac: (lambda x: x - np.trunc(x), NEAR),
    rounding.Log: (np.log, POSITIVE), rounding.Log2: (np.log2, POSITIVE), rounding.Log10: (np.log10, POSITIVE),
    rounding.Sign: (np.sign, NEAR), activations.Sigmoid: (sigmoid, NEAR), activations.Tanh: (np.tanh, NEAR),
    activations.Gelu: (gelu, NEAR), activations.FasterGelu: (lambda x: x * sigmoid(1.702 * x), NEAR),
    powers.Sinh: (np.sinh, NEAR), powers.Cosh: (np.cosh, NEAR), powers.Atanh: (np.arctanh, BELOW_1),
    powers.Acosh: (np.arccosh, ABOVE_1), powers.Sin: (np.sin, (-60, 60)), powers.Cos: (np.cos, (-60, 60)),
    powers.Tan: (np.tan, (-1.5, 1.5)), powers.Atan: (np.arctan, (-30, 30)), powers.Asin: (np.arcsin, (-1, 1)),
    powers.Acos: (np.arccos, (-1, 1)), powers.Asinh: (np.arcsinh, (-90, 90)),
    powers.Erf: (np.vectorize(erf), NEAR), powers.Erfc: (np.vectorize(erfc), NEAR),
}  # fmt: skip


def points(low, high, count, dtype):
    """Numbers of the range, its ends and the middle among them."""
    x = np.linspace(low, high, count).astype(dtype)
    return np.random.default_rng(count).permutation(x)


def in_a_buffer(function, nbytes):
    """*function* with a temporary buffer of so many bytes behind its tensors."""
    return lambda *tensors, count: function(*tensors, LocalTensor(uint8, TPosition.VECCALC, 150_016, nbytes), count)


@pytest.mark.parametrize("dtype", [half, single], ids=str)
@pytest.mark.parametrize("function", UNARY, ids=lambda each: each.__name__)
def test_a_function_gives_what_numpy_gives(function, dtype):
    numpy, (low, high) = UNARY[function]
    x = points(low, high, 1_003, dtype)
    expected = numpy(x.astype(np.float64))
    result, launched = vector(
        lambda d, a: in_a_buffer(function, 40_000)(d, a, count=1_000), np.full(1_003, 7, dtype), x
    )
    tolerance = {2: 4e-3, 4: 3e-6}[dtype.itemsize]
    assert np.allclose(result[:1_000], expected[:1_000], rtol=tolerance, atol=tolerance / 4)
    assert result[1_000:].tolist() == [7, 7, 7]
    assert found(launched) == []


@pytest.mark.parametrize("dtype", [half, single], ids=str)
@pytest.mark.parametrize("function", UNARY, ids=lambda each: each.__name__)
def test_a_function_may_work_in_place_and_in_pieces(function, dtype):
    _, (low, high) = UNARY[function]
    x = points(low, high, 700, dtype)
    whole, _ = vector(lambda d, a: in_a_buffer(function, 40_000)(d, a, count=700), np.zeros(700, dtype), x)
    result, launched = vector(lambda d: in_a_buffer(function, 32 * 29)(d, d, count=700), x)
    assert result.tolist() == whole.tolist()
    assert found(launched) == []


TWO = {
    powers.Power: lambda x, y: np.power(x, y),
    activations.ReGlu: lambda x, y: x * np.maximum(y, 0),
    activations.GeGLU: lambda x, y: x * gelu(y),
}


@pytest.mark.parametrize("dtype", [half, single], ids=str)
@pytest.mark.parametrize("function", TWO, ids=lambda each: each.__name__)
def test_a_function_of_two_tensors_gives_what_numpy_gives(function, dtype):
    x, y = points(0.1, 3, 500, dtype), points(-3, 3, 500, dtype)[::-1].copy()
    expected = TWO[function](x.astype(np.float64), y.astype(np.float64))
    result, launched = vector(
        lambda d, a, b: in_a_buffer(function, 4_000)(d, a, b, count=500), np.zeros(500, dtype), x, y
    )
    tolerance = {2: 4e-3, 4: 4e-6}[dtype.itemsize]
    assert np.allclose(result, expected, rtol=tolerance, atol=tolerance / 4)
    assert found(launched) == []


def test_the_power_of_zero_one_and_negative_bases_is_as_in_numpy():
    x = np.array([-2, -2, -2, 0, 0, 1, -1, 5, -8, np.inf, np.nan], np.float32)
    y = np.array([3, 2, 0.5, 0, 2, np.inf, -3, 0, -2, -1, 0], np.float32)
    result, _ = vector(lambda d, a, b: in_a_buffer(powers.Power, 4_000)(d, a, b, count=11), np.zeros(11, single), x, y)
    with np.errstate(all="ignore"):
        assert np.allclose(result, np.power(x, y), equal_nan=True)


@pytest.mark.parametrize(("dtype", "tolerance"), [(half, 4e-3), (single, 4e-6)], ids=str)
def test_base_or_exponent_may_be_a_number(dtype, tolerance):
    x = points(-3, 3, 100, dtype)
    squares, _ = vector(
        lambda d, a: powers.Power(d, a, 2.0, LocalTensor(uint8, TPosition.VECCALC, 150_016, 8_000)),
        np.zeros(100, dtype),
        x,
    )
    powers_of_2, _ = vector(
        lambda d, a: powers.Power(d, 2.0, a, LocalTensor(uint8, TPosition.VECCALC, 150_016, 8_000), 100),
        np.zeros(100, dtype), x,
    )  # fmt: skip
    assert np.allclose(squares, x.astype(np.float64) ** 2, rtol=tolerance)
    assert np.allclose(powers_of_2, np.exp2(x.astype(np.float64)), rtol=tolerance)
    with pytest.raises(TypeError, match=r"Power: src0 2.0 or src1 3.0 must be a LocalTensor"):
        vector(lambda d: powers.Power(d, 2.0, 3.0), np.zeros(100, dtype))


def test_gates_have_their_factor():
    x, y = points(-4, 4, 64, single), points(-2, 2, 64, single)
    wide_x, wide_y = x.astype(np.float64), y.astype(np.float64)

    def kernel():
        TPipe()
        tensors = [in_ub(array, 100_000 + 4_000 * place) for place, array in enumerate((x, y, x, x, x))]
        activations.SwiGLU(tensors[2], tensors[0], tensors[1], 1.5, 64)
        activations.Swish(tensors[3], tensors[0], 64, 2.0)
        activations.Silu(tensors[4], tensors[0], 64)
        seen.extend(tensor.view.copy() for tensor in tensors[2:])

    seen = []
    assert found(on_core(kernel)) == []
    expected = [wide_x * wide_y * sigmoid(1.5 * wide_y), wide_x * sigmoid(2 * wide_x), wide_x * sigmoid(wide_x)]
    assert all(np.allclose(a, b, rtol=2e-6, atol=1e-6) for a, b in zip(seen, expected, strict=True))


def test_xor_is_of_bits():
    x, y = np.arange(-100, 100, dtype=np.int16), np.arange(200, dtype=np.int16) * 77
    result, _ = vector(lambda d, a, b: in_a_buffer(powers.Xor, 256)(d, a, b, count=200), np.zeros(200, np.int16), x, y)
    assert result.tolist() == (x ^ y).tolist()


def test_a_larger_temporary_buffer_means_fewer_instructions():
    x = points(-3, 3, 4_096, single)

    def issued(nbytes):
        return names(vector(lambda d, a: in_a_buffer(activations.Sigmoid, nbytes)(d, a, count=4_096), x, x)[1])

    once = ["Muls", "Exp", "Adds", "Duplicate", "Div"]
    assert issued(4_096 * 4) == once
    assert issued(2_048 * 4) == once * 2
    assert issued(2_048 * 4 - 1) == once * 3


def test_without_a_temporary_buffer_a_function_takes_the_bytes_that_no_buffer_has():
    x = points(-3, 3, 256, half)
    seen = []

    def kernel():
        pipe, taken = TPipe(), TBuf()
        pipe.InitBuffer(taken, 196_608 - 256 * 6)
        x_ub = taken.Get(half, 256)
        x_ub.view[:] = x
        rounding.Floor(taken.GetWithOffset(256, 1_024, half), in_ub(x, 0), 256)
        seen.extend(taken.GetWithOffset(256, 1_024, half).view)

    result = on_core(kernel)
    assert seen == np.floor(x).tolist()
    assert names(result).count("Cast") == 3 * 1  # 1,536 bytes hold 384 floats: all in one piece


ZEROS = np.zeros(256, np.float32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d, a: rounding.Frac(d, a, 64), r"Frac without a temporary buffer, and .* has no TPipe"),
        (lambda d, a: rounding.Frac(d, a, a, 64), "Frac: the temporary buffer .* overlaps"),
        (lambda d, a: in_a_buffer(rounding.Frac, 127)(d, a, count=64), "takes 4 bytes an element, and 128 at least"),
        (lambda d, a: in_a_buffer(rounding.Frac, 512)(d, a, count=257), "Frac: a count of 257.*dst has 256 elements"),
        (lambda d, a: in_a_buffer(rounding.Frac, 512)(d, a, count=0), "Frac: a count of 0"),
        (lambda d, a: in_a_buffer(rounding.Frac, 512)(d, a, count=1.5), "Frac: a count of 1.5"),
        (lambda d, a: rounding.Ceil(d, a.ReinterpretCast(half), 64), "Ceil: src0 is float16.*it takes float32"),
        (lambda d, a: rounding.Ceil(*[each.ReinterpretCast(np.int32) for each in (d, a)], 64), "Ceil: dst is int32"),
        (lambda d, a: powers.Xor(d, a, a, 64), "Xor: dst is float32.*it takes int16, uint16"),
    ],
)
def test_what_a_function_refuses(call, message):
    with pytest.raises(KernelError, match=f"(?s){message}"):
        vector(call, ZEROS, ZEROS)


def test_functions_take_the_same_time_without_values():
    x = points(-3, 3, 512, half)

    def kernel():
        TPipe()
        dst = in_ub(x, 100_000 // 32 * 32)
        powers.Power(dst, dst, 2.0, LocalTensor(uint8, TPosition.VECCALC, 0, 8_000), 512)
        activations.Gelu(dst, dst, 512)

    with_values, without = on_core(kernel), on_core(kernel, values=False)
    times = [
        [(each.name, each.start, each.end) for each in run.programs[0].instructions] for run in (with_values, without)
    ]
    assert times[0] == times[1]
    assert len(times[0]) > 40
