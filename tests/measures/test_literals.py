"""Names of verbs and of steps are written in few places, and in no more of them than before."""

import pytest

from tests.measures.literals import counts, literals_of, steps, verbs

# Literals and files. They may only fall while there are no new verbs and steps; the targets are under 150 in 22 files,
# and under 120 in 6. The edits that habits propose, and their diffs of source lines, name calls and steps: there are
# six such files. Recordings translate copies by rows: one literal more.
VERBS = 85, 22
STEPS = 115, 11


@pytest.mark.parametrize(("names", "limits"), [(verbs(), VERBS), (steps(), STEPS)], ids=["verbs", "steps"])
def test_names_are_written_in_no_more_places_than_before(names, limits):
    found = counts(names)
    most_literals, most_files = limits
    assert sum(found.values()) <= most_literals, found
    assert len(found) <= most_files, found


TEXT = '''
"""Free"""

@verb(acl="Free", aliases=("Free",))
async def Free():
    """Free"""
    called("Free", "FreeHost is another", "Fre" "e", b"Free", f"Free{1}")
'''


def test_docstrings_and_the_decorator_do_not_count():
    assert literals_of(TEXT) == ["Free", "FreeHost is another", "Free", "Free"]  # the last is that of the f-string


def test_the_names_are_those_of_verbs_with_their_aliases_and_of_steps_of_several_words():
    assert {"EventRecord", "RecordEvent"} <= verbs()
    assert "sync_stream" in steps()
    assert "wait" not in steps()
