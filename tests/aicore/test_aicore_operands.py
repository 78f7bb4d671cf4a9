"""Functions take the temporary buffer, the tiling and their sizes in the order in which kernels in C++ pass them."""

import numpy as np
import pytest
from cores import found, names
from instructions import half, in_ub, on_core, single

from device_model.aicore.core.names import TPosition
from device_model.aicore.core.tensors import LocalTensor, ShapeInfo, uint8
from device_model.aicore.flags.queues import TBuf
from device_model.aicore.flags.tpipe import TPipe
from device_model.aicore.functions.norms import LayerNorm, Normalize, NormalizePara, RmsNorm
from device_model.aicore.functions.operands import NormTiling
from device_model.aicore.functions.quantised import AscendDequant, DeQuantMode, DequantParams
from device_model.aicore.functions.quantising import AntiQuantShapeInfo, AscendAntiQuant
from device_model.aicore.functions.softmax import SimpleSoftMax, SoftMax, SoftmaxFlashV2, SoftMaxShapeInfo
from device_model.aicore.functions.softmax_results import LogSoftMax, SoftmaxFlash, SoftmaxGrad, SoftmaxGradFront
from device_model.aicore.functions.topk import TopK, TopKInfo
from device_model.aicore.functions.welford import WelfordUpdate
from device_model.kernel.findings import KernelError

ROWS, K = 6, 64
SHAPE = SoftMaxShapeInfo(ROWS, K)
NORM = NormTiling(1, ROWS, K)
TILING = {"srcM": ROWS}  # whatever the host has made of it
X = np.random.default_rng(7).normal(size=(ROWS, K)).astype(single)


