"""The gradient of LayerNorm."""

import numpy as np
import pytest
from cores import found, names
from instructions import half, in_ub, on_core, single

from device_model.aicore.core.names import TPosition
from device_model.aicore.core.tensors import LocalTensor, uint8
from device_model.aicore.functions.norm_gradients import LayerNormGrad, LayerNormGradBeta
from device_model.aicore.functions.operands import NormTiling
from device_model.kernel.findings import KernelError

EPSILON = 1e-5


def data(rows, h, dtype):
    rng = np.random.default_rng(rows)
    x, dy = rng.normal(1, 2, (rows, h)).astype(dtype), rng.normal(size=(rows, h)).astype(dtype)
    wide = x.astype(np.float64)
    return x, dy, rng.normal(size=h).astype(dtype), wide.mean(1).astype(dtype), wide.var(1).astype(dtype)


def expected(x, dy, gamma, mean, variance):
    x, dy, gamma, mean, variance = (each.astype(np.float64) for each in (x, dy, gamma, mean, variance))
    h = x.shape[1]
    d, root, g = x - mean[:, None], (variance[:, None] + EPSILON) ** -0.5, dy * gamma
    pd_var = (-0.5 * g * d * root**3).sum(1, keepdims=True)
    pd_mean = (-g * root).sum(1, keepdims=True) + pd_var / h * (-2 * d).sum(1, keepdims=True)
    res = d * root
    return g * root + pd_var * 2 / h * d + pd_mean / h, res, (dy * res).sum(0), dy.sum(0)


@pytest.mark.parametrize(
    ("rows", "h", "nbytes"), [(3, 64, None), (20, 128, 20_000), (9, 144, 8_000), (1, 2_048, 60_000)]
)
@pytest.mark.parametrize("dtype", [half, single], ids=str)
def test_gradients_are_what_numpy_gives(rows, h, nbytes, dtype):
    given = data(rows, h, dtype)
    outs = []

    def kernel():
        step = -(-rows * h * dtype.itemsize // 32) * 32
        x, dy = (in_ub(each, place * step) for place, each in enumerate(given[:2]))
        gamma, mean, variance = (in_ub(each, 4 * step + place * 8_192) for place, each in enumerate(given[2:]))
        pd_x, res = (LocalTensor(dtype, TPosition.VECCALC, place * step, rows * h) for place in (2, 3))
        pd_gamma, pd_beta = (LocalTensor(dtype, TPosition.VECCALC, 4 * step + at, h) for at in (24_576, 32_768))
        tmp = LocalTensor(uint8, TPosition.VECCALC, 4 * step + 40_960, nbytes or 40_000)
        LayerNormGrad(pd_x, res, dy, x, variance, mean, gamma, tmp, EPSILON, NormTiling(1, rows, h))
        LayerNormGradBeta(pd_gamma, pd_beta, res, dy, tmp, NormTiling(1, rows, h))
        outs.extend(each.view.copy() for each in (pd_x, res, pd_gamma, pd_beta))

    result = on_core(kernel)
    assert found(result) == []
    tolerance = 2e-2 if dtype == half else 2e-4
    for out, wanted in zip(outs, expected(*given), strict=True):
        assert np.allclose(out.astype(np.float64), wanted.ravel(), rtol=tolerance, atol=tolerance)


def test_gradients_may_lie_where_their_sources_did():
    x, dy, gamma, mean, variance = data(20, 64, single)
    outs = []

    def kernel():
        tensors = [in_ub(each, place * 8_192) for place, each in enumerate((dy, x, variance, mean, gamma))]
        tmp = LocalTensor(uint8, TPosition.VECCALC, 0x10000, 12_000)
        LayerNormGrad(tensors[0], tensors[1], *tensors, tmp, EPSILON, NormTiling(1, 20, 64))
        outs.extend(each.view.copy() for each in tensors[:2])

    assert found(on_core(kernel)) == []
    for out, wanted in zip(outs, expected(x, dy, gamma, mean, variance)[:2], strict=True):
        assert np.allclose(out, wanted.ravel(), rtol=2e-4, atol=2e-4)


def test_a_smaller_buffer_takes_more_instructions():
    x, dy, gamma, mean, variance = data(24, 64, single)
    counts = []
    for nbytes in (60_000, 8_000):

        def kernel(nbytes=nbytes):
            tensors = [in_ub(each, place * 8_192) for place, each in enumerate((dy, x, variance, mean, gamma))]
            outs = [LocalTensor(single, TPosition.VECCALC, 0xA000 + place * 8_192, 24 * 64) for place in range(2)]
            tmp = LocalTensor(uint8, TPosition.VECCALC, 0x10000, nbytes)
            LayerNormGrad(*outs, *tensors, tmp, EPSILON, NormTiling(1, 24, 64))

        counts.append(len(names(on_core(kernel))))
    assert counts[0] < counts[1]


def test_gradients_that_cannot_be_are_refused():
    def grad(tmp=4_000, gamma=64, mean=8, rows=8):
        matrices = [LocalTensor(single, TPosition.VECCALC, place * 4_096, 512) for place in range(4)]
        columns = [LocalTensor(single, TPosition.VECCALC, 0x4000 + place * 512, mean) for place in range(2)]
        row = LocalTensor(single, TPosition.VECCALC, 0x5000, gamma)
        room = LocalTensor(uint8, TPosition.VECCALC, 0x6000, tmp)
        LayerNormGrad(*matrices, *columns, row, room, EPSILON, NormTiling(1, rows, 64))

    for wrong, message in (
        (lambda: grad(gamma=56), "input_gamma has 56 elements; a row has 64"),
        (lambda: grad(mean=7), "input_variance has 7 elements"),
        (lambda: grad(rows=9), "LayerNormGrad of 9 x 64 elements; matrix 0 has 512"),
        (lambda: grad(tmp=512), "LayerNormGrad: .*"),
    ):
        with pytest.raises(KernelError, match=message):
            on_core(wrong)
