"""The sanitizer on the named cases of the documents: the findings that each row expects, and no other."""

import pytest

from tests.sanitizer.cases import CASES
from tests.sanitizer.oracle.running import run


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_sanitizer_finds_what_the_document_says(case):
    outcome = run(case.program, case.rules)
    assert outcome.triples == {*case.pairs}
    assert set(outcome.run.failed) == case.places(case.failed)
