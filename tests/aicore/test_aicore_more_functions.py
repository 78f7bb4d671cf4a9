"""Functions beside NumPy: what goes with SoftMax, norms, Welford, quantisation, padding, DropOut."""

import numpy as np
import pytest
from cores import found, names
from instructions import bfloat16, half, on_core, single
from test_aicore_softmax import TOLERANCE, kernel_of, matrix, softmax

from device_model.aicore.core.names import TPosition
from device_model.aicore.core.tensors import LocalTensor, int8, int32, uint8
from device_model.aicore.functions.filtering import DropOut, DropOutShapeInfo
from device_model.aicore.functions.means import ClampMax, ClampMin, Fmod, ReduceMean, ReducePattern
from device_model.aicore.functions.norms import DeepNorm, GroupNorm, GroupNormShape
from device_model.aicore.functions.operands import NormTiling
from device_model.aicore.functions.padding import Pad, PadParams, UnPad, UnPadParams
from device_model.aicore.functions.quantising import AntiQuantShapeInfo, AscendAntiQuant, AscendQuant
from device_model.aicore.functions.softmax import SoftMaxShapeInfo
from device_model.aicore.functions.softmax_results import AdjustSoftMaxRes, LogSoftMax, SoftmaxFlash, SoftmaxGradFront
from device_model.aicore.functions.welford import (
    WelfordFinalize,
    WelfordFinalizePara,
    WelfordUpdate,
    WelfordUpdateParam,
)
from device_model.kernel.findings import KernelError

BOTH = pytest.mark.parametrize("dtype", [half, single], ids=str)


