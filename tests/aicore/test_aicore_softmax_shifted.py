"""SoftmaxFlashV3: SoftMax in parts whose rows are shifted by means."""

import numpy as np
import pytest
from cores import found
from instructions import half, in_ub, on_core, single

from device_model.aicore.core.names import TPosition
from device_model.aicore.core.tensors import LocalTensor, uint8
from device_model.aicore.functions.softmax_shifted import SoftmaxFlashV3, SoftMaxParams
from device_model.kernel.findings import KernelError

ALPHA = 0.9375


def shifted(x, alpha, loop=1, before=None):
    """In double precision, as the vendor's page has it: dst, mean, sum, max, exp_max; *before* has the last three."""
    rows, k = x.shape
    x = x.astype(np.float64)
    scale = alpha / (1 - alpha)
    lanes = x[:, :512].reshape(rows, 64, 8).sum(2) + x[:, 512:].reshape(rows, -1, 64).sum(1)
    local = lanes.reshape(rows, 8, 8).sum(2) / (k // 8)
    own = local.mean(1, keepdims=True)
    x = x - np.repeat((own - local) * scale, k // 8, axis=1)
    top = x.max(1, keepdims=True)
    if before is None:
        e = np.exp(x - top)
        return e, own, e.sum(1, keepdims=True), top, None
    in_mean, in_sum, in_max = before
    mean = (own + in_mean * (loop - 1)) / loop
    now, then = (own - mean) * scale, (in_mean - mean) * scale
    largest = np.maximum(now + top, then + in_max)
    e, factor = np.exp(x - (largest - now)), np.exp(in_max - largest + then)
    return e, mean, factor * in_sum + e.sum(1, keepdims=True), largest, factor


def run_on(parts, alpha, nbytes=60_000):
    """All *parts* one after the other, with the state in place; what is left of each."""
    rows, k = parts[0].shape
    seen = []

    def kernel():
        at = 0

        def room(dtype, elements):
            nonlocal at
            tensor = in_ub(np.zeros(elements, dtype), at)
            at += -(-tensor.nbytes // 32) * 32
            return tensor

        mean, total, largest = (room(single, rows * 8) for _ in range(3))
        factor = room(half, rows * 16)
        x = room(half, rows * k)
        tmp = LocalTensor(uint8, TPosition.VECCALC, at, nbytes)
        for number, part in enumerate(parts):
            x.view[:] = part.ravel()
            params = SoftMaxParams(rows, k, rows, k, number + 1, 8, alpha)
            state = mean, total, largest
            SoftmaxFlashV3(x, *state, x, factor, *state, tmp, params, is_update=number > 0)
            seen.append([each.view.astype(np.float64).reshape(rows, -1) for each in (x, *state, factor)])

    return seen, on_core(kernel)


@pytest.mark.parametrize(("rows", "k"), [(8, 512), (16, 576), (8, 1_024), (8, 2_112)])
def test_parts_give_what_the_formula_gives(rows, k):
    rng = np.random.default_rng(k)
    parts = [(rng.normal(size=(rows, k)) * 0.2 + shift).astype(half) for shift in (0, 1, -0.5)]
    seen, launched = run_on(parts, ALPHA)
    before = None
    for number, part in enumerate(parts):
        e, *state, factor = shifted(part, ALPHA, number + 1, before)
        before = state
        assert np.allclose(seen[number][0], e, rtol=2e-3, atol=1e-5)
        for got, expected in zip(seen[number][1:4], state, strict=True):
            assert np.allclose(got, np.broadcast_to(expected, (rows, 8)), rtol=1e-4, atol=1e-5)
        if factor is not None:
            assert np.allclose(seen[number][4], np.broadcast_to(factor, (rows, 16)), rtol=2e-3, atol=1e-6)
    assert found(launched) == []


def test_without_a_shift_it_is_softmax():
    x = np.random.default_rng(1).normal(size=(8, 512)).astype(half)
    (seen,), _ = run_on([x], 0.0)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    assert np.allclose(seen[0] / seen[2][:, :1], e / e.sum(1, keepdims=True), rtol=2e-3, atol=1e-6)


def test_a_small_buffer_takes_fewer_rows_at_once():
    parts = [np.random.default_rng(2).normal(size=(16, 512)).astype(half) for _ in range(2)]
    whole, once = run_on(parts, ALPHA)
    few, often = run_on(parts, ALPHA, nbytes=12_000)
    assert all(
        np.array_equal(a, b) for one, other in zip(whole, few, strict=True) for a, b in zip(one, other, strict=True)
    )
    exps = [sum(each.name == "Exp" for each in result.programs[0].instructions) for result in (once, often)]
    assert exps[0] < exps[1]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (SoftMaxParams(7, 512), "7 rows of 512 elements; src_m is a multiple of 8"),
        (SoftMaxParams(8, 448), "8 rows of 448 elements; .*src_k a multiple of 64, 512 or more"),
        (SoftMaxParams(8, 512, 8, 500), "ori_src_k is src_k"),
        (SoftMaxParams(8, 512, loop_cnt=0), "loop_cnt 1 or more"),
        (SoftMaxParams(8, 512, split_mean_cnt=4), "split_mean_cnt is 8"),
        (SoftMaxParams(8, 512, alpha=1.0), "alpha 1.0; it is 0 to less than 1"),
        (SoftMaxParams(16, 512), "SoftmaxFlashV3"),
    ],
)
def test_what_it_refuses(params, message):
    def kernel():
        x, state = LocalTensor(half, TPosition.VECCALC, 0, 8 * 512), LocalTensor(single, TPosition.VECCALC, 8_192, 64)
        factor = LocalTensor(half, TPosition.VECCALC, 16_384, 128)
        SoftmaxFlashV3(x, state, state, state, x, factor, state, state, state, params, is_update=True)

    with pytest.raises(KernelError, match=f"(?s){message}"):
        on_core(kernel)
