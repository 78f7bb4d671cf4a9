"""Products of int8 that vector cores scale (rows/quantised.py) against NumPy, and how words and shapes choose them."""

import numpy as np
import pytest

from device_model.aicore.core.tensors import bfloat16
from device_model.profile import load
from tests.bench.rows.products import laid, operands
from tests.bench.rows.published import UnknownRowError, kernel_of, predicted
from tests.bench.rows.quantised import parts_of_k, product_of, run_on

ROW = {
    "kind": "cube-int8", "op": "catlass int8 product, dequantisation on the vector cores", "shape": [256, 1024, 512],
    "dtype": "int8", "card": "ascend910b3", "cores": 3, "us": 30.0, "how": "msprof", "source": "made up", "fair": "yes",
}  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "b", "keeps_a", "cores"),
    [
        ((256, 1024, 512), "row", False, 3),
        ((256, 1024, 768), "row", True, 2),
        ((96, 1024, 512), "row", True, 2),
        ((40, 544, 512), "column", False, 2),
    ],
    ids=["in turn", "A kept", "A kept, one row of tiles", "parts of tiles"],
)
def test_a_scaled_product_equals_numpy(shape, b, keeps_a, cores):
    check(product_of(*shape, b, keeps_a=keeps_a), cores)


@pytest.mark.parametrize(("shape", "cores", "parts"), [((128, 2048, 256), 3, 3), ((256, 2048, 512), 9, 2)])
def test_a_product_over_parts_of_k_equals_numpy(shape, cores, parts):
    product = product_of(*shape, "column")
    assert parts_of_k(product, cores) == parts
    check(product, cores, parts)


def check(product, cores, parts=0):
    rng = np.random.default_rng(1)
    a, b = operands(product, rng)
    of_columns, of_rows = (rng.normal(size=size).astype(np.float32) for size in (product.n, product.m))
    out = np.zeros((product.m, product.n), bfloat16)
    given = a, laid(product, b), of_columns, of_rows, out
    result = run_on(load("ascend910b3").aicore, product, cores, *given, parts=parts)
    exact = (a.astype(np.float64) @ b.astype(np.float64)) * of_columns * of_rows[:, None]
    assert np.allclose(out.astype(np.float64), exact, rtol=5e-3, atol=1e-2)
    assert not list(result.findings)


def test_words_choose_where_a_lies_and_whether_k_is_split():
    us = {words: predicted(ROW | {"op": words})["predicted"] for words in (ROW["op"], "catlass the same, A kept in L1")}
    assert len(set(us.values())) == 2
    deep = ROW | {"shape": [128, 8192, 256], "cores": 8}
    whole, split = (kernel_of(deep | {"op": words})() for words in (ROW["op"], "catlass the same, k split over cores"))
    assert split.timeline.duration_ns < whole.timeline.duration_ns / 1.5


def test_a_shape_that_is_not_whole_squares_is_refused():
    with pytest.raises(UnknownRowError, match="squares of 32"):
        kernel_of(ROW | {"shape": [256, 1000, 512]})
