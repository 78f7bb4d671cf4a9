"""Overlays: the values of a host take the place of the profile's; a file that is none is refused with what is wrong."""

import pytest

from device_model.curves import Curve
from device_model.overlay import OF_HOST, lay, load, names
from device_model.profile import ProfileError
from device_model.profile import load as load_profile

TINY = load_profile("tiny")
HOST = """
[host]
launch = { value = 12_000, source = "measured: on my host" }
[copies]
host_to_host = { value = [[0, 1000], [1048576, 50000]], source = "measured: on my host" }
"""


def test_the_values_of_an_overlay_take_the_place_of_the_profiles_and_all_others_stay(tmp_path):
    file = tmp_path / "host.toml"
    file.write_text(HOST)
    mine = load(file, TINY)
    assert mine.host.launch == 12_000
    assert mine.copies.host_to_host == Curve([(0, 1000), (1048576, 50000)])
    changed = {name for name, source in mine.sources.items() if source != TINY.sources[name]}
    assert changed == {"host.launch", "copies.host_to_host"}
    assert (mine.host.copy, mine.cores, mine.name) == (TINY.host.copy, TINY.cores, "tiny")
    assert load(str(file), TINY) == mine


def test_the_shipped_overlays_lie_over_the_h200():
    assert names() == ["torch"]
    card = load_profile("h200")
    assert load("torch", card).host.launch > card.host.launch


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[host", "host.toml is not TOML: "),
        ("host = 3", "host.toml: host must be a table, [host], not one value"),
        ("[hosts]", "host.toml: hosts is unknown; did you mean host?; an overlay has host, latency, copies, graphs, "),
        (
            "[cores]",
            "host.toml: cores is the card's and not its host's: it belongs in a profile; an overlay has host, ",
        ),
        (
            "[host]\nlunch = 3",
            "host.toml: host.lunch is unknown; did you mean launch?; [host] of an overlay has launch, ",
        ),
        ("[host]\nlaunch_us = 3", "host.toml: host.launch_us is unknown; did you mean launch?; "),
        ("[copies]\nd2d = 3", "host.toml: copies.d2d is the card's and not its host's: it belongs in a profile; "),
        (
            "[host]\nlaunch = 6500",
            'host.toml: host.launch must be { value = ..., source = "..." }, not 6500; times are in nanoseconds',
        ),
        (
            '[host]\nlaunch = { value = 6.5, source = "measured: here" }',
            "host.toml: host.launch must be a whole number, 0 to 2**62, not 6.5; times are in nanoseconds",
        ),
        (
            '[host]\nlaunch = { value = "6 us", source = "measured: here" }',
            "host.toml: host.launch must be a whole number, 0 to 2**62, not '6 us'; times are in nanoseconds, ",
        ),
        (
            '[host]\nlaunch = { value = -1, source = "measured: here" }',
            "host.toml: host.launch must be a whole number, 0 to 2**62, not -1; times are in nanoseconds",
        ),
        (
            '[copies]\nstage = { value = [[0, 0], [4096, -5]], source = "measured: here" }',
            "host.toml: copies.stage: sizes and times of a curve must not be negative; times are in nanoseconds",
        ),
    ],
)
def test_what_is_no_overlay_is_refused_with_what_is_wrong_and_what_there_is(text, message):
    with pytest.raises(ProfileError) as error:
        lay(text, "host.toml", TINY)
    assert str(error.value).startswith(message)


def test_an_overlay_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ProfileError, match="there is no overlay 'torhc'; there are torch, or give the path"):
        load("torhc", TINY)
    with pytest.raises(ProfileError, match=r"cannot read the overlay .*none\.toml: No such file"):
        load(tmp_path / "none.toml", TINY)


def test_a_table_that_the_card_has_not_is_refused():
    with pytest.raises(ProfileError, match=r"host.toml: managed: ascend310 has no such table, so there is nothing to"):
        lay("[managed]", "host.toml", load_profile("ascend310"))


def test_an_overlay_has_values_that_profiles_have():
    card = load_profile("h200")
    for table, keys in OF_HOST.items():
        assert {f"{table}.{key}" for key in keys} <= set(card.sources)
