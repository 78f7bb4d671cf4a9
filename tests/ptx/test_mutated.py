"""Texts with mistakes give a message with a line, stop, or compute what the oracle computes."""

import pytest

from tests.campaigns import many
from tests.ptx import mutated


@pytest.mark.parametrize("first", range(0, 100, 25))
def test_a_hundred_changed_texts_end_well(first):
    counts, bad = mutated.tried(range(first, first + 25))
    assert bad == []
    assert counts["refused"] > 10
    assert counts["as the oracle"] > 0


@pytest.mark.slow
def test_many_changed_texts_end_well():
    """The first 5,000 did (`python -m tests.ptx mutated`)."""
    counts, bad = mutated.tried(range(100, 100 + many(1_000)))
    assert bad == []
    assert counts["as the oracle"] > many(80)
