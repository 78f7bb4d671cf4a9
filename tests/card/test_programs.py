"""Random programs: on a card they have the codes and the bytes of the model."""

import os

import pytest

from tests.campaigns import many
from tests.card.programs import compare, drawn, queued
from tests.card.timelines import compare_timelines


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_programs_come_to_the_same_on_a_card_and_on_the_model(card, first):
    count, differ = compare(range(first, first + 20), card)
    assert differ == 0
    assert count >= 5  # of those without races


def test_programs_with_graphs_come_to_the_same(card):
    count, differ = compare(range(12), card, drawn)
    assert differ == 0
    assert count >= 5


@pytest.mark.slow
def test_many_more_with_graphs_come_to_the_same(card):
    count, differ = compare(range(1000, 1000 + many(600)), card, drawn)
    assert differ == 0
    assert count > 0


@pytest.mark.slow
@pytest.mark.skipif(bool(os.environ.get("ACL_PY_CARD")), reason="only the simulated driver tells its operations")
def test_each_stream_does_the_same_operations_in_the_same_order(card):
    count, differ = compare(range(2000, 2000 + many(200)), card, queued, operations=True)
    assert differ == 0
    assert count > 0


@pytest.mark.slow
@pytest.mark.skipif(bool(os.environ.get("ACL_PY_CARD")), reason="only the simulated driver has the times of the model")
def test_timelines_are_the_same_to_the_nanosecond(card):
    assert compare_timelines(range(1000, 1000 + many(200))) == 0


@pytest.mark.slow
def test_many_more_programs_come_to_the_same(card):
    count, differ = compare(range(1000, 1000 + many(600)), card)
    assert differ == 0
    assert count > 0
