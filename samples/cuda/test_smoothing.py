"""Shows: tests of a numba library in CI without a card, with faults that a card rarely has when one is looked for.

Scenario: the library smooths a vector. If the card has no memory left, it works in halves. The tests let the first
allocation and its second try fail, and a copy arrive late. Run them with
`pytest --cuda --acl-sanitize test_smoothing.py`.
"""

import numpy as np
import pytest

pytest.importorskip("numba")  # the library needs it
smoothing = pytest.importorskip("smoothing")

VALUES = np.arange(1000, dtype=np.float32)


def test_the_mean_of_a_line_is_the_line(cuda_driver):
    assert np.allclose(smoothing.smooth(VALUES), VALUES)
    assert cuda_driver.failures() == []


def test_it_goes_on_in_halves_when_there_is_no_memory(cuda_driver):
    no_room = "fail call=Malloc nth=1 kind=OUT_OF_MEMORY"
    with cuda_driver.fault(no_room, no_room) as rule:  # numba frees what it kept, and tries once more
        assert np.allclose(smoothing.smooth(VALUES), VALUES)
    assert rule.struck == 1
    assert len(cuda_driver.failures()) == 1


def test_a_late_copy_changes_no_result(cuda_driver):
    with cuda_driver.fault("delay us=500 op=h2d"):
        assert np.allclose(smoothing.smooth(VALUES), VALUES)
