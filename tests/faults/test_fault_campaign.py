"""Every call and every operation of some programs fails once, in every way that rules know; see campaign.py."""

import pytest

import acl_py as acl
from acl_py.many.crew import Crew
from tests.campaigns import TIMES

from .campaign import OF_OPS, run
from .programs import PROGRAMS, Program

programs = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)


@programs
def test_some_rules_of_the_campaign(program):
    outcome = run(program, every=151)  # which has no factor in common with the number of ways, so all ways come up
    assert not outcome.faults
    assert outcome.ends["error"] > outcome.runs / 2


@pytest.mark.slow
@programs
def test_the_campaign(program):
    """Every third rule each day, and all with TIMES=3: neither number of ways has the factor 3."""
    every = max(1, 3 // TIMES)
    outcome = run(program, every=every)
    assert not outcome.faults
    assert outcome.runs * every > outcome.calls * 20 + outcome.ops * len(OF_OPS)
    # Each operation hangs once among all rules, and somebody is told.
    assert (outcome.ends["hang"] + 1) * every >= outcome.ops


async def forgetful(bag):
    """Free a buffer only if nothing fails on the way."""
    buffer = await acl.Malloc(64)
    await acl.MemsetAsync(buffer, 64, 0, 64)
    await acl.SynchronizeDevice()
    await acl.Free(buffer)


@pytest.mark.slow
def test_two_processes_find_what_one_does_in_its_order():
    said = [], []
    program = Program(forgetful, "cuda")
    alone = run(program, every=7, say=said[0].append)
    with Crew(workers=2) as crew:
        assert run(program, every=7, say=said[1].append, crew=crew) == alone
    assert said[0] == said[1]
    assert len(said[0]) > 5
    assert all("leak" in text for text in said[0])
