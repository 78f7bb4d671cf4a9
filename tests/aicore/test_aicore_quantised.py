"""AscendDequant: integers with a factor for each column."""

import ml_dtypes
import numpy as np
import pytest
from cores import found, names
from instructions import bfloat16, half, in_ub, on_core, single

from device_model.aicore.core.names import TPosition
from device_model.aicore.core.tensors import LocalTensor, uint8
from device_model.aicore.functions.quantised import AscendDequant, DeQuantMode, DequantParams
from device_model.kernel.findings import KernelError


def dequantised(dtype, x, factors, params, nbytes=20_000, **options):
    """The rows of dst, whole blocks each, and the launch."""
    seen = []
    apart = -(-params.n * dtype.itemsize // 32) * 32 // dtype.itemsize

    def kernel():
        dst = in_ub(np.zeros(max(params.m, 1) * apart, dtype), 0)
        scale = in_ub(factors, 65_536) if isinstance(factors, np.ndarray) else factors
        tmp = LocalTensor(uint8, TPosition.VECCALC, 98_304, nbytes)
        AscendDequant(dst, in_ub(x, 32_768), scale, tmp, params, **options)
        seen.append(dst.view.astype(np.float64))

    result = on_core(kernel)
    return seen[0].reshape(-1, apart), result


def words(factors):
    """Floats in the lower halves of words."""
    return factors.astype(np.float32).view(np.uint32).astype(np.uint64) | np.uint64(1 << 40)


@pytest.mark.parametrize("shape", [(5, 8, 8), (3, 64, 50), (40, 136, 136), (1, 24, 9)])
@pytest.mark.parametrize(
    ("dtype", "kind"),
    [(half, "words"), (single, "float32"), (single, "bfloat16"), (bfloat16, "float32"), (bfloat16, "bfloat16")],
)
def test_each_column_has_its_factor(dtype, kind, shape):
    m, n, used = shape
    x = np.random.default_rng(n).integers(-900, 900, (m, n)).astype(np.int32)
    factors = np.linspace(0.1, 2, used).astype(np.float32)
    given = words(factors) if kind == "words" else factors.astype(ml_dtypes.bfloat16) if kind == "bfloat16" else factors
    exact = (factors if kind == "words" else given).astype(np.float64)
    result, launched = dequantised(dtype, x, given, DequantParams(m, n, used), mode=DeQuantMode.DEQUANT_WITH_MULTI_ROW)
    tolerance = {half: 1e-3, single: 1e-6, bfloat16: 8e-3}[dtype]
    assert np.allclose(result[:, :used], x[:, :used] * exact, rtol=tolerance, atol=tolerance)
    assert found(launched) == []


def test_one_number_is_the_factor_of_all_and_a_small_buffer_means_more_pieces():
    x = np.arange(6 * 32, dtype=np.int32).reshape(6, 32)
    whole, once = dequantised(single, x, 0.5, DequantParams(6, 32, 32))
    parts, often = dequantised(single, x, 0.5, DequantParams(6, 32, 32), 2 * 128)
    assert whole.tolist() == parts.tolist() == (x * 0.5).tolist()
    assert [names(each).count("Cast") for each in (once, often)] == [1, 3]


def test_a_single_row_is_several_of_cal_count_elements():
    x = np.arange(32, dtype=np.int32)
    factors = np.arange(1, 9, dtype=np.float32)
    result, _ = dequantised(single, x, factors, DequantParams(1, 32, 8))
    assert result.reshape(4, 8).tolist() == (x.reshape(4, 8) * factors).tolist()


X = np.zeros((2, 16), np.int32)


@pytest.mark.parametrize(
    ("dtype", "factors", "params", "message"),
    [
        (half, np.ones(16, np.float32), (2, 16, 16), "to float16 with factors float32.*they are uint64"),
        (half, 0.5, (2, 16, 16), "factors number"),
        (single, np.ones(8, np.float32), (2, 16, 9), "deq_scale has 8 elements"),
        (single, 0.5, (2, 12, 9), "in blocks of 32 bytes"),
        (single, 0.5, (2, 16, 17), "n is at least cal_count"),
        (single, 0.5, (3, 16, 16), "src has 32 elements, and needs 48"),
    ],
)
def test_what_it_refuses(dtype, factors, params, message):
    with pytest.raises(KernelError, match=f"(?s){message}"):
        dequantised(dtype, X, factors, DequantParams(*params))
