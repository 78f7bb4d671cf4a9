"""Random programs: through pyACL they have the codes, the bytes and the operations of the model."""

import pytest

from tests.campaigns import many
from tests.card.acl_programs import compare, on_engines
from tests.card.acl_timelines import compare_timelines


@pytest.mark.one_in(3)
@pytest.mark.parametrize("first", range(0, 30, 10))
def test_programs_have_the_codes_and_bytes_of_the_model(npu, first):
    count, differ = compare(range(first, first + 10))
    assert differ == 0
    assert count >= 4  # of those without races


@pytest.mark.slow
def test_each_engine_does_the_same_operations_in_the_same_order(npu):
    count, differ = compare(range(10), on_engines, engines=True)
    assert differ == 0
    assert count >= 4


def test_timelines_are_those_of_the_model_to_the_nanosecond():
    assert compare_timelines(range(10)) == 0


@pytest.mark.slow
def test_many_more_programs_have_the_codes_and_bytes_of_the_model(npu):
    """1,650 were run, with and without functions in Python."""
    count, differ = compare(range(100, 100 + many(30)))
    assert differ == 0
    assert count > 0


@pytest.mark.slow
def test_in_many_more_programs_each_engine_does_the_same(npu):
    count, differ = compare(range(100, 100 + many(30)), on_engines, engines=True)
    assert differ == 0
    assert count > 0


@pytest.mark.slow
def test_many_more_timelines_are_those_of_the_model():
    assert compare_timelines(range(100, 100 + many(100))) == 0
