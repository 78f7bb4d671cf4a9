"""Convolution, TopK and attention of published rows (rows/convolutions.py, rows/largest.py, rows/pto_attention.py)
against NumPy, and their words.
"""

import numpy as np
import pytest

from device_model.aicore.core.names import KernelType
from device_model.aicore.core.tensors import half
from device_model.aicore.runner import run
from device_model.profile import load
from tests.bench.rows.convolutions import Convolution, arguments, convolve
from tests.bench.rows.largest import arguments as rows_of
from tests.bench.rows.largest import fits, largest
from tests.bench.rows.products import single
from tests.bench.rows.pto_attention import attention, ring_bytes, tile_of
from tests.bench.rows.published import UnknownRowError, kernel_of, predicted

SPEC = load("ascend910c").aicore


@pytest.mark.parametrize("size", [(1, 1), (3, 3), (5, 3)])
def test_a_convolution_equals_numpy(size):
    what, rng = Convolution(2, 2, 9, 20, 96, size), np.random.default_rng(1)
    x, weights, out = arguments(what)
    x, weights = (rng.normal(size=each.shape).astype(half) for each in (x, 0.1 * weights))
    result = run(convolve, 4, (x, weights, out, what), SPEC, kind=KernelType.AIC_ONLY)
    assert not list(result.findings)
    (high, wide), (batch, channels, rows, columns) = size, (2, 32, 9, 20)
    image = x.astype(np.float64).transpose(0, 1, 4, 2, 3).reshape(batch, channels, rows, columns)
    image = np.pad(image, ((0, 0), (0, 0), (high // 2,) * 2, (wide // 2,) * 2))
    taps = weights.astype(np.float64).reshape(2, high, wide, 6, 16, 16).transpose(3, 4, 0, 5, 1, 2)
    taps = taps.reshape(96, channels, high, wide)
    exact = sum(
        np.einsum("bchw,nc->bnhw", image[:, :, i : i + rows, j : j + columns], taps[:, :, i, j])
        for i in range(high)
        for j in range(wide)
    )
    found = out.astype(np.float64).transpose(0, 1, 4, 2, 3).reshape(exact.shape)
    assert np.allclose(found, exact, rtol=2e-3, atol=2e-2)


@pytest.mark.parametrize(("dtype", "columns", "k"), [(single, 352, 40), (half, 352, 37), (single, 128, 128)])
def test_the_largest_of_each_row_and_where_they_are(dtype, columns, k):
    x, *rest = rows_of(11, columns, columns + 32, k, dtype)
    x = np.random.default_rng(1).integers(-999, 999, x.shape).astype(dtype)
    result = run(largest, 3, (x, *rest), SPEC)
    assert not list(result.findings)
    places = np.argsort(-x[:, :columns], axis=1, kind="stable")[:, :k]
    assert np.array_equal(rest[2], places)
    assert np.array_equal(rest[1], np.take_along_axis(x, places, 1))


@pytest.mark.parametrize(
    ("heads", "queries", "keys", "tile"),
    [(2, 128, 1152, 128), (1, 256, 1536, 256), (1, 128, 1024, 512), (1, 128, 2048, 1024)],
)
def test_attention_in_tiles_of_any_size_equals_numpy(heads, queries, keys, tile):
    """The ring of the first has fewer slots than there are tiles; the last has fewer tiles than go ahead."""
    rng, blocks = np.random.default_rng(1), heads * queries // 128
    q, k, v = (rng.normal(size=(heads, length, 128)).astype(half) for length in (queries, keys, keys))
    out, rings = np.zeros(q.shape, single), np.zeros(blocks * ring_bytes(tile), np.uint8)
    args = q, k, v, out, rings, blocks, tile
    result = run(attention, blocks, args, SPEC, kind=KernelType.MIX_AIC_1_2)
    assert not list(result.findings)
    scores = q.astype(np.float64) @ k.astype(np.float64).swapaxes(1, 2) / 128**0.5
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    exact = shares / shares.sum(axis=-1, keepdims=True) @ v.astype(np.float64)
    assert np.allclose(out, exact, rtol=1e-3, atol=2e-4)


def test_attention_on_all_cores_has_these_tiles():
    row = ROW | {"kind": "attention", "op": "flash attention, PTO kernel, all cores", "shape": [1, 256, 512, 128]}
    assert predicted(row)["predicted"] > 1
    with pytest.raises(UnknownRowError, match="512 keys"):
        kernel_of(row | {"shape": [1, 256, 1152, 128]})


def test_more_keys_have_larger_tiles():
    assert [tile_of(keys) for keys in (128, 256, 1024, 1280, 8192, 16384)] == [128, 256, 256, 512, 512, 1024]


def test_rows_whose_buffers_do_not_fit_are_known():
    assert fits(1024, 1000, single)
    assert fits(1024, 1008, half)
    assert not fits(2048, 1000, single)


ROW = {"kind": "cube", "dtype": "float16", "card": "A3", "cores": 4, "us": 10.0, "how": "", "source": ""}


@pytest.mark.parametrize(
    ("kind", "op", "shape"),
    [
        ("cube", "conv2d forward, PTO kernel", [[2, 2, 8, 32, 16], [18, 6, 16, 16]]),
        ("convolution", "convolution, PTO kernel, 3 x 3", [2, 2, 8, 32, 16, 18, 6, 16, 16]),
        ("cube", "convolution X=[2, 2, 8, 32, 16] K=[18, 6, 16, 16]", [512, 288, 96]),
        ("conv", "Conv2D 3x3, tiles 128x256x48", [2, 32, 8, 32, 96, 3, 3]),
    ],
)
def test_spellings_of_one_convolution_choose_the_same(kind, op, shape):
    what = kernel_of(ROW | {"kind": kind, "op": op, "shape": shape}).args[0]
    assert what == Convolution(2, 2, 8, 32, 96)


def test_a_convolution_as_a_product_has_four_wide_images():
    row = ROW | {"op": "PTO conv2d_forward", "shape": [4 * 768, 9 * 16 * 16, 3072]}
    assert kernel_of(row).args[0] == Convolution(4, 16, 12, 64, 3072)


@pytest.mark.parametrize(
    ("kind", "op", "shape"),
    [
        ("vector", "TopK, PTO kernel, validCol=352 cols=384 topk=40", [96, 352]),
        ("vector", "topk of rows, k = 40, rows of 384", [96, 352, 384]),
        ("sort", "top-k (PTO)", [96, 352, 384, 40]),
        ("reduce", "TopK, the 40 largest", [[96, 352], [384]]),
    ],
)
def test_spellings_of_one_topk_choose_the_same(kind, op, shape):
    args = kernel_of(ROW | {"kind": kind, "op": op, "shape": shape}).args
    assert args == ("ascend910c", 96, 352, 384, 40, half, 4)


def test_a_product_of_pto_goes_row_by_row():
    row = ROW | {"kind": "cube", "op": "PTO gemm_performance, tiles in a grid of 4 x 6", "shape": [512, 256, 512]}
    made = kernel_of(row)
    assert made.keywords == {"with_gelu": False, "by_rows": True}
    assert not made.args[0].unit_flags
    assert predicted(row)["pipes"]["mac"] > 0


@pytest.mark.parametrize(
    ("op", "shape", "named"),
    [
        ("conv2d", [1, 2], "9 sizes"),
        ("conv2d", [2, 2, 8, 32, 16, 18, 0, 16, 16], "1 or more"),
        ("conv2d 3x3", [501, 288, 96], "no convolution"),
        ("conv2d", [2, 32, 8, 32, 96, 2, 2], "odd sizes"),
        ("topk, k = 400", [96, 352], "k 400"),
        ("topk", [96, 350], "groups of 32"),
        ("topk", [96], "rows, columns"),
    ],
)
def test_shapes_that_are_none_are_refused(op, shape, named):
    with pytest.raises(UnknownRowError, match=named):
        kernel_of(ROW | {"op": op, "shape": shape})
