"""Copies of pageable memory, of rows and of host memory: which calls wait for work, and what the others cost."""

import pytest
from criteria import measured, replayed, wrong_codes, wrong_costs, wrong_waits

COPIES = ("memcpy", "memcpy_async", "memcpy2d_async", "memcpy_peer", "memcpy_peer_async")
PROGRAMS = [
    (name, document)
    for name in ("staging", "gaps", "pageable")
    for document in measured(name)
    if any(step["op"] in COPIES for step in document["steps"])
]


@pytest.mark.parametrize(("name", "document"), PROGRAMS, ids=[document["id"] for _, document in PROGRAMS])
def test_copies_wait_where_the_card_does_and_cost_as_much(name, document):
    ours = replayed(name, document["id"])
    assert wrong_codes(document, ours) == []
    assert wrong_waits(document, ours) == []
    if name != "pageable":  # the host had not read its sources lately, and takes twice as long then
        assert wrong_costs(document, ours) == []