def run(body, *arrays):
    """Run `body(*tensors, tmp)`; what the tensors hold then, and the names of the instructions."""
    seen = []

    def kernel():
        TPipe().InitBuffer(TBuf(TPosition.VECCALC), 131_072)  # the tensors lie here, and the rest of UB is free
        at, tensors = 0, []
        for array in arrays:
            tensors.append(in_ub(array, at))
            at += -(-array.nbytes // 32) * 32
        body(*tensors, LocalTensor(uint8, TPosition.VECCALC, 65_536, 65_536))
        seen.extend(tensor.view.tolist() for tensor in tensors)

    result = on_core(kernel)
    assert found(result) == []
    return seen, names(result)


BLOCKS = np.ones((ROWS, 8), single)
FUNCTIONS = {
    "SoftMax": (lambda t, *rest: SoftMax(t[0], t[1], *rest), [X, X]),
    "SoftMax with sums": (lambda t, *rest: SoftMax(*t, *rest), [X, BLOCKS, BLOCKS, X]),
    "SimpleSoftMax": (lambda t, *rest: SimpleSoftMax(*t, *rest), [X, BLOCKS, BLOCKS, X]),
    "LogSoftMax": (lambda t, *rest: LogSoftMax(*t, *rest), [X, BLOCKS, BLOCKS, X]),
    "SoftmaxFlashV2": (
        lambda t, *rest: SoftmaxFlashV2(*t, *rest, is_update=True),
        [X, BLOCKS, BLOCKS, X, BLOCKS, BLOCKS, BLOCKS],
    ),
    "SoftmaxFlash": (lambda t, *rest: SoftmaxFlash(*t, *rest), [X, BLOCKS, BLOCKS, X, BLOCKS, BLOCKS, BLOCKS]),
    "SoftmaxGrad": (lambda t, *rest: SoftmaxGrad(*t, *rest), [X, X, X]),
    "SoftmaxGradFront": (lambda t, *rest: SoftmaxGradFront(*t, *rest), [BLOCKS, X, X]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_softmax_takes_a_tiling_which_has_no_effect_and_the_shape_that_src_carries(name):
    call, arrays = FUNCTIONS[name]

    def carried(tensors):
        for tensor in tensors:
            tensor.SetShapeInfo(ShapeInfo((2, ROWS // 2, K)))
        return tensors

    full = run(lambda *t: call(t[:-1], t[-1], TILING, SHAPE), *arrays)
    for shorter in (
        lambda *t: call(t[:-1], t[-1], None, SHAPE),
        lambda *t: call(t[:-1], t[-1], SHAPE),
        lambda *t: call(carried(t[:-1]), t[-1], TILING),
    ):
        assert run(shorter, *arrays) == full
    # The rest of UB is another size of buffer, so there may be other instructions.
    for without in (lambda *t: call(t[:-1], TILING, SHAPE), lambda *t: call(t[:-1], None, None, SHAPE)):
        assert np.allclose(np.concatenate(run(without, *arrays)[0]), np.concatenate(full[0]), rtol=1e-5, atol=1e-6)


def test_the_shape_that_src_carries_may_be_a_padded_one():
    def body(dst, src, tmp):
        src.SetShapeInfo(ShapeInfo((ROWS, K), (ROWS, 50)))
        SoftMax(dst, src, tmp, TILING)

    padded, _ = run(body, np.zeros_like(X), X)
    e = np.exp(X[:, :50] - X[:, :50].max(-1, keepdims=True))
    assert np.allclose(np.reshape(padded[0], X.shape)[:, :50], e / e.sum(-1, keepdims=True), rtol=1e-5)


def test_flags_of_the_softmax_family_stand_between_the_tiling_and_the_shape():
    front, _ = run(lambda dst, g, src, tmp: SoftmaxGrad(dst, g, src, tmp, TILING, True, SHAPE), BLOCKS, X, X)
    whole, _ = run(lambda dst, g, src, tmp: SoftmaxGrad(dst, g, src, tmp, TILING, False, SHAPE), X, X, X)
    sums = (X * X).sum(-1, keepdims=True)
    assert np.allclose(np.reshape(front[0], (ROWS, 8)), sums, rtol=1e-5)
    assert np.allclose(np.reshape(whole[0], (ROWS, K)), (X - sums) * X, rtol=1e-4, atol=1e-5)
    arrays = FUNCTIONS["SoftmaxFlash"][1]
    first, later = (
        run(lambda *t, flag=flag: SoftmaxFlash(*t, TILING, flag, SHAPE), *arrays)[0] for flag in (False, True)
    )
    e = np.exp(X - X.max(-1, keepdims=True))
    assert np.allclose(np.reshape(first[1], (ROWS, 8)), e.sum(-1, keepdims=True), rtol=1e-5)
    largest = np.maximum(X.max(-1, keepdims=True), 1)
    sums = np.exp(1 - largest) + np.exp(X - largest).sum(-1, keepdims=True)
    assert np.allclose(np.reshape(later[1], (ROWS, 8)), sums, rtol=1e-5)


def test_topk_takes_a_tiling_between_k_and_the_rows():
    x = np.random.default_rng(3).permutation(64).astype(single).reshape(2, 32)
    out, places = np.zeros((2, 8), single), np.zeros((2, 8), np.int32)

    def called(*numbers):
        return run(lambda v, i, src, tmp: TopK(v, i, src, None, None, tmp, *numbers), out, places, x)

    info = TopKInfo(2, 32, 32)
    seen, issued = called(5, TILING, info, True)
    assert np.reshape(seen[0], (2, 8))[:, :5].tolist() == (-np.sort(-x))[:, :5].tolist()
    assert (seen, issued) == called(5, info)
    smallest, _ = called(5, TILING, info, False)
    assert np.reshape(smallest[0], (2, 8))[:, :5].tolist() == np.sort(x)[:, :5].tolist()


def test_norms_take_their_numbers_and_then_a_tiling_of_batches():
    weights, sums = np.linspace(1, 2, K).astype(single), np.zeros(8, single)
    arrays = np.zeros_like(X), sums, sums, X, weights, weights
    tiling = NormTiling(2, ROWS // 2, K)
    mean, spread = X.mean(-1, keepdims=True), X.std(-1, keepdims=True)
    expected = (X - mean) / np.sqrt(spread**2 + 0.5) * weights + weights
    for rest in (lambda tmp: (tmp, 0.5, tiling), lambda tmp: (0.5, tiling), lambda tmp: (None, 0.5, tiling)):
        seen, _ = run(lambda *t, rest=rest: LayerNorm(*t[:-1], *rest(t[-1])), *arrays)
        assert np.allclose(np.reshape(seen[0], X.shape), expected, rtol=1e-4, atol=1e-4)
    seen, _ = run(lambda dst, src, gamma, tmp: RmsNorm(dst, src, gamma, tmp, 0.5, tiling), np.zeros_like(X), X, weights)
    expected = X / np.sqrt((X * X).mean(-1, keepdims=True) + 0.5) * weights
    assert np.allclose(np.reshape(seen[0], X.shape), expected, rtol=1e-4, atol=1e-4)


COUNTS = np.arange(4 * 16, dtype=np.int32).reshape(4, 16)
FACTORS = np.linspace(0.5, 2, 16).astype(single)


@pytest.mark.parametrize("rest", [(DequantParams(4, 16, 16),), ((4, 16, 16),), (64,), ()], ids=str)
def test_dequant_takes_its_sizes_as_parameters_as_a_count_or_from_its_tensors(rest):
    seen, _ = run(lambda dst, src, scale, tmp: AscendDequant(dst, src, scale, tmp, *rest), *DEQUANT)
    assert np.allclose(np.reshape(seen[0], (4, 16)), COUNTS * FACTORS)
    seen, _ = run(lambda dst, src, scale, _: AscendDequant(dst, src, scale, *rest), *DEQUANT)
    assert np.allclose(np.reshape(seen[0], (4, 16)), COUNTS * FACTORS)


DEQUANT = np.full((4, 16), -1, single), COUNTS, FACTORS


@pytest.mark.parametrize("count", [8, 16, 40])
def test_dequant_of_a_count_leaves_the_rest_alone(count):
    seen, _ = run(lambda dst, src, scale, tmp: AscendDequant(dst, src, scale, tmp, count), *DEQUANT)
    expected = (COUNTS * FACTORS).ravel()
    expected[count:] = -1
    assert np.allclose(seen[0], expected)


def test_antiquant_takes_the_rows_and_the_shapes_behind_the_factors():
    x = np.arange(-64, 64, dtype=np.int8).reshape(4, 32)
    factors = np.linspace(0.5, 2, 32).astype(half)
    info = AntiQuantShapeInfo(1, 32, 1, 32)
    arrays = np.zeros((4, 32), half), x, factors, factors
    seen, _ = run(lambda dst, src, offset, scale, tmp: AscendAntiQuant(dst, src, offset, scale, tmp, 4, info), *arrays)
    expected = ((x.astype(half) + factors) * factors).astype(np.float64)
    assert np.allclose(np.reshape(seen[0], (4, 32)), expected, rtol=2e-3)
    numbers, _ = run(lambda dst, src, *_: AscendAntiQuant(dst, src, 3.0, 0.5, 4), *arrays)
    assert np.allclose(np.reshape(numbers[0], (4, 32)), (x + 3.0) * 0.5)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda t, tmp: SoftMax(t, t, tmp, TILING), KernelError, "SoftMax without a shape; give it a SoftMaxShapeInfo"),
        (lambda t, tmp: SoftMax(t, t, tmp, TILING, (6, 64)), TypeError, r"\(tmp, tiling, SoftMaxShapeInfo\) behind"),
        (lambda t, tmp: SoftMax(t, t, TILING, tmp, SHAPE), TypeError, "SoftMax takes .*, not "),
        (lambda t, tmp: SoftmaxGrad(t, t, t, tmp, TILING, 1, SHAPE), TypeError, "SoftmaxGrad takes"),
        (lambda t, tmp: RmsNorm(t, t, t, tmp, NORM), TypeError, r"RmsNorm takes \(tmp, epsilon, NormTiling\) behind"),
        (lambda t, tmp: RmsNorm(t, t, t, NORM, 0.5), TypeError, "RmsNorm takes"),
        (lambda t, tmp: RmsNorm(t, t, t, tmp, t, NORM), TypeError, "RmsNorm takes"),
        (lambda t, tmp: RmsNorm(t, t, t), TypeError, "RmsNorm takes"),
        (lambda t, tmp: RmsNorm(t, t, t, 0.1, 0.5, NORM), KernelError, "RmsNorm: the temporary buffer is 0.1"),
        (lambda t, tmp: Normalize(*[t] * 7, tmp, NormalizePara(1, 8, 8)), TypeError, "epsilon, NormalizePara"),
        (lambda t, tmp: WelfordUpdate(*[t] * 5, tmp), TypeError, r"takes \(tmp, WelfordUpdateParam\) behind"),
        (lambda t, tmp: TopK(t, t, t, None, None), TypeError, "TopK takes k, tiling, TopKInfo and is_largest"),
        (lambda t, tmp: TopK(t, t, t, None, None, tmp, 5, TILING), TypeError, "TopK takes k, tiling, TopKInfo"),
        (lambda t, tmp: AscendDequant(t, t, 1.0, tmp, 8), TypeError, "a number for deq_scale takes DequantParams"),
        (lambda t, tmp: AscendDequant(t, t, t, tmp, SHAPE, 3), TypeError, r"AscendDequant takes \(tmp, params\)"),
        (lambda t, tmp: AscendDequant(t, t, t, tmp, (6, 64)), TypeError, r"AscendDequant takes \(tmp, params\)"),
        (lambda t, tmp: AscendDequant(t, t, t, tmp, 1.5), TypeError, r"AscendDequant takes \(tmp, params\)"),
        (lambda t, tmp: AscendDequant(t, t, t[:12], tmp), KernelError, "rows of 12: whole blocks of 32 bytes"),
        (lambda t, tmp: AscendDequant(t, t, t, tmp, 385), KernelError, "cal_count is 1 to 384"),
    ],
)
def test_operands_in_another_order_are_refused_by_name(call, error, message):
    with pytest.raises(error, match=f"(?s){message}"):
        run(call, X)


def test_dequant_of_one_row_in_the_vendor_s_order_follows_its_mode():
    arrays = np.zeros(64, single), COUNTS, FACTORS
    for mode, used in ((DeQuantMode.DEQUANT_WITH_SINGLE_ROW, 64), (DeQuantMode.DEQUANT_WITH_MULTI_ROW, 16)):
        seen, _ = run(
            lambda dst, src, scale, tmp, mode=mode: AscendDequant(dst, src, scale, tmp, (1, 64, 16), mode=mode), *arrays
        )
        assert np.allclose(seen[0][:used], (COUNTS * FACTORS).ravel()[:used])
