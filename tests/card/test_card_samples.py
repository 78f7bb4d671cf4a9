"""Samples on a card: they run, or end with a sentence; and the programs of notebooks for a card."""

import os

import pytest

from tests.card.own_card import NOTEBOOKS, output_of
from tests.card.samples import NAMES, wrong


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", NAMES)
def test_a_sample_runs_on_a_card_or_says_why_not(card, name):
    assert wrong(name, on_card=bool(os.environ.get("ACL_PY_CARD"))) == ""


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_the_program_of_a_notebook_runs_on_a_card(card, notebook):
    assert output_of(notebook, on_card=bool(os.environ.get("ACL_PY_CARD")))
