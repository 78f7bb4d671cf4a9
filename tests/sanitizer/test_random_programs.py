"""Random programs: the sanitizer reports every pair that no promise orders, and nothing else."""

from collections.abc import Iterable

import pytest

from tests.sanitizer.oracle.comparing import Difference, compare_random

# Programs about which the sanitizer is still wrong, and why.
KNOWN = {
    "random-1360-cuda_per_thread": "an await of a copy to pageable memory counts as a wait that nothing promises",
    "random-2372-acl": "a set that is queued behind a wait for a flag may be the one that the wait sees",
    "random-2591-acl": "a wait for a flag cannot see a set that is behind it in its own stream",
    "random-2604-cuda": "an unpromised wait orders a use of a pool's memory: not of the kind relies",
    "random-3688-cuda_per_thread": "an unpromised wait orders a use of a pool's memory: not of the kind relies",
}


def differences(seeds: Iterable[int]) -> tuple[int, list[Difference]]:
    """How many programs came to their end, and what the sanitizer and the oracle say differently of them."""
    compared = [difference for seed in seeds if (difference := compare_random(seed)) is not None]
    return len(compared), [difference for difference in compared if difference]


def test_the_sanitizer_and_the_oracle_agree_on_random_programs():
    count, differ = differences(range(300))
    assert differ == []
    assert count > 290


@pytest.mark.slow
def test_the_sanitizer_and_the_oracle_agree_on_5000_random_programs():
    count, differ = differences(range(5000))
    assert [difference.program for difference in differ] == [*KNOWN]
    assert count > 4900
