"""The measured programs of docs/semantics.md: the finding of each is the rule that its question is about.

The table was made from the questions: a pattern of names, and what waits without being asked to; None if nothing does.
The first pattern that fits counts. Waits that order nothing new are another matter: these programs ask for many.
"""

from fnmatch import fnmatch

import pytest
from criteria import is_capture, measured

from acl_py.explain.cases import Case
from acl_py.explain.findings import Pitfall, findings
from acl_py.explain.path import critical_path, makespan_ns
from acl_py.explain.whatif import Asker
from acl_py.tools.programs import parse
from device_model.profile import load
from device_model.rules import CUDA

LEGACY, PAGEABLE, FREE, SYNC_COPY = Pitfall.LEGACY, Pitfall.PAGEABLE, Pitfall.FREE, Pitfall.SYNC_COPY
TABLE = {
    # the default stream
    "legacy-after-nonblocking": None,  # non-blocking streams are outside
    "legacy-query": None,  # a query does not wait
    "legacy-sync*": None,  # asked for
    "legacy-memcpy-sync-nonblocking": SYNC_COPY,  # it waits for itself alone
    "legacy-*": LEGACY,
    "nonblocking-vs-all": LEGACY,
    "per-thread-vs-legacy": LEGACY,
    # copies
    "h2d-g-64k-legacy-busy": LEGACY,  # and it is pageable
    "h2d-p-*": None,
    "d2h-p-*": None,
    "h2d-g-*": PAGEABLE,
    "d2h-g-*": PAGEABLE,
    "h2d-pageable-*": PAGEABLE,
    "h2h-*": SYNC_COPY,
    "sync-memcpy-d2d": None,  # the host goes on
    "sync-memcpy-d2d-busy": LEGACY,
    "sync-memcpy-h2d-pageable-16k": None,  # staged without a wait
    "sync-memcpy-*": SYNC_COPY,
    "memset-busy": LEGACY,
    # allocation
    "free-*": FREE,
    "host-register-busy": FREE,
}
PROGRAMS = [document for document in measured("semantics") if not is_capture(document)]


@pytest.mark.parametrize("document", PROGRAMS, ids=lambda document: document["id"])
def test_the_finding_is_the_rule_under_test(document):
    program = parse(document)
    timeline = Asker(Case(program, load("h200"), CUDA)).timeline
    expected = next((pitfall for name, pitfall in TABLE.items() if fnmatch(program.id, name)), None)
    found = {each.pitfall for each in findings(timeline)} - {Pitfall.NOTHING_NEW}
    assert expected in found if expected is not None else not found
    assert sum(part.ns for part in critical_path(timeline)) == makespan_ns(timeline)
