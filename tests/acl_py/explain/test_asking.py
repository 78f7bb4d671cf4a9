"""Questions that other processes answer: the answers, their texts and their runs are those of this process."""

import pytest
from listed import case
from test_optimiser import SERIAL

from acl_py.explain.asking import asking_of
from acl_py.explain.cases import EditError
from acl_py.explain.edits import parse_all
from acl_py.explain.optimiser import optimise
from acl_py.explain.whatif import Asker
from acl_py.many.crew import Crew

EDITS = [parse_all(text) for text in ("pinned", "chunks=4, streams=2", "kernel:none=0.5x", "h2d=2x")]


@pytest.mark.slow
def test_two_processes_answer_and_propose_as_this_one_does():
    asker = Asker(case(SERIAL))
    here = list(map(asking_of(asker), EDITS))
    with Crew(workers=2) as crew:
        there = list(crew.in_order(asking_of(asker), EDITS))
        assert optimise(asker, crew).text == optimise(asker).text
    assert [type(answer) for answer in there] == [type(answer) for answer in here]
    assert isinstance(there[2], EditError)
    assert str(there[2]) == str(here[2])
    for one, other in zip(here[:2] + here[3:], there[:2] + there[3:], strict=True):
        assert (one.text, one.run.host) == (other.text, other.run.host)
        assert (one.after.ops, one.after.calls) == (other.after.ops, other.after.calls)
