"""The attributes of a device are those of a card, or 0 for what is not simulated."""

import json
from pathlib import Path

from tests.cuda.calling import OUT

CARD = json.loads(Path(__file__).with_name("data").joinpath("attributes.json").read_text(encoding="utf-8"))
BUS = 33  # each device has its own
POOLS = 115, 142, 144  # of devices, of the host by its nodes, of the host
ADDRESSES_APART = 102  # cuMemAddressReserve() and its siblings


def test_each_attribute_is_that_of_the_card_or_0(h200):
    attributes = {number: h200.get("cuDeviceGetAttribute", OUT, int(number), 0) for number in CARD["attributes"]}
    assert {code for code, _ in attributes.values()} == {0}
    ours = {number: value for number, (_, value) in attributes.items() if value and int(number) != BUS}
    assert ours == {number: CARD["attributes"][number] for number in ours}
    assert {f"{number}" for number in (*POOLS, ADDRESSES_APART)} <= ours.keys()


def test_there_are_no_other_attributes(h200):
    assert [h200.get("cuDeviceGetAttribute", OUT, number, 0)[0] for number in (0, 148)] == [1, 1]
