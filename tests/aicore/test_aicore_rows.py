"""Published times of element-wise kernels against the same kernels here (tests/bench/aicore_rows.py)."""

import numpy as np
import pytest

from tests.bench.aicore_rows import ROWS, measure


@pytest.mark.slow
def test_the_published_rows_come_out_within_a_tenth():
    errors = {what: measure(card, *shape) / published - 1 for what, card, *shape, published in ROWS}
    assert max(map(abs, errors.values())) < 0.10, errors
    assert np.sqrt(np.mean(np.square(list(errors.values())))) < 0.05, errors
