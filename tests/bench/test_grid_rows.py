"""Products whose cores have a part of C each (rows/grids.py) against NumPy, and how words and shapes choose them."""

import numpy as np
import pytest

from device_model.aicore.core.names import KernelType
from device_model.aicore.core.tensors import half
from device_model.aicore.runner import run
from device_model.profile import load
from tests.bench.rows.grids import grouped_args, grouped_product, multiply, multiply_groups
from tests.bench.rows.products import Product, laid, operands, single
from tests.bench.rows.published import UnknownRowError, kernel_of, predicted

SPEC = load("ascend910b1").aicore
ROW = {
    "kind": "mixed", "op": "quantised grouped matmul + GELU, scenario 2", "shape": [512, 1024, 512, 2], "dtype": "int8",
    "card": "ascend910b1", "cores": 2, "us": 30.0, "how": "msOpProf", "source": "made up", "fair": "yes",
}  # fmt: skip


def gelu(x, factor):
    return x / (1 + np.exp(-factor * x))


@pytest.mark.parametrize("with_gelu", [False, True])
def test_a_product_in_parts_equals_numpy(with_gelu):
    product = Product(384, 256, 544, half, "column", (128, 256, 256), 64, out=single)
    a, b = (0.2 * each for each in operands(product, np.random.default_rng(1)))
    c = np.zeros((product.m, product.n), single)

    def kernel(*args):
        multiply(*args, with_gelu=with_gelu)

    kind = KernelType.MIX_AIC_1_2 if with_gelu else KernelType.AIC_ONLY
    result = run(kernel, 4, (a, laid(product, b), c, product, 2), SPEC, kind=kind)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    if with_gelu:
        exact = exact / (1 + np.exp(-1.595769 * (exact + 0.044715 * exact**3)))
    assert np.allclose(c, exact, rtol=2e-3, atol=1e-3)
    assert not list(result.findings)


@pytest.mark.parametrize(("kind", "depth"), [(KernelType.MIX_AIC_1_1, 1), (KernelType.MIX_AIC_1_2, 4)])
def test_a_grouped_product_equals_numpy(kind, depth):
    rng, product, groups = np.random.default_rng(1), grouped_product(128, 1024, 1280), 3
    a, b, of_columns, of_rows, out, work = grouped_args(product, groups, 2, depth)
    a, b = (rng.integers(-8, 8, each.shape, np.int8) for each in (a, b))
    of_columns, of_rows = (rng.uniform(0.001, 0.01, each.shape).astype(single) for each in (of_columns, of_rows))
    given = a, np.stack([laid(product, each) for each in b]), of_columns, of_rows, out, work, product, groups, depth
    result = run(multiply_groups, 2, given, SPEC, kind=kind)
    sums = [a[group * 128 :][:128].astype(np.float64) @ b[group].astype(np.float64) for group in range(groups)]
    exact = np.concatenate([each * scale for each, scale in zip(sums, of_columns, strict=True)]) * of_rows[:, None]
    assert np.allclose(out, gelu(exact, 1.702), rtol=2e-3, atol=1e-3)
    assert not list(result.findings)


def test_two_vector_cores_and_tiles_on_their_way_are_faster():
    us = [
        predicted(ROW | {"op": f"quantised grouped matmul + GELU, scenario {each}"})["predicted"] for each in range(3)
    ]
    assert us == sorted(us, reverse=True)


def test_gelu_of_a_product_takes_vector_cores():
    op = {"op": "GEMM, basic API, f16 to f32", "kind": "cube", "shape": [512, 256, 512], "dtype": "float16"}
    alone = kernel_of(ROW | op)().timeline.busy_us
    fused = kernel_of(ROW | op | {"kind": "mixed", "op": "matmul + GELU through GM"})().timeline.busy_us
    assert "vec" not in alone
    assert fused["vec"] > 0
    assert fused["mac"] == pytest.approx(alone["mac"], rel=0.01)


@pytest.mark.parametrize("shape", [[500, 1024, 512, 2], [512, 4096, 512, 2], [512, 1024, 500, 2]])
def test_groups_that_are_not_whole_tiles_are_refused(shape):
    with pytest.raises(UnknownRowError, match="groups of whole"):
        kernel_of(ROW | {"shape": shape})
