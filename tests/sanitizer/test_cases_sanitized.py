"""The sanitizer on the named cases of the documents: the findings that each row expects, and no other."""

import pytest

from tests.sanitizer.cases import CASES
from tests.sanitizer.oracle.running import ABOUT_ORDER, run


@pytest.mark.one_in(4)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_sanitizer_finds_what_the_document_says(case):
    outcome = run(case.program, case.rules)
    assert outcome.triples == {*case.pairs}
    assert len(outcome.triples) == sum(finding.kind in ABOUT_ORDER for finding, _ in outcome.findings), "one each"
    assert set(outcome.run.failed) == case.places(case.failed)
