"""Normalize, of rows whose mean and variance are known."""

import numpy as np
import pytest
from cores import found, names
from instructions import half, in_ub, on_core, single

from device_model.aicore.core.names import TPosition
from device_model.aicore.core.tensors import LocalTensor, uint8
from device_model.aicore.functions.norms import Normalize, NormalizePara
from device_model.kernel.findings import KernelError


def run_on(x, gamma, beta, n, nbytes=40_000):
    """What Normalize writes to y and to rstd, and the launch; the tensors lie one behind the other in UB."""
    rows, k = x.shape
    wide = x[:, :n].astype(np.float64)
    arrays = [
        np.zeros_like(x),
        np.zeros(rows, single),
        *(each.astype(single) for each in (wide.mean(1), wide.var(1))),
        x,
    ]
    seen = []

    def kernel():
        at, tensors = 0, []
        for array in (*arrays, gamma, beta):
            tensors.append(None if array is None else in_ub(array, at))
            at += 0 if array is None else -(-array.nbytes // 32) * 32
        tmp = LocalTensor(uint8, TPosition.VECCALC, at, nbytes)
        Normalize(*tensors, tmp, 1e-5, NormalizePara(rows, n, k))
        seen.extend((tensors[0].view.astype(np.float64).reshape(rows, k)[:, :n], tensors[1].view.copy()))

    launched = on_core(kernel)
    return *seen, launched


@pytest.mark.parametrize(("rows", "k", "n"), [(1, 64, 64), (13, 48, 41), (8, 208, 200), (30, 32, 32)])
@pytest.mark.parametrize("dtypes", [(half, half), (half, single), (single, single)], ids=str)
def test_normalize_gives_what_numpy_gives(rows, k, n, dtypes):
    rng = np.random.default_rng(rows)
    x, gamma, beta = (
        rng.normal(size=size).astype(dtype)
        for size, dtype in zip(((rows, k), k, k), (dtypes[0], *dtypes[1:] * 2), strict=True)
    )
    y, rstd, launched = run_on(x, gamma, beta, n)
    wide = x[:, :n].astype(np.float64)
    expected = 1 / np.sqrt(wide.var(1) + 1e-5)
    tolerance = 4e-3 if dtypes[0] == half else 1e-5
    centred = (wide - wide.mean(1, keepdims=True)) * expected[:, None]
    assert np.allclose(rstd, expected, rtol=1e-5)
    assert np.allclose(y, centred * gamma[:n] + beta[:n], rtol=tolerance, atol=tolerance)
    assert found(launched) == []


@pytest.mark.parametrize("left", ["gamma", "beta", "both"])
def test_gamma_and_beta_may_be_left_out(left):
    x = np.random.default_rng(3).normal(size=(5, 64)).astype(single)
    gamma = None if left in ("gamma", "both") else np.full(64, 3, single)
    beta = None if left in ("beta", "both") else np.full(64, 2, single)
    y, _, launched = run_on(x, gamma, beta, 64)
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    assert np.allclose(y, expected * (1 if gamma is None else 3) + (0 if beta is None else 2), atol=1e-5)
    assert names(launched).count("Mul") == (1 if gamma is None else 2)


def test_a_small_buffer_takes_eight_rows_at_once():
    x, ones = np.random.default_rng(4).normal(size=(20, 32)).astype(single), np.ones(32, single)
    whole, rstd, once = run_on(x, ones, ones, 32)
    parts, same, often = run_on(x, ones, ones, 32, nbytes=2_048)
    assert np.array_equal(whole, parts)
    assert np.array_equal(rstd, same)
    assert [names(each).count("Brcb") for each in (once, often)] == [2, 6]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": np.zeros((4, 36), half)}, "rows are whole blocks of 32 bytes apart"),
        ({"x": np.zeros((4, 32), np.int32)}, "Normalize: .* int32"),
        ({"n": 33}, "4 rows of 33 elements, 32 apart"),
        ({"gamma": np.ones(32, half)}, "gamma is float16; it takes float32\n"),
        ({"x": np.zeros((4, 32), half), "beta": np.ones(32, half)}, "both are of one type"),
        ({"beta": np.ones(24, single)}, "beta has 24 elements, and needs 32"),
        ({"gamma": np.ones(32, np.int32)}, "gamma is int32"),
        ({"nbytes": 320}, "a temporary buffer of 320 bytes"),
    ],
)
def test_what_it_refuses(change, message):
    ones = np.ones(32, single)
    given = {"x": np.zeros((4, 32), single), "gamma": ones, "beta": ones, "n": 32} | change
    with pytest.raises(KernelError, match=f"(?s){message}"):
        run_on(**given)
