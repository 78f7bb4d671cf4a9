"""Random programs of ranks, right and wrong, against an independent matcher (matcher.py)."""

import re

import pytest

from tests import campaigns
from tests.campaigns import many
from tests.collectives import matcher, programs

WAYS = (programs.in_one_task, programs.in_tasks, programs.in_threads)


def check(seed):
    """Compare a program with the matcher, in three ways to run it; return whether it hangs."""
    program = programs.random_program(seed)
    hangs = matcher.hangs(program)
    for way in WAYS:
        outcome = way(program, seed)
        if hangs:
            assert isinstance(outcome, str), (seed, way.__name__, "did not hang")
            check_text(program, outcome, (seed, way.__name__))
        else:
            assert outcome == matcher.results(program), (seed, way.__name__)
    return hangs


def check_text(program, text, about):
    """The report of a hang names the first mismatch of each communicator that it shows."""
    shown = re.split(r"^  comm (\d+), \d+ ranks:$", text, flags=re.MULTILINE)
    assert len(shown) > 1, about
    for number, lines in zip(shown[1::2], shown[2::2], strict=True):
        expected = matcher.first_mismatch(program, int(number) - 1)
        named = re.search(r"first mismatch: rank \d+ has called \w+ (\d+)", lines)
        if expected is not None:
            assert named is not None, (about, text)
            assert int(named[1]) == expected, (about, text)
        elif named is not None:
            assert re.search(r"has called (Send|Recv) ", named[0]), (about, text)


@pytest.mark.parametrize("seed", range(40))
def test_a_program_of_ranks_ends_as_the_matcher_says(seed):
    check(seed)


@pytest.mark.slow
def test_thousands_of_programs_of_ranks_end_as_the_matcher_says():
    """The last campaign had 2,000 programs: two looks at threads that were about to act took them for asleep."""
    with campaigns.crew() as crew:
        hung = sum(crew.in_order(check, range(many(250))))
    assert hung >= many(60)
