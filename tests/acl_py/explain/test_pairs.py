"""Prices against real edits: scripts in two versions, of which explain sees the recording of the first one only."""

import pytest
from pairs import PAIRS, answer_of, real_gain


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.__name__)
def test_the_price_is_what_the_edit_is_worth(pair):
    answer = answer_of(pair)
    assert answer.gain_ns == real_gain(pair)
    assert answer.gain_ns, "the script shows nothing"
    assert bool(pair.once) <= any("not included" in note for note in answer.notes)
