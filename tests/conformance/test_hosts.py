"""The hosts of the measured programs: overlays that a script reads off their single calls and copies."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # pytest knows `criteria` by its bare name

from criteria import HOSTS, card
from hosts.__main__ import SETS, overlay_of


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", SETS)
@pytest.mark.slow
def test_the_overlays_are_what_the_script_writes(name):
    """`python -m tests.conformance.hosts` writes them again."""
    assert (HOSTS / f"{name}.toml").read_text() == overlay_of(name)


def test_the_hosts_differ_as_their_single_calls_do():
    first, second = card("timelines"), card("timelines2")
    assert 1.1 < second.host.launch / first.host.launch < 1.3
    assert first.host.record > 1.3 * second.host.record
