"""Edits that leave accesses without order, and edits that do not: what-ifs tell them apart, as the documents do."""

from collections.abc import Iterator
from itertools import islice

import pytest

from acl_py.errors import DeadlockError
from acl_py.explain.cases import Case, EditError
from acl_py.explain.edits import apply, parse
from acl_py.explain.whatif import Answer, Asker
from acl_py.programs.format import parse as program_of
from acl_py.programs.replay import replay
from device_model.profile import load
from device_model.rules import RULES
from tests.sanitizer.oracle import programs
from tests.sanitizer.oracle.edits import ORDERING
from tests.sanitizer.oracle.reading import read
from tests.sanitizer.oracle.running import run
from tests.sanitizer.oracle.verdicts import pairs

DEVICE = load("tiny")


def edits() -> Iterator[tuple[Case, Case, str]]:
    """Programs in which all is in order, each with one edit after the other."""
    seed = 0
    while True:
        rules = programs.RULES[seed % len(programs.RULES)]
        program = program_of(programs.program(seed, rules))
        case = Case(program, DEVICE, RULES[rules])
        seed += 1
        if {step.task for step in program.steps} != {None} or is_racy(case) is not False:
            continue
        for name in ("nonblocking", "streams=2") if rules != "acl" else ("streams=2",):
            try:
                yield case, apply(parse(name), case), name
            except EditError:
                continue
        for step in program.steps:
            if step.op in ORDERING:
                yield case, case.with_steps(lambda each, out=step: [] if each is out else [each]), f"no {step.op}"


def is_racy(case: Case) -> bool | None:
    """Whether the documents leave accesses of *case* without order; None if it waits without end."""
    try:
        calls = read(case.program, case.rules.name, run(case.program, case.rules.name).run)
    except DeadlockError:
        return None
    return any(not pair.relies for pair in pairs(calls))


def answers() -> Iterator[tuple[Answer, bool]]:
    """What is said of each edit, and whether it brings a race."""
    asker, of = None, None
    for case, edited, name in edits():
        if of is not case:
            asker, of = Asker(case), case
        assert asker is not None
        racy = is_racy(edited)
        try:
            answer = asker.compare(edited, f"{case.program.id}: {name}")
        except EditError:
            continue
        if racy is not None:
            yield answer, racy


@pytest.mark.slow
def test_edits_that_bring_a_race_are_told_from_those_that_do_not():
    _check(2)


@pytest.mark.slow
def test_100_edits_of_which_50_bring_a_race_are_told_apart():
    _check(50)


def _check(number: int) -> None:
    """Take a *number* of edits of either sort."""
    seen: dict[bool, list[Answer]] = {True: [], False: []}
    for answer, racy in islice(answers(), 2000):
        if len(seen[racy]) < number:
            seen[racy].append(answer)
        if all(len(each) == number for each in seen.values()):
            break
    assert [len(each) for each in seen.values()] == [number, number]
    assert [answer.edits for answer in seen[True] if not answer.conflicts] == []
    assert [(answer.edits, answer.conflicts) for answer in seen[False] if answer.conflicts] == []


def test_what_a_step_that_is_gone_came_after_the_next_step_of_its_task_comes_after():
    def step(op, **fields):
        return {"op": op, **fields}

    document = {
        "id": "p",
        "streams": {"s": {}},
        "steps": [
            step("sleep", us=5),
            step("sleep", us=7, task="b"),
            step("sync_stream", stream="s", task="c", after=0),
            step("sync_stream", stream="s", task="c", after=1),
            step("sleep", us=1, task="c"),
            step("sleep", us=1),
        ],
    }
    case = Case(program_of(document), DEVICE, RULES["cuda"])
    fewer = case.with_steps(lambda step: [] if step.op == "sync_stream" else [step])
    assert [(step.op, step.task, step.after) for step in fewer.program.steps] == [
        ("sleep", None, None),
        ("sleep", "b", None),
        ("host_work", "c", 0),
        ("sleep", "c", 1),
        ("sleep", None, None),
    ]
    before, after = (replay(each.program, device=DEVICE) for each in (case, fewer))
    assert 8 < after.host[3].exit_us < before.host[4].exit_us
