"""The measured programs on a card: codes, answers and waits as recorded."""

import os

import pytest

from tests.card.conformance import FATAL, FILES, check, documents, in_process

IS_REAL = bool(os.environ.get("ACL_PY_CARD"))
FEW = ("graph-external-events", "graph-memset-copies", "graph-update", "legacy-query")


@pytest.mark.parametrize("id_", FEW)
def test_a_measured_program_comes_to_the_same(card, id_):
    [document] = [each for each in documents() if each["id"] == id_]
    assert check(document, is_real=IS_REAL) == []


@pytest.mark.slow
def test_a_program_that_loses_the_card_has_the_codes_that_it_had(card):
    [document] = documents([FATAL])
    assert in_process(document, is_real=IS_REAL) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_measured_programs_come_to_the_same(card, name):
    """All on a real card, and one in five elsewhere: `python -m tests.card conformance` plays all of them."""
    own = documents([name])[:: 1 if IS_REAL else 5]
    assert [line for document in own for line in check(document, is_real=IS_REAL)] == []
