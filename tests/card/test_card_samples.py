"""Samples on a card: they run, or end with a sentence."""

import os

import pytest

from tests.card.samples import NAMES, wrong


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", NAMES)
def test_a_sample_runs_on_a_card_or_says_why_not(card, name):
    assert wrong(name, on_card=bool(os.environ.get("ACL_PY_CARD"))) == ""
