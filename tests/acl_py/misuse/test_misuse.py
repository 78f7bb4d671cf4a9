"""Every mistake gets an error of its own that says what, where and what to do; it changes nothing, and work goes on."""

import pytest

from acl_py import AclError, Kind
from tests import parts
from tests.acl_py.misuse.accused import ACCUSED, finding_of
from tests.acl_py.misuse.cases import CASES
from tests.acl_py.misuse.page import pages
from tests.acl_py.misuse.run import run

# These change something before they fail, as they should: time passes in waits, and failed work is work. So do all
# deadlocks.
CHANGING = {
    "The time of an event never recorded", "The time of an event made without timing", "A report that does not come",
    "The time of a record that has not taken place", "A kernel that raises", "One that raises",
    "One that calls the runtime", "A kernel that calls the runtime", "A time-out that is over",
    "Init a second time, under ACL's rules", "The result of a future that was cancelled",
    "A function around a coroutine function", "An answer as a truth value", "An answer as a number of C",
}  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.noun}: {case.title}")
def test_a_mistake(case):
    outcome = run(case)
    error = outcome.error
    if isinstance(case.kind, Kind):
        assert isinstance(error, AclError), error
        assert error.kind is case.kind
        assert error.remedy
    else:
        assert type(error) is case.kind or isinstance(error, case.kind), error
    for part in case.parts:
        assert part in str(error)
    assert outcome.unchanged or case.title in CHANGING or case.noun in ("deadlocks", "graphs", "managed memory")
    assert outcome.usable


@pytest.mark.parametrize("case", ACCUSED, ids=lambda case: case.title)
def test_a_mistake_in_a_core_kernel_is_one_finding(case):
    finding = finding_of(case)
    assert finding.rule.name == case.rule
    for part in case.parts:
        assert part in finding.text


def test_there_are_many_and_each_is_its_own():
    assert len(CASES) >= 80
    assert len({case.code for case in CASES}) == len(CASES)
    assert len({(case.noun, case.title) for case in CASES}) == len(CASES)


@pytest.mark.slow
def test_the_pages_are_current():
    assert parts.differing(pages()) == []
