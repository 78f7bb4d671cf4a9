"""The caller of these functions switches off the warnings of NumPy, and so do the tests."""

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield
