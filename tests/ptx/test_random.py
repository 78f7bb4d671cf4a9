"""Random kernels: the device and the oracle leave the same bytes."""

from dataclasses import replace

import pytest

from tests import campaigns
from tests.campaigns import many
from tests.ptx import programs, running, shrinking


def check(seeds):
    """Run the programs of *seeds*; show the first one that fails, with the lines that it needs."""
    with campaigns.crew() as crew:
        for seed, failure in zip(seeds, crew.in_order(failure_of, seeds), strict=True):
            if failure is not None:
                small = shrinking.shrunk(programs.make(seed))
                pytest.fail(f"seed {seed}: {failure}\n{small.text}\ngrid {small.grid}, block {small.block}: "
                            f"{running.difference(small)}", pytrace=False)  # fmt: skip


def failure_of(seed):
    """How the device and the oracle differ on a program; None if they agree."""
    return running.difference(programs.make(seed))


@pytest.mark.one_in(6)
@pytest.mark.parametrize("first", range(0, 60, 10))
def test_the_device_computes_what_the_oracle_does(first):
    check(range(first, first + 10))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1000 + many(300), 100))
def test_the_device_computes_what_the_oracle_does_in_many_programs(first):
    """2,000 agreed."""
    check(range(first, first + 100))


def test_a_program_that_fails_is_made_smaller():
    program = programs.make(3)

    def fails(made):
        running.on_oracle(made)
        return "a popc" if "popc.b32" in made.text else None

    text = program.text.replace("ret;\n}", "popc.b32 %r0, %r1;\n    ret;\n}")
    small = shrinking.shrunk(replace(program, text=text), fails)
    assert "popc.b32" in small.text
    assert small.text.count("\n") < 15
