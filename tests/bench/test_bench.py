"""The benches measure what they say: their models agree, and each part can be imported."""

from importlib import import_module

import pytest

from tests.bench.__main__ import PARTS
from tests.bench.ring import MODELS


@pytest.mark.parametrize("part", PARTS)
def test_a_part_has_a_main(part):
    assert callable(import_module(f"tests.bench.{part}").main)


def test_the_models_of_the_ring_do_the_same_in_the_same_simulated_time():
    ours, traced, asyncio, simpy = (MODELS[name](120, 4) for name in ("ours", "ours traced", "asyncio", "simpy"))
    assert ours.ops == traced.ops == asyncio.ops == simpy.ops == 120
    assert ours.simulated_ns == traced.simulated_ns
    assert asyncio.simulated_ns == simpy.simulated_ns
    assert abs(ours.simulated_ns / simpy.simulated_ns - 1) < 0.005
