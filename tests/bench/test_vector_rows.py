"""Kernels of vector cores of published rows (rows/vectors.py) against NumPy, and how words and shapes choose them."""

import numpy as np
import pytest

from device_model.aicore.runner import run
from device_model.profile import load
from tests.bench.rows import vectors
from tests.bench.rows.published import kernel_of, predicted

SPEC = load("ascend910b4").aicore
ROW = {"kind": "vector", "dtype": "float32", "card": "ascend910b4", "cores": 4, "us": 10.0, "how": "", "source": ""}


def numbers(*shape, dtype=np.float32):
    return np.random.default_rng(1).normal(size=shape).astype(dtype)


def ran(kernel, cores, *args):
    result = run(kernel, cores, args, SPEC)
    assert not list(result.findings)
    return result


def test_gelu_equals_numpy():
    x = numbers(13, 512)
    y = np.zeros_like(x)
    ran(vectors.gelu, 6, x, y, 13, 512, (5, 256))
    assert np.allclose(y, x / (1 + np.exp(-1.595769 * (x + 0.044715 * x**3))), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("stride", [16, 17])
def test_nd_to_nz_equals_numpy(stride):
    x = numbers(40, 512, dtype=np.float16)
    z = np.zeros(x.size, np.float16)
    ran(vectors.nd_to_nz, 4, x, z, 40, 512, 16, stride, 2)
    assert np.array_equal(z.reshape(32, 40, 16), x.reshape(40, 32, 16).transpose(1, 0, 2))


@pytest.mark.parametrize("batch", [1, 3])
def test_compressed_tokens_have_the_nearest_number_of_the_code_and_the_norm(batch):
    tokens, wide = 10, 512
    x, code = numbers(tokens, wide), np.linspace(-0.1, 0.1, 16, dtype=np.float32)
    out = np.zeros((tokens, vectors.slot_bytes(wide)), np.uint8)
    ran(vectors.compress, 3, x, code, out, tokens, wide, batch)
    norm = np.sqrt((x * x).sum(axis=1, keepdims=True))
    nearest = ((x / norm)[..., None] >= (code[1:] + code[:-1]) / 2).sum(axis=-1)
    packed = out[:, : wide // 2]
    found = np.stack((packed & 15, packed >> 4), axis=-1).reshape(tokens, wide)
    assert (found != nearest).mean() < 1e-3  # an element on a border may fall to either side
    assert np.allclose(out[:, wide // 2 :][:, :2].copy().view(np.float16), norm, rtol=2e-3)
    assert not out[:, wide // 2 + 2 :].any()


def test_a_product_with_four_numbers_equals_numpy():
    x, h = numbers(3, 704), numbers(8)
    out = np.zeros((12, 704), np.float32)
    ran(vectors.times_four, 4, x, h, out, 3, 704, 256)
    assert np.array_equal(out.reshape(3, 4, 704), h[:4, None] * x[:, None])


def test_the_same_product_batch_by_batch_equals_numpy():
    x, h = numbers(3, 704), numbers(8)
    out = np.zeros((12, 704), np.float32)
    ran(vectors.times_one_of_four, 5, x, h, out, 3, 704, 256)
    assert np.array_equal(out.reshape(3, 4, 704), h[:4, None] * x[:, None])


@pytest.mark.parametrize(
    ("op", "shape"),
    [
        ("TurboQuantCompressLatent: 15 rounds, up to 12 tokens at once", [30, 512]),
        ("TurboQuantCompressLatent, one token at a time", [30, 512]),
        ("GELU of 64 x 8192 f32", [64, 8192]),
        ("ND to NZ, rows 145 blocks apart in UB", [300, 1024]),
        ("mhc_post: x[B,S,D] times h[4], four outputs, Muls", [2, 40, 512]),
    ],
)
def test_words_choose_a_kernel_for_any_shape(op, shape):
    assert predicted(ROW | {"op": op, "shape": shape})["predicted"] > 1


def test_words_choose_how_many_tokens_an_instruction_covers_and_how_columns_lie():
    batched, single = (
        kernel_of(ROW | {"op": f"TurboQuantCompressLatent{words}", "shape": [48, 512]})().timeline.duration_ns
        for words in (", up to 12 tokens at once", ", one token at a time")
    )
    assert batched < single
    even, odd = (
        kernel_of(ROW | {"op": f"ND to NZ, rows {apart} blocks apart", "shape": [288, 512]})().timeline.busy_us["vec"]
        for apart in (144, 145)
    )
    assert even > 4 * odd  # the eight columns lie in one bank group
