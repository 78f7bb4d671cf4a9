"""Random programs: whoever follows all advice has no pair of accesses without order that was in order before.

The judge is the oracle of the sanitizer, which shares no code with it: what the documents promise. It reads the program
without the waits, with its calls in the order in which they were made.
"""

from dataclasses import replace

import pytest
from small import chosen

from acl_py.advice.pieces import Form
from acl_py.errors import DeadlockError
from acl_py.explain.recordings import asker_of
from acl_py.programs.format import parse
from tests.acl_py.advice.campaign import outcome as outcome_of_bytes
from tests.acl_py.advice.campaign import total
from tests.acl_py.advice.planting import outcomes as outcomes_of_planted
from tests.acl_py.advice.table import notebooks, unexplained
from tests.campaigns import many
from tests.sanitizer.oracle import programs
from tests.sanitizer.oracle.reading import read, unrun
from tests.sanitizer.oracle.running import run, source
from tests.sanitizer.oracle.verdicts import pairs


def without(document, gone):
    """*document* without the steps *gone*, and the new index of each step that is left. A step that comes after one
    of another task still does, and what a step that is gone came after, the next step of its task comes after.
    """
    places, steps, behind = {}, [], {}
    for index, step in enumerate(document["steps"]):
        task, after = step.get("task"), step.get("after")
        behind[task] = max(behind.get(task, -1), -1 if after is None else after)
        if index in gone:
            continue
        places[index] = len(steps)
        kept = {name: value for name, value in step.items() if name != "after"}
        earlier = [
            each for each in places if each <= behind[task] and _task(document, each) == _task(document, behind[task])
        ]
        steps.append(kept | ({"after": places[earlier[-1]]} if behind[task] >= 0 and earlier else {}))
        behind[task] = -1
    return document | {"steps": steps}, places


def _task(document, index):
    return document["steps"][index].get("task")


def unordered(document, rules, made, gone):
    """The pairs of *document* without the steps *gone* that no promise orders, as steps of *document*."""
    fewer, places = without(document, gone)
    order = [places[index] for index in made.order if index in places]
    others = {
        name: frozenset(places[index] for index in getattr(made, name) if index in places)
        for name in ("failed", "complete", "uncalled")
    }
    taken = {places[index]: places[called] for index, called in made.taken.items()}
    left = [*places]
    found = pairs(read(parse(fewer), rules, replace(made, order=order, taken=taken, **others)))
    return {(left[pair.first], left[pair.second], pair.fault) for pair in found}


def outcome(seed, rules):
    """How many waits of a random program can go, how many are needed; and the pairs that advice leaves without order.

    None if the program waits without end, or if advice puts other waits in the place of some.
    """
    document = programs.program(seed, rules)
    program = parse(document)
    try:
        ran = run(program, rules)
    except DeadlockError:
        return None
    steps = source(program, rules)[1]

    def step_of(line):
        return steps.get(int(line.site.rpartition(":")[2]))

    found = chosen(ran.trace.timeline())
    if any(each.way.form is not Form.REMOVE for each in found.advice):
        return None
    gone = {step_of(each.way.line) for each in found.advice} - {None}
    before, after = (unordered(document, rules, ran.run, each) for each in (set(), gone))
    needed = sum(each.pair is not None for each in found.verdicts)
    return len(gone), needed, after - before


def outcomes(seeds):
    return [each for seed in seeds for rules in programs.RULES if (each := outcome(seed, rules)) is not None]


@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(1, 1 + many(40)), marks=pytest.mark.slow)])
def test_all_advice_together_leaves_all_work_in_order(seeds):
    """363 programs were tried when it was longer."""
    found = outcomes(seeds)
    assert [left for _, _, left in found if left] == []
    assert sum(gone for gone, _, _ in found) > len(found)
    assert sum(needed for _, needed, _ in found) > 0


def unordered_lines(program, rules):
    """The pairs of a recorded *program* that no promise orders, by their lines."""
    found = pairs(read(program, rules, unrun(program)))
    return {(program.steps[pair.first].site, program.steps[pair.second].site, pair.fault) for pair in found}


def weaker(seed, rules):
    """What advice leaves without order in a random program of one task; None if it puts no wait in place of another."""
    document = programs.program(seed, rules)
    if any("task" in step for step in document["steps"]) or (rules == "acl" and programs.calls_back(seed)):
        return None
    try:
        timeline = run(parse(document), rules).trace.timeline()
    except DeadlockError:
        return None
    found = chosen(timeline)
    if all(each.way.form is Form.REMOVE for each in found.advice):
        return None
    before = asker_of(timeline, "random").case.program
    return unordered_lines(found.together.case.program, rules) - unordered_lines(before, rules)


@pytest.mark.slow
def test_weaker_waits_leave_all_work_in_order():
    """23 programs were tried when it was longer."""
    found = [weaker(seed, rules) for seed in range(many(40)) for rules in programs.RULES]
    assert {frozenset(each) for each in found if each is not None} == {frozenset()}


@pytest.mark.parametrize("seeds", [range(50, 51), pytest.param(range(many(40)), marks=pytest.mark.slow)])
def test_planted_waits_go_again(seeds):
    """Of the first 220 numbers, 197 of 205 programs had as few waits and as short a run as without them."""
    found = outcomes_of_planted(seeds)
    assert sum(each.is_undone for each in found) >= 0.95 * len(found) > 0


@pytest.mark.parametrize("seeds", [range(2, 3), pytest.param(range(many(10)), marks=pytest.mark.slow)])
def test_the_reader_of_all_advice_sees_the_same_bytes_in_no_more_time(seeds):
    """Programs that poll may take longer: they go on when they ask next. Longer campaigns showed that copies by rows
    had the wrong bytes in recordings, and that a record in the legacy stream is a barrier.
    """
    found = total(seeds)
    assert found.programs > 0
    assert found.wrong == []
    assert len(found.unconfirmed) <= 0.02 * found.needed
    assert found.doubts.total() <= 0.1 * found.waits


@pytest.mark.slow
def test_advice_names_an_event_that_was_made_anew():
    """A recording gives the second event of a name a number."""
    found = outcome_of_bytes(1143, "cuda")
    assert (found.left, found.other, found.pieces) == ((), (), 12)


@pytest.mark.slow
def test_the_barrier_of_a_record_in_the_legacy_stream_stays():
    found = outcome_of_bytes(1262, "cuda_per_thread")
    assert (found.left, found.other) == ((), ())


@pytest.mark.slow
def test_a_program_whose_order_rests_on_turns_of_its_tasks_is_not_right():
    assert outcome_of_bytes(1021, "cuda") is None


@pytest.mark.slow
def test_each_piece_of_advice_about_programs_of_notebooks_has_a_reason():
    assert unexplained([*notebooks()]) == []
