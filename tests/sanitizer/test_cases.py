"""The named cases of the documents: what the oracle says of each, and that no row is missing."""

import pytest

from tests.sanitizer.cases import ABSENT, CASES
from tests.sanitizer.oracle.comparing import kind_of
from tests.sanitizer.oracle.reading import Run, read
from tests.sanitizer.oracle.verdicts import pairs

ROWS = [
    *(f"CS{number:02}" for number in range(1, 21)),
    *(f"DS{number:02}" for number in range(1, 15)),
    *(f"EV{number:02}" for number in range(1, 11)),
    *(f"MP{number:02}" for number in range(1, 11)),
    *(f"NPU{number:02}" for number in range(1, 24)),
    *(f"HS{number:02}" for number in range(1, 11)),
    *(f"TK{number:02}" for number in range(1, 5)),
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_oracle_finds_what_the_document_says(case):
    program = case.program
    complete = case.places(case.complete) | {step.index for step in program.steps if step.fields.get("until")}
    run = Run(range(len(program.steps)), case.places(case.failed), complete)
    found = {(pair.first, pair.second, kind_of(pair)) for pair in pairs(read(program, case.rules, run))}
    assert found == case.pairs


def test_every_row_is_a_case_or_has_a_reason():
    assert sorted({case.row for case in CASES} | set(ABSENT)) == sorted(ROWS)
    assert not {case.row for case in CASES} & set(ABSENT)


def test_names_of_cases_are_different():
    assert len({case.name for case in CASES}) == len(CASES)
