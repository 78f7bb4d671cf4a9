"""Random programs: the sanitizer reports every pair that no promise orders, and nothing else."""

from collections.abc import Iterable

import pytest

from tests.sanitizer.oracle.comparing import Difference, compare_random


def differences(seeds: Iterable[int]) -> tuple[int, list[Difference]]:
    """How many programs came to their end, and what the sanitizer and the oracle say differently of them."""
    compared = [difference for seed in seeds if (difference := compare_random(seed)) is not None]
    return len(compared), [difference for difference in compared if difference]


def test_the_sanitizer_and_the_oracle_agree_on_random_programs():
    count, differ = differences(range(100))
    assert differ == []
    assert count > 95


@pytest.mark.slow
def test_the_sanitizer_and_the_oracle_agree_on_5000_random_programs():
    count, differ = differences(range(5000))
    assert differ == []
    assert count > 4900
