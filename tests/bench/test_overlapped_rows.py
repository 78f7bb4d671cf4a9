"""A product and an all-reduce that takes its tiles (rows/overlapped.py): results against NumPy, and who waits."""

from itertools import chain, pairwise

import numpy as np
import pytest

from device_model.aicore.runner import run_beside
from device_model.profile import load
from tests.bench.rows.overlapped import CORES, PRODUCT, ROWS, launches, tiles_of
from tests.bench.rows.products import Product

SMALL = Product(300, 64, 208, b="column", l1=(64, 64, 64), depth=32)
SPEC = load("ascend910b1").aicore


def test_each_core_has_a_row_of_tiles_that_are_neighbours():
    tiles = [tiles_of(PRODUCT, block, CORES) for block in range(CORES)]
    assert sorted(chain(*tiles)) == [(row, column) for row in range(43) for column in range(6)]
    assert {abs(a - c) + abs(b - d) for each in tiles for (a, b), (c, d) in pairwise(each)} == {1}


def ends(results):
    """When each launch ends, in cycles."""
    timeline = results[0].timeline
    return [max(timeline.free_cycles[timeline.core_of(program)] for program in each.programs) for each in results]


def test_what_polls_for_tiles_gets_them_and_ends_behind_the_product():
    product, reduction = launches(SMALL, pace=1, cores=3, rng=np.random.default_rng(1))
    a, b, c, flags, _ = product.args
    together = run_beside([product, reduction], SPEC)
    exact = a.astype(np.float64) @ b.T.astype(np.float64)
    assert np.allclose(c, exact, rtol=2e-3, atol=1e-2)
    assert np.array_equal(reduction.args[2], c)
    assert flags.sum() == len(list(chain(*(tiles_of(SMALL, block, 3) for block in range(3)))))
    [alone], of_both = ends(run_beside([reduction], SPEC)), ends(together)
    assert of_both[1] > max(alone, of_both[0])


@pytest.mark.slow
def test_the_product_is_not_slower_beside_it_and_both_end_within_a_tenth():
    alone, beside, reduction, both = (row.us()[0] for row in ROWS)
    assert beside < 1.03 * alone
    assert reduction == pytest.approx(437, rel=0.01)
    assert both == pytest.approx(560.6, rel=0.1)
