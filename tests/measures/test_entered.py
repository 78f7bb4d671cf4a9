"""A call enters no more functions than before, in no more files, and no deeper."""

import sys

import pytest

from tests.measures.entered import entered

# They may only fall; entered.py has the targets. A wait enters one file more since the end of an operation is a module
# of the compiled core, and `await op` one more since scopes are another, which has no coroutine in it.
LIMITS = {
    "MemcpyAsync": (10, 8, 6),
    "SynchronizeStream": (37, 16, 12),
    "await op": (30, 15, 10),
    "GraphLaunch": (61, 16, 9),  # one function more since a card launches in another way
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_call_enters_no_more_than_before(name):
    entries = entered(name)
    numbers = entries.numbers
    assert all(number <= limit for number, limit in zip(numbers, LIMITS[name], strict=True)), (numbers, entries.rows)


def test_the_entries_are_those_of_the_call_alone():
    depth, file, function = entered("MemcpyAsync").rows[0]
    assert (depth, file, function) == (1, "acl_py/verbs/copies.py", "MemcpyAsync")
    assert sys.getprofile() is None