@BOTH
@pytest.mark.parametrize(("rows", "k", "n"), [(3, 16, 16), (9, 128, 128), (5, 208, 200)])
def test_the_front_of_the_gradient_is_a_sum_of_products(rows, k, n, dtype):
    grad, src = matrix(rows, k, dtype), matrix(rows, k, dtype, 2)
    shape = SoftMaxShapeInfo(rows, k, rows, n)
    seen, launched = kernel_of(
        lambda dst, grad, src, tmp: SoftmaxGradFront(dst, grad, src, tmp, shape),
        np.zeros((rows, 32 // dtype.itemsize), dtype), grad, src,
    )  # fmt: skip
    expected = (grad.astype(single) * src.astype(single))[:, :n].sum(-1, keepdims=True)
    assert np.allclose(seen[0].reshape(rows, -1), expected, rtol=TOLERANCE[dtype.itemsize], atol=2e-3)
    assert np.array_equal(seen[1], grad.ravel().astype(np.float64))  # it is only read
    assert found(launched) == []


@BOTH
def test_the_logarithm_of_softmax_has_the_base_10(dtype):
    rows, k = 7, 96
    x, blocks = matrix(rows, k, dtype), np.zeros((rows, 32 // dtype.itemsize), dtype)
    shape = SoftMaxShapeInfo(rows, k)
    seen, launched = kernel_of(
        lambda dst, sums, largest, src, tmp: LogSoftMax(dst, sums, largest, src, tmp, shape),
        np.zeros((rows, k), dtype), blocks, blocks, x,
    )  # fmt: skip
    e, sums, largest = softmax(x.astype(np.float64))
    tolerance = TOLERANCE[dtype.itemsize]
    assert np.allclose(seen[0].reshape(rows, k), np.log10(e / sums[:, None]), rtol=tolerance, atol=tolerance)
    assert np.allclose(seen[1].reshape(rows, -1), sums[:, None], rtol=tolerance)
    assert np.allclose(seen[2].reshape(rows, -1), largest[:, None], rtol=tolerance)
    assert found(launched) == []


def test_the_older_flash_softmax_divides_each_part():
    rows, k = 6, 64
    x, blocks = matrix(rows, 2 * k, single), np.zeros((rows, 8), single)
    shape = SoftMaxShapeInfo(rows, k)

    def body(first, second, sums, largest, scale, one, two, tmp):
        SoftmaxFlash(first, sums, largest, one, scale, sums, largest, tmp, False, shape)
        SoftmaxFlash(second, sums, largest, two, scale, sums, largest, tmp, True, shape)

    out = np.zeros((rows, k), single)
    seen, launched = kernel_of(body, out, out, blocks, blocks, blocks, x[:, :k].copy(), x[:, k:].copy())
    e, sums, _ = softmax(x.astype(np.float64))
    scale = seen[4].reshape(rows, 8)[:, :1]
    assert np.allclose(seen[0].reshape(rows, k) * scale, (e / sums[:, None])[:, :k], rtol=1e-5)
    assert np.allclose(seen[1].reshape(rows, k), (e / sums[:, None])[:, k:], rtol=1e-5)
    assert found(launched) == []
    with pytest.raises(KernelError, match="SoftmaxFlash of float16; it takes float32 here: use SoftmaxFlashV2"):
        kernel_of(lambda x, tmp: SoftmaxFlash(*[x] * 7, tmp, False, shape), x.astype(half))


@BOTH
def test_rows_whose_largest_element_has_certain_bits_get_a_number(dtype):
    rows, k = 4, 32
    x = matrix(rows, k, dtype)
    largest = np.repeat(np.array([1, -np.inf, 2, -np.inf]), 32 // dtype.itemsize).astype(dtype)
    bits = int(largest[32 // dtype.itemsize :].view(np.uint16 if dtype == half else np.uint32)[0])
    told = []

    def body(res, max_, tmp):
        told.append(AdjustSoftMaxRes(res, max_, bits, 0.5, SoftMaxShapeInfo(rows, k)))
        told.append(AdjustSoftMaxRes(res, max_, 12345, 0.5, SoftMaxShapeInfo(rows, k)))

    seen, launched = kernel_of(body, x, largest)
    expected = x.astype(np.float64)
    expected[[1, 3]] = 0.5
    assert np.array_equal(seen[0].reshape(rows, k), expected)
    assert told == [True, False]
    assert found(launched) == []


@BOTH
def test_welford_of_parts_is_mean_and_variance_of_the_row(dtype):
    length, parts = 128, 5
    x = matrix(parts, length, dtype)

    def body(mean, total, one, two, *rest):
        for part, tensor in enumerate(rest[:parts]):
            given = WelfordUpdateParam(1, length, length, 1 / (part + 1))
            WelfordUpdate(mean, total, mean, total, tensor, rest[-1], given)
        para = WelfordFinalizePara(parts, length, 0, length, 0, 0, 1 / length, 1 / (parts * length))
        WelfordFinalize(one, two, mean, total, rest[-1], para)

    zeros, one = np.zeros(length, single), np.zeros(8, single)
    seen, launched = kernel_of(body, zeros, zeros, one, one, *x)
    row = x.astype(np.float64)
    assert np.allclose(seen[2][0], row.mean(), atol=1e-6)
    assert np.allclose(seen[3][0], row.var(), rtol=1e-5)
    assert found(launched) == []


@pytest.mark.parametrize("given", ["lengths", "counts"])
def test_welford_knows_that_the_last_part_was_shorter(given):
    length, tail = 64, 20
    x = matrix(3, length, single)
    counts = np.full(length, 2, int32)
    counts[:tail] = 3

    def body(mean, total, one, two, counts, *rest):
        for part, tensor in enumerate(rest[:3]):
            count = tail if part == 2 else length
            WelfordUpdate(
                mean, total, mean, total, tensor, rest[-1], WelfordUpdateParam(1, length, count, 1 / (part + 1))
            )
        para = WelfordFinalizePara(3, length, 3, tail, 2, length - tail, 1 / length, 1 / (2 * length + tail))
        WelfordFinalize(one, two, mean, total, *((counts,) if given == "counts" else ()), rest[-1], para)

    zeros, one = np.zeros(length, single), np.zeros(8, single)
    seen, launched = kernel_of(body, zeros, zeros, one, one, counts, *x)
    row = x.astype(np.float64).ravel()[: 2 * length + tail]
    assert np.allclose([seen[2][0], seen[3][0]], [row.mean(), row.var()], rtol=1e-5, atol=1e-6)
    assert found(launched) == []


@BOTH
def test_deep_norm_is_layer_norm_of_a_sum(dtype):
    rows, h = 5, 64
    x, gx, gamma, beta = (matrix(each, h, dtype, seed) for seed, each in enumerate((rows, rows, 1, 1)))
    zeros, column = np.zeros((rows, h), dtype), np.zeros(16, dtype)
    seen, launched = kernel_of(
        lambda dst, mean, rstd, src, gx, beta, gamma, tmp: DeepNorm(
            dst, mean, rstd, src, gx, beta, gamma, tmp, 0.5, 1e-3, NormTiling(1, rows, h)),
        zeros, column, column, x, gx, beta, gamma,
    )  # fmt: skip
    total = (x * dtype.type(0.5) + gx).astype(np.float64)
    rstd = 1 / np.sqrt(total.var(-1, keepdims=True) + 1e-3)
    expected = (total - total.mean(-1, keepdims=True)) * rstd * gamma + beta
    tolerance = 10 * TOLERANCE[dtype.itemsize]
    assert np.allclose(seen[0].reshape(rows, h), expected, rtol=tolerance, atol=tolerance)
    assert np.allclose(seen[1][:rows], total.mean(-1), atol=tolerance)
    assert np.allclose(seen[2][:rows], rstd[:, 0], rtol=tolerance)
    assert found(launched) == []


@BOTH
def test_group_norm_has_a_factor_for_each_channel(dtype):
    shape = GroupNormShape(2, 6, 16, 2)
    n, c, hw, groups = shape
    x, gamma, beta = matrix(n * c, hw, dtype), matrix(1, 16, dtype, 2), matrix(1, 16, dtype, 3)
    column = np.zeros(16, dtype)
    seen, launched = kernel_of(
        lambda out, mean, variance, x, gamma, beta, tmp: GroupNorm(
            out, mean, variance, x, gamma, beta, tmp, 1e-3, shape),
        np.zeros((n * c, hw), dtype), column, column, x, gamma, beta,
    )  # fmt: skip
    wide = x.astype(np.float64).reshape(n, groups, -1)
    mean, variance = wide.mean(-1, keepdims=True), wide.var(-1, keepdims=True)
    normal = ((wide - mean) / np.sqrt(variance + 1e-3)).reshape(n, c, hw)
    expected = normal * gamma[0, :c].astype(float)[:, None] + beta[0, :c].astype(float)[:, None]
    tolerance = 10 * TOLERANCE[dtype.itemsize]
    assert np.allclose(seen[0].reshape(n, c, hw), expected, rtol=tolerance, atol=tolerance)
    assert np.allclose(seen[1][: n * groups], mean.ravel(), atol=tolerance)
    assert np.allclose(seen[2][: n * groups], variance.ravel(), rtol=tolerance)
    assert found(launched) == []


@BOTH
@pytest.mark.parametrize("form", ["numbers", "columns", "columns and an offset"])
def test_floats_become_int8_with_a_factor_and_an_offset(dtype, form):
    rows, n = 6, 64
    x = matrix(rows, n, dtype) * dtype.type(9)
    scale, offset = matrix(1, n, dtype, 2), matrix(1, n, dtype, 3)

    def body(dst, src, scale, offset, tmp):
        if form == "numbers":
            AscendQuant(dst, src, tmp, 1.5, -2.0, rows * n)
        elif form == "columns":
            AscendQuant(dst, src, tmp, scale, offset, n, n, rows * n)
        else:
            AscendQuant(dst, src, tmp, scale, 3.0, n, rows * n)

    seen, launched = kernel_of(body, np.zeros((rows, n), int8), x, scale, offset, nbytes=1024)
    factor, added = {"numbers": (1.5, -2.0), "columns": (scale, offset)}.get(form, (scale, 3.0))
    as_half = [np.asarray(each).astype(half) for each in (x, factor, added)]
    expected = np.rint(as_half[0] * as_half[1] + as_half[2]).clip(-128, 127)
    assert np.array_equal(seen[0].reshape(rows, n), expected)
    assert found(launched) == []


@pytest.mark.parametrize("dtype", [half, bfloat16], ids=str)
@pytest.mark.parametrize("form", ["numbers", "groups", "no offset"])
def test_int8_becomes_floats_with_an_offset_and_a_factor(dtype, form):
    k, n = 6, 32
    x = np.random.default_rng(1).integers(-128, 128, (k, n), int8)
    scale, offset = matrix(2, n, dtype, 2), matrix(2, n, dtype, 3)
    info = AntiQuantShapeInfo(2, n, 2, n)

    def body(dst, src, offset, scale, tmp):
        if form == "numbers":
            AscendAntiQuant(dst, src, 3.0, 0.5, tmp, k)
        elif form == "groups":
            AscendAntiQuant(dst, src, offset, scale, tmp, k, info)
        else:
            AscendAntiQuant(dst, src, scale, tmp, k, info)

    seen, launched = kernel_of(body, np.zeros((k, n), dtype), x, offset, scale)
    wide = [np.repeat(each.astype(single), 3, axis=0) for each in (offset, scale)]
    added, factor = {"numbers": (3.0, 0.5), "groups": tuple(wide)}.get(form, (0.0, wide[1]))
    assert np.allclose(seen[0].reshape(k, n), (x + added) * factor, rtol=1e-2, atol=1e-1)
    assert found(launched) == []


@pytest.mark.parametrize("dtype", [half, single, int32], ids=str)
@pytest.mark.parametrize(
    ("width", "params"), [(5, PadParams(0, 3, 7)), (5, PadParams(2, 1, 7)), (8, PadParams(0, 2, 7))]
)
def test_rows_are_filled_up_to_whole_blocks(width, params, dtype):
    dtype = np.dtype(dtype)
    per_block = 32 // dtype.itemsize
    width = per_block if width == 8 else width
    x = (np.arange(4 * width) + 1).astype(dtype).reshape(4, width)
    room = np.zeros(-(-x.size // per_block) * per_block, dtype)
    room[: x.size] = x.ravel()
    out = np.zeros((4, per_block), dtype)
    seen, launched = kernel_of(
        lambda dst, src, tmp: Pad(dst, src, tmp, params=params, height=4, width=width), out, room
    )  # fmt: skip
    left, right, value = params
    expected = x.astype(float).copy()
    if width == per_block:
        expected[:, -right:] = value
    else:
        expected = np.pad(expected, ((0, 0), (left, right)), constant_values=value)
    assert np.array_equal(seen[0].reshape(4, per_block)[:, : expected.shape[1]], expected)
    assert found(launched) == []


@pytest.mark.parametrize("dtype", [half, single, int32], ids=str)
def test_rows_lose_what_filled_them_up(dtype):
    x = np.arange(6 * 32).astype(dtype).reshape(6, 32)
    out = np.zeros(6 * 32, dtype)
    seen, launched = kernel_of(
        lambda dst, src, tmp: UnPad(dst, src, tmp, params=UnPadParams(0, 3), height=6, width=32), out, x
    )  # fmt: skip
    assert np.array_equal(seen[0][: 6 * 29].reshape(6, 29), x[:, :29].astype(float))
    assert found(launched) == []


@BOTH
@pytest.mark.parametrize("form", ["bytes", "bytes with padding", "bits", "bits with padding"])
def test_drop_out_keeps_and_enlarges_what_the_mask_says(form, dtype):
    rows, n = 4, 256
    x = matrix(rows, n, dtype)
    kept = np.random.default_rng(5).random((rows, n)) < 0.7
    mask = np.packbits(kept, axis=-1, bitorder="little") if "bits" in form else kept.astype(uint8)
    if "padding" in form:
        mask = np.pad(mask, ((0, 0), (0, 32)), constant_values=1)
    info = DropOutShapeInfo(rows, n, mask.shape[1])
    seen, launched = kernel_of(
        lambda dst, src, mask, tmp: DropOut(dst, src, mask, tmp, 0.7, info), np.zeros((rows, n), dtype), x, mask
    )
    assert np.allclose(seen[0].reshape(rows, n), np.where(kept, x / dtype.type(0.7), 0), rtol=2e-3, atol=1e-6)
    assert found(launched) == []


def test_means_of_rows_and_columns():
    x = matrix(5, 24, single)
    for pattern, axis, size in ((ReducePattern.AR, 1, 8), (ReducePattern.RA, 0, 24)):
        seen, launched = kernel_of(
            lambda dst, src, tmp, pattern=pattern: ReduceMean(dst, src, tmp, (5, 24), True, pattern=pattern),
            np.zeros(size, single), x,
        )  # fmt: skip
        expected = x.mean(axis)
        assert np.allclose(seen[0][: len(expected)], expected, atol=1e-6)
        assert found(launched) == []


@BOTH
def test_remainders_and_limits(dtype):
    x, y = matrix(1, 64, dtype), np.abs(matrix(1, 64, dtype, 2)) + dtype.type(0.5)

    def body(rest, low, high, x, y, tmp):
        Fmod(rest, x, y, tmp, 64)
        ClampMax(high, x, tmp, 0.25, 64)
        ClampMin(low, x, 0.25, 64)

    zeros = np.zeros(64, dtype)
    seen, launched = kernel_of(body, zeros, zeros, zeros, x, y)
    assert np.allclose(seen[0], np.fmod(x, y).ravel().astype(float), atol=2e-3 if dtype == half else 1e-6)
    assert np.array_equal(seen[2], np.minimum(x, dtype.type(0.25)).ravel().astype(float))
    assert np.array_equal(seen[1], np.maximum(x, dtype.type(0.25)).ravel().astype(float))
    assert found(launched) == []


def test_a_larger_buffer_means_fewer_instructions():
    x = matrix(16, 64, single)

    def kernels(nbytes):
        zeros = np.zeros(1_024, int8)
        return kernel_of(lambda dst, src, tmp: AscendQuant(dst, src, tmp, 2.0, 1.0, 1_024), zeros, x, nbytes=nbytes)

    (few, large), (many, small) = kernels(4_096), kernels(256)
    assert few[0].tolist() == many[0].tolist()
    assert names(large).count("Muls") == 1
    assert names(small).count("Muls") == 8


def refused(what, message, error=KernelError):
    with pytest.raises(error, match=message):
        on_core(what)


def tensor(dtype, size, at=0):
    return LocalTensor(dtype, TPosition.VECCALC, at, size)


def test_what_these_functions_do_not_have_is_refused():
    def floats(size=64, at=0):
        return tensor(single, size, at)

    def tmp():
        return tensor(uint8, 1_024, 100_000)

    shape = SoftMaxShapeInfo(1, 64)
    refused(
        lambda: SoftmaxGradFront(floats(4), floats(), floats(), tmp(), shape),
        r"dst has 4 elements; it has a block of 32 bytes",
    )
    refused(
        lambda: AdjustSoftMaxRes(floats(), floats(8), 0, 0, SoftMaxShapeInfo(2, 32), step_size_mode=9),
        r"step_size_mode 9; max_tensor has 8 elements",
    )
    refused(
        lambda: WelfordUpdate(*[floats()] * 5, tmp(), WelfordUpdateParam(2, 64, 64, 1.0)),
        r"rn_length is 1, ab_length whole blocks",
    )
    refused(
        lambda: WelfordFinalize(*[floats()] * 4, tmp(), WelfordFinalizePara(1, 64, 1, 60, 0, 4, 1 / 64, 1 / 64)),
        r"tail_count_length 0 where tail_count is",
    )
    refused(lambda: WelfordFinalize(*[floats()] * 7, None), "takes \\(WelfordFinalizePara\\)", TypeError)
    refused(lambda: AscendQuant(tensor(int8, 64), floats(), 1.0, floats()), "a scale tensor goes with it")
    refused(lambda: AscendQuant(tensor(int8, 64), floats(), floats(48), 0.0, 48, 48), "a row is whole blocks of 32")
    refused(lambda: AscendQuant(tensor(int8, 64), floats(), 1.0, 0.0, 65), "a cal_count of 65; src has 64")
    refused(lambda: AscendQuant(tensor(uint8, 64), floats(), 1.0, 0.0), "dst is uint8; it takes int8")
    refused(
        lambda: AscendAntiQuant(tensor(half, 64), tensor(int8, 64), tensor(half, 64), 2),
        r"AscendAntiQuant with scale of 0 x 0 for 2 x 32; it has a row of 32 elements",
    )
    refused(lambda: AscendAntiQuant(tensor(half, 64), tensor(int8, 64), 2), "takes \\(offset, scale, k", TypeError)
    for params, width in ((PadParams(1, 0), 8), (PadParams(0, 0), 8), (PadParams(0, 4), 5), (PadParams(-1, 1), 5)):
        refused(
            lambda params=params, width=width: Pad(floats(), floats(), params=params, height=1, width=width), "Pad of"
        )
    refused(
        lambda: UnPad(floats(), floats(), params=UnPadParams(0, 8), height=1, width=16),
        r"rows are whole blocks of 32 bytes, left_pad is 0, and right_pad 1 to 7",
    )
    refused(
        lambda: DropOut(floats(), floats(), tensor(uint8, 64), 1.0, DropOutShapeInfo(1, 64, 64)),
        "keep_prob is between 0 and 1",
    )
    refused(
        lambda: DropOut(floats(), floats(), tensor(uint8, 64), 0.5, DropOutShapeInfo(1, 64, 9)),
        r"rows of the mask have 8 bytes, or more in whole blocks of 32",
    )
    refused(lambda: ReduceMean(floats(), floats(), (8, 7), True), "rows are whole blocks of 32 bytes")
    refused(lambda: ReduceMean(floats(), floats(), (8, 8)), "takes src_shape and src_inner_pad", TypeError)
    refused(lambda: ClampMax(floats(), floats(), 1.0), "takes a number and a count", TypeError)
    refused(
        lambda: GroupNorm(*[floats()] * 6, tmp(), 0.1, GroupNormShape(1, 3, 16, 2)),
        "group_num divides c",
    )
    refused(
        lambda: DeepNorm(*[floats()] * 7, tmp(), 1, 0.1, NormTiling(1, 1, 60)),
        r"DeepNorm of 1 rows of 60 elements.*whole blocks of 32 bytes",
    )
