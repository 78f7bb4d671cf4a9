"""Prices against real edits: scripts in two versions, of which explain sees the recording of the first one only."""

import pytest
from pairs import PAIRS, answer_of, real_gain
from pairs_of_loops import PAIRS_OF_LOOPS, DownloadsOfTwoStreams


@pytest.mark.one_in(5)
@pytest.mark.parametrize("pair", [*PAIRS, *PAIRS_OF_LOOPS], ids=lambda pair: pair.__name__)
def test_the_price_is_what_the_edit_is_worth(pair):
    answer = answer_of(pair)
    assert answer.gain_ns == real_gain(pair)
    assert answer.gain_ns, "the script shows nothing"
    assert not answer.conflicts, "both versions are right"
    assert bool(pair.once) <= any("not included" in note for note in answer.notes)


def test_copies_of_arrays_may_use_the_same_one():
    notes = answer_of(DownloadsOfTwoStreams).notes
    assert any(
        note.startswith("nothing orders these copies; if they use one array of the host, they race: d2h ")
        for note in notes
    )
