"""SoftMax, whole and in parts, RmsNorm and LayerNorm, beside NumPy."""

import numpy as np
import pytest
from cores import found, names
from instructions import half, in_ub, on_core, single

from device_model.aicore.core.names import TPosition
from device_model.aicore.core.tensors import LocalTensor, uint8
from device_model.aicore.functions.norms import LayerNorm, RmsNorm
from device_model.aicore.functions.operands import NormTiling
from device_model.aicore.functions.softmax import (
    SimpleSoftMax,
    SoftMax,
    SoftmaxFlashV2,
    SoftMaxShapeInfo,
)
from device_model.aicore.functions.softmax_results import SoftmaxGrad
from device_model.kernel.findings import KernelError

SHAPES = [(1, 64, 64), (3, 16, 16), (9, 128, 128), (5, 208, 200), (2, 2_048, 2_048), (17, 32, 19)]
TOLERANCE = {2: 2e-3, 4: 3e-6}


def kernel_of(body, *arrays, nbytes=24_000):
    """Run `body(*tensors, tmp)` on arrays in UB; what they hold then, and the launch."""
    seen = []

    def kernel():
        at, tensors = 0, []
        for array in arrays:
            tensors.append(in_ub(array, at))
            at += -(-array.nbytes // 32) * 32
        body(*tensors, LocalTensor(uint8, TPosition.VECCALC, at, nbytes))
        seen.extend(tensor.view.astype(np.float64) for tensor in tensors)

    return seen, on_core(kernel)


def matrix(rows, k, dtype, seed=1):
    return np.random.default_rng(seed).normal(size=(rows, k)).astype(dtype)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e, e.sum(-1), x.max(-1)


@pytest.mark.parametrize("dtype", [half, single], ids=str)
@pytest.mark.parametrize(("rows", "k", "n"), SHAPES)
def test_softmax_gives_what_numpy_gives_with_sums_and_maxima_in_blocks(rows, k, n, dtype):
    x = matrix(rows, k, dtype)
    blocks = np.full((rows, 32 // dtype.itemsize), 9, dtype)
    shape = SoftMaxShapeInfo(rows, k, rows, n)
    seen, launched = kernel_of(
        lambda dst, sums, largest, src, tmp: SoftMax(dst, sums, largest, src, tmp, shape),
        np.zeros((rows, k), dtype), blocks, blocks, x,
    )  # fmt: skip
    e, sums, largest = softmax(x[:, :n].astype(np.float64))
    tolerance = TOLERANCE[dtype.itemsize]
    assert np.allclose(seen[0].reshape(rows, k)[:, :n], e / sums[:, None], rtol=tolerance, atol=tolerance / 100)
    assert np.allclose(seen[1].reshape(rows, -1), sums[:, None], rtol=tolerance)
    assert np.allclose(seen[2].reshape(rows, -1), largest[:, None], rtol=tolerance)
    assert found(launched) == []


def test_softmax_may_work_in_place_and_row_by_row():
    x = matrix(20, 96, single)
    shape = SoftMaxShapeInfo(20, 96)
    whole, once = kernel_of(lambda src, tmp: SoftMax(src, src, tmp, shape), x)
    parts, often = kernel_of(lambda src, tmp: SoftMax(src, src, tmp, shape), x, nbytes=2_000)
    e, sums, _ = softmax(x.astype(np.float64))
    assert np.allclose(whole[0].reshape(20, 96), e / sums[:, None], rtol=3e-6)
    assert whole[0].tolist() == parts[0].tolist()
    assert names(once).count("Exp") == 1 < names(often).count("Exp")


@pytest.mark.parametrize("dtype", [half, single], ids=str)
def test_flash_softmax_in_two_parts_is_softmax_of_the_whole(dtype):
    rows, k = 6, 64
    x = matrix(rows, 2 * k, dtype)
    shape = SoftMaxShapeInfo(rows, k)
    state = np.zeros((rows, 8), single)
    y = np.zeros((rows, k), dtype)

    def body(left, right, y0, y1, sums, largest, scale, tmp):
        SoftmaxFlashV2(y0, sums, largest, left, scale, sums, largest, tmp, shape, is_update=False)
        SoftmaxFlashV2(y1, sums, largest, right, scale, sums, largest, tmp, shape, is_update=True)

    left, right = x[:, :k].copy(), x[:, k:].copy()
    seen, launched = kernel_of(body, left, right, y, y, state, state, state)
    e, sums, largest = softmax(x.astype(np.float64))
    y0, y1, total, top, scale = (each.reshape(rows, -1) for each in seen[2:])
    assert np.allclose(total, sums[:, None], rtol=2e-6)
    assert np.allclose(top, largest[:, None], rtol=2e-6)
    tolerance = TOLERANCE[dtype.itemsize]
    assert np.allclose(np.hstack((y0 * scale[:, :1], y1)), e, rtol=tolerance, atol=tolerance / 100)
    assert found(launched) == []


def test_simple_softmax_takes_sums_and_maxima_and_the_gradient_is_that_of_numpy():
    x, grad = matrix(5, 72, single), matrix(5, 72, single, 2)
    e, sums, largest = softmax(x.astype(np.float64))
    blocks = [np.repeat(each[:, None], 8, 1).astype(single) for each in (sums, largest)]
    shape = SoftMaxShapeInfo(5, 72)
    seen, launched = kernel_of(
        lambda dst, s, m, src, tmp: SimpleSoftMax(dst, s, m, src, tmp, shape), np.zeros_like(x), *blocks, x
    )
    expected = e / sums[:, None]
    assert np.allclose(seen[0].reshape(5, 72), expected, rtol=3e-6)
    y = expected.astype(single)
    back, gradient = kernel_of(lambda dst, g, src, tmp: SoftmaxGrad(dst, g, src, tmp, shape), np.zeros_like(x), grad, y)
    wanted = (grad - (grad * y.astype(np.float64)).sum(-1, keepdims=True)) * y
    assert np.allclose(back[0].reshape(5, 72), wanted, rtol=1e-5, atol=1e-7)
    assert found(launched) == found(gradient) == []


@pytest.mark.parametrize("dtype", [half, single], ids=str)
@pytest.mark.parametrize(("rows", "h"), [(1, 64), (7, 32), (4, 256), (2, 2_048), (12, 80)])
def test_norms_give_what_numpy_gives(rows, h, dtype):
    x, gamma, beta = matrix(rows, h, dtype), matrix(1, h, dtype, 2)[0], matrix(1, h, dtype, 3)[0]
    column = np.zeros(rows, dtype)
    rms, first = kernel_of(
        lambda dst, src, g, tmp: RmsNorm(dst, src, g, tmp, 1e-5, NormTiling(1, rows, h)),
        np.zeros_like(x), x, gamma, nbytes=40_000,
    )  # fmt: skip
    layer, second = kernel_of(
        lambda dst, mean, variance, src, g, b, tmp: LayerNorm(
            dst, mean, variance, src, g, b, tmp, 1e-5, NormTiling(1, rows, h)),
        np.zeros_like(x), column, column, x, gamma, beta, nbytes=40_000,
    )  # fmt: skip
    wide, tolerance = x.astype(np.float64), TOLERANCE[dtype.itemsize] * 2
    mean, variance = wide.mean(-1), wide.var(-1)
    root = np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-5)
    normal = (wide - mean[:, None]) / np.sqrt(variance[:, None] + 1e-5)
    assert np.allclose(rms[0].reshape(rows, h), wide / root * gamma, rtol=tolerance, atol=tolerance)
    assert np.allclose(layer[0].reshape(rows, h), normal * gamma + beta, rtol=tolerance, atol=tolerance)
    assert np.allclose(layer[1], mean, rtol=tolerance, atol=tolerance)
    assert np.allclose(layer[2], variance, rtol=tolerance, atol=tolerance)
    assert found(first) == found(second) == []


X = matrix(4, 32, single)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, tmp: SoftMax(x, x, tmp, SoftMaxShapeInfo(4, 36)), "rows are whole blocks|has 128"),
        (lambda x, tmp: SoftMax(x, x, tmp, SoftMaxShapeInfo(4, 30)), "rows are whole blocks of 32 bytes apart"),
        (lambda x, tmp: SoftMax(x, x, tmp, SoftMaxShapeInfo(4, 32, 5)), "ori_src_m is at most src_m"),
        (lambda x, tmp: SoftMax(x, x, tmp, SoftMaxShapeInfo(4, 32, 4, 33)), "4 rows of 33 elements, 32 apart"),
        (lambda x, tmp: SoftMax(x, x, tmp, SoftMaxShapeInfo(5, 32)), "SoftMax of 5 x 32 .* matrix 0 has 128"),
        (
            lambda x, tmp: SoftMax(x, x, tmp[:64], SoftMaxShapeInfo(4, 32)),
            "buffer of 64 bytes.* it needs .* more",
        ),
        (lambda x, tmp: SoftMax(x, x[:24], x, x, tmp, SoftMaxShapeInfo(4, 32)), "sum has 24 .* 32 of float32"),
        (lambda x, tmp: SoftMax(x, x.ReinterpretCast(half), tmp, SoftMaxShapeInfo(4, 32)), "matrix 1 is float16"),
        (lambda x, tmp: RmsNorm(x, x, x[:16], tmp, 0, NormTiling(1, 4, 32)), "gamma has 16 elements; a row has 32"),
        (lambda x, tmp: RmsNorm(x, x, x, x, 0, NormTiling(1, 4, 32)), "the temporary buffer .* overlaps"),
    ],
)
def test_what_they_refuse(call, message):
    with pytest.raises(KernelError, match=f"(?s){message}"):
        kernel_of(call, X)


def test_softmax_takes_one_to_four_operands():
    with pytest.raises(TypeError, match=r"SoftMax takes \(dst, src\)"):
        kernel_of(lambda x, tmp: SoftMax(x, SoftMaxShapeInfo(4, 32)), X)
