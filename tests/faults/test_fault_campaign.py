"""Every call and every operation of some programs fails once, in every way that rules know; see campaign.py."""

import pytest

from .campaign import OF_OPS, run
from .programs import PROGRAMS

programs = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)


@programs
def test_some_rules_of_the_campaign(program):
    outcome = run(program, every=151)  # which has no factor in common with the number of ways, so all ways come up
    assert not outcome.faults
    assert outcome.ends["error"] > outcome.runs / 2


@pytest.mark.slow
@programs
def test_the_whole_campaign(program):
    outcome = run(program)
    assert not outcome.faults
    assert outcome.runs > outcome.calls * 20 + outcome.ops * len(OF_OPS)
    assert outcome.ends["hang"] >= outcome.ops  # each operation has hung once, and somebody was told
