"""Random programs: on a card they have the codes and the bytes of the model."""

import pytest

from tests.campaigns import many
from tests.card.programs import compare


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_programs_come_to_the_same_on_a_card_and_on_the_model(card, first):
    count, differ = compare(range(first, first + 20), card)
    assert differ == 0
    assert count >= 5  # of those without races


@pytest.mark.slow
def test_many_more_programs_come_to_the_same(card):
    count, differ = compare(range(1000, 1000 + many(600)), card)
    assert differ == 0
    assert count > 0
