"""Which calls wait for work, and for how long: copies between host addresses, and synchronous copies of pageable memory
behind the legacy stream. Measured on another host than the semantics programs.
"""

import pytest
from criteria import measured, replayed, wrong_codes, wrong_waits

PROGRAMS = measured("waits")
# The copy of 256 bytes ends 3 us after its call. The host asks 2 us after the call here. There the query was one of the
# slow ones, 7.6 us, and saw the end; the queries behind longer copies saw it in some runs.
OTHER_CODES = {"sync-h2d-pageable-256-behind-own-legacy": ["step 2 (query_stream): card [0], ours 600"]}


@pytest.mark.parametrize("document", PROGRAMS, ids=[document["id"] for document in PROGRAMS])
def test_waits_where_the_card_does(document):
    ours = replayed("waits", document["id"])
    assert wrong_codes(document, ours) == OTHER_CODES.get(document["id"], [])
    assert wrong_waits(document, ours) == []
