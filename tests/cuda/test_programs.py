"""Random programs of streams: through the library and in verbs they come to the same."""

import pytest

from tests.campaigns import many
from tests.cuda.players import InC, InVerbs
from tests.cuda.programs import write


@pytest.mark.one_in(10)
@pytest.mark.parametrize("first", range(0, 100, 10))
def test_programs_through_the_library_are_those_in_verbs(first):
    compare(range(first, first + 10))


@pytest.mark.slow
def test_many_more_programs_are_the_same():
    """The last mistakes showed in programs 1,000 to 1,999: the one of 1358 was the last."""
    compare(range(1000, 1000 + many(400)))


def compare(seeds):
    for seed in seeds:
        steps = write(seed)
        in_c, in_verbs = InC().play(steps), InVerbs().play(steps)
        assert in_c == in_verbs, f"program {seed}"
