"""Fixes: the edge of each finding, put into the program: the finding is gone, and what it costs."""

from itertools import islice
from statistics import median

import pytest

import acl_py as acl
from acl_py.explain.cases import Case, EditError
from acl_py.explain.edges import Edge, with_edges
from acl_py.explain.fixes import Fixer, try_fixes
from acl_py.parts import parts_of
from acl_py.programs.format import parse
from acl_py.programs.replay import replay
from acl_py.sanitizer.watch import watching
from device_model.rules import RULES
from tests.campaigns import many
from tests.sanitizer.fixing import DEVICE, attempt_of, attempts, by_host, found, made_of
from tests.sanitizer.oracle.reading import read
from tests.sanitizer.oracle.running import run
from tests.sanitizer.oracle.verdicts import pairs

US = 10


def case(*steps, rules="cuda", **more):
    buffers = {"d": {"space": "device", "bytes": 64}, "p": {"space": "pinned", "bytes": 64}}
    streams = {"A": {}, "B": {}, "C": {}}
    document = {"id": "program", "gap_us": 0, "buffers": buffers, "streams": streams, "steps": [*steps]} | more
    return Case(parse(document), DEVICE, RULES[rules])


def write(stream, **more):
    return {"op": "launch", "stream": stream, "us": US, "writes": [["d", 0, 64]]} | more


def copy(stream, **more):
    return {"op": "memcpy_async", "dst": "p", "src": "d", "bytes": 64, "stream": stream} | more


def steps_of(program):
    return [
        (step.op, *(step.fields.get(name) for name in ("event", "stream") if name in step.fields))
        for step in program.steps
    ]


def mended(before):
    """The steps of *before* with all that mends it; nothing is left."""
    attempt = attempt_of(before)
    assert attempt is not None
    assert attempt.all.left == ()
    assert found(Case(attempt.all.program, before.device, before.rules)) == []
    return steps_of(attempt.all.program)


def test_a_stream_waits_for_another_one_with_an_event():
    before = case(write("A"), copy("B"))
    assert mended(before) == [
        ("launch", "A"), ("record", "fix 0", "A"), ("wait", "fix 0", "B"), ("memcpy_async", "B"),
    ]  # fmt: skip


def test_what_a_fix_costs_is_the_difference_of_two_runs():
    before = case(write("A", us=100), copy("B"))
    attempt = attempt_of(before)
    runs = [replay(each, device="tiny", rules="cuda") for each in (before.program, attempt.all.program)]
    cost_us = runs[1].done_us - runs[0].done_us
    assert cost_us > 0
    [trial] = [finding.tried for finding in attempt.findings]
    assert trial.is_gone
    assert trial.cost_us == pytest.approx(cost_us)
    assert trial.text == f"the finding is gone, it costs {cost_us:.1f} us"


def test_a_host_waits_for_the_stream():
    before = case(copy("A"), {"op": "host_read", "buf": "p"})
    assert mended(before) == [("memcpy_async", "A"), ("sync_stream", "A"), ("host_read",)]


def test_a_host_access_waits_for_the_stream():
    before = case(copy("A"), {"op": "host_access", "reads": [["p", 0, 4], ["p", 8, 12]]})
    assert mended(before) == [("memcpy_async", "A"), ("sync_stream", "A"), ("host_access",)]


def test_an_access_right_behind_the_call_of_a_host_function_waits_for_it():
    function = {"op": "host_func", "stream": "A", "us": 2, "buf": "p"}
    before = case(function, {"op": "host_access", "reads": [["p", 0, 4]]})
    assert mended(before) == [("host_func", "A"), ("sync_stream", "A"), ("host_access",)]


def trial_of(before):
    """What came of the fix of the only finding of *before*, of a kind that no edge mends, and what to do."""
    with watching(parts_of("host,device,uninitialised")):
        [finding] = replay(before.program, device=before.device, rules=before.rules).findings
    [tried] = try_fixes([Fixer(before)], [finding])
    return tried.fix, tried.tried


def test_unwritten_bytes_of_the_device_are_filled_before_they_are_read():
    make, read = {"op": "malloc", "name": "m", "bytes": 64}, copy("A", src="m")
    fix, trial = trial_of(case(make, read))
    assert fix == "fill or copy to 'm'[0:64] before step:1"
    assert trial.is_gone
    assert trial.cost_us > 0


def test_unwritten_bytes_of_the_host_are_written_before_they_are_read():
    make = {"op": "malloc_host", "name": "m", "bytes": 64}
    write_half = {"op": "host_access", "writes": [["m", 0, 16], ["m", 32, 40]]}
    fix, trial = trial_of(case(make, write_half, copy("A", dst="d", src="m")))
    assert fix == "write 'm'[16:32], 'm'[40:64] before step:2"
    assert (trial.is_gone, trial.cost_us) == (True, 0)


def test_memory_is_freed_behind_its_last_use():
    make = {"op": "malloc_host", "name": "m", "bytes": 64}
    use = {"op": "host_access", "writes": [["m", 0, 16]]}
    fix, trial = trial_of(case(make, {"op": "free_host", "name": "m"}, use))
    assert fix == "move FreeHost from step:1 behind step:2"
    assert (trial.is_gone, trial.text) == (True, "the finding is gone, it costs nothing")


def test_a_second_free_is_taken_out():
    make, free = {"op": "malloc", "name": "m", "bytes": 64}, {"op": "free", "name": "m"}
    fix, trial = trial_of(case(make, free, free))
    assert fix == "take out free at step:2"
    assert trial.is_gone


def test_a_host_in_another_context_waits_for_an_event():
    """Under ACL's rules it cannot synchronise with a stream of a context that is not current."""
    make = [{"op": "create_context", "context": "c"}, {"op": "create_stream", "name": "S"}]
    before = case(
        *make, copy("S"), {"op": "set_context", "context": "primary"}, {"op": "host_read", "buf": "p"}, rules="acl"
    )
    attempt = attempt_of(before)
    [finding] = attempt.findings
    assert finding.tried.is_gone
    assert finding.tried.text.startswith(
        "with SynchronizeEvent(), for a record behind the first access: the finding is gone"
    )
    assert steps_of(attempt.all.program)[2:] == [
        ("memcpy_async", "S"), ("record", "fix 2", "S"), ("set_context",), ("sync_event", "fix 2"), ("host_read",),
    ]  # fmt: skip


def test_memory_is_freed_behind_the_work():
    before = case(write("A"), {"op": "free", "name": "d"}, rules="acl")
    assert mended(before) == [("launch", "A"), ("sync_stream", "A"), ("free",)]


def test_memory_of_a_pool_is_freed_in_its_turn():
    allocate = {"op": "malloc_async", "name": "m", "bytes": 64, "stream": "A"}
    use = write("B", writes=[["m", 0, 64]])
    free = {"op": "free_async", "name": "m", "stream": "C"}
    assert mended(case(allocate, use, free)) == [
        ("malloc_async", "A"), ("record", "fix 0", "A"), ("wait", "fix 0", "B"), ("launch", "B"),
        ("record", "fix 1", "B"), ("wait", "fix 1", "C"), ("free_async", "C"),
    ]  # fmt: skip


def test_a_task_waits_for_another_one():
    before = case({"op": "host_write", "buf": "p", "value": 1}, write("A", reads=[["p", 0, 64]], task="b"))
    attempt = attempt_of(before)
    assert [(step.op, step.after) for step in attempt.all.program.steps] == [
        ("host_write", None), ("host_work", 0), ("launch", None),
    ]  # fmt: skip
    assert found(Case(attempt.all.program, before.device, before.rules)) == []


def test_a_wait_in_another_task_comes_after_the_record():
    """Task b has the earlier steps of the file, and makes its call later."""
    sleep = {"op": "sleep", "us": 50, "task": "b"}
    before = case(sleep, copy("B", task="b"), write("A"))
    attempt = attempt_of(before)
    steps = attempt.all.program.steps
    assert [step.op for step in steps] == ["sleep", "launch", "record", "wait", "memcpy_async"]
    assert steps[3].task == "b"
    assert steps[3].after == 2


def test_one_edge_mends_what_lies_behind_it():
    before = case(write("A"), write("A"), copy("B"), copy("B"))
    attempt = attempt_of(before)
    assert len(attempt.findings) == 4
    assert all(finding.tried.is_gone for finding in attempt.findings[:1])
    assert attempt.all.edges == (("step:1", "step:2"),)


def test_an_edge_that_another_one_makes_needless_is_left_out():
    """B waits for A, and C for B: C needs no edge from A."""
    before = case(write("A"), write("B"), write("C"))
    assert attempt_of(before).all.edges == (("step:0", "step:1"), ("step:1", "step:2"))


def test_the_fix_of_a_line_is_made_each_time():
    loop = [{**step, "site": f"demo.py:{line}"} for _ in range(3) for line, step in ((7, write("A")), (8, copy("B")))]
    before = case(*loop)
    attempt = attempt_of(before)
    first = next(finding for finding in attempt.findings if finding.sites == ("demo.py:7", "demo.py:8"))
    assert first.tried.is_gone
    assert attempt.all.left == ()
    assert {step.site for step in attempt.all.program.steps} == {"demo.py:7", "demo.py:8"}


def test_accesses_that_the_program_does_not_have_are_not_tried():
    finding = found(case(write("A"), copy("B")))
    fixer = Fixer(case(write("A")))
    [tried] = try_fixes([fixer], finding)
    assert not tried.tried.is_gone
    assert tried.tried.text == "not tried: a program of the calls of this run does not have these accesses"
    assert fixer.mend(finding).edges == ()


def test_a_call_that_fails_is_not_tried():
    async def main():
        stream = await acl.CreateStream()
        await acl.DestroyStream(stream)
        with pytest.raises(acl.AclError):
            await acl.SynchronizeStream(stream)
        return acl.current_simulation().findings

    [tried] = try_fixes([Fixer(case(write("A")))], acl.run(main, device="tiny", sanitize="device"))
    assert (tried.kind, tried.tried.text) == ("after destroy", "not tried: a call that fails is not recorded")


def test_a_wait_for_the_stream_that_would_never_end_gives_way_to_one_for_an_event():
    """Behind the copy, stream B waits for the word, which the host writes when it has waited for B."""
    zero = {"op": "memset", "dst": "d", "bytes": 64}
    word = {"buf": "d", "value": 1}
    before = case(
        zero, copy("B"), {"op": "value_wait", "stream": "B", **word}, {"op": "host_read", "buf": "p"},
        {"op": "value_write", "stream": "A", **word}, rules="acl",
    )  # fmt: skip
    fixer = Fixer(before)
    [lines] = fixer.missing
    [tried] = try_fixes([fixer], found(before))
    assert lines == ("step:1", "step:3")
    assert tried.tried.is_gone
    assert tried.tried.text.startswith("with SynchronizeEvent(), for a record behind the first access: ")


def test_the_host_cannot_wait_for_itself():
    with pytest.raises(EditError, match="the host makes both accesses"):
        with_edges(case(write("A"), write("B")), [Edge(0, 1, None, None)])


def test_an_edge_goes_forward():
    with pytest.raises(EditError, match="step 1 comes after step 0, which should wait for it"):
        with_edges(case(write("A"), write("B")), [Edge(1, 0, "B", "A")])


def test_the_first_fix_removes_its_finding_in_random_programs():
    _check(2)


@pytest.mark.slow
def test_the_first_fix_removes_its_finding_in_many_random_programs():
    """It did in 300 (`python -m tests.sanitizer.fixing 300`)."""
    _check(many(60))


def test_the_first_fix_removes_its_finding_in_random_scripts():
    _check_scripts(2)


@pytest.mark.slow
def test_the_first_fix_removes_its_finding_in_many_random_scripts():
    """It did in 300 (`python -m tests.sanitizer.fixing 300 scripts`)."""
    _check_scripts(many(60))


def _check_scripts(number):
    tried = [*islice(attempts(scripts=True), number)]
    assert [each.case.program.id for each in tried if not each.findings[0].tried.is_gone] == []
    hosts = [(each.case.program.id, finding) for each in tried for finding in by_host(each)]
    assert [(name, finding.sites) for name, finding in hosts if not finding.tried.is_gone] == []
    assert len(hosts) > number // 4


def _check(number):
    tried = [*islice(attempts(), number)]
    assert [each.case.program.id for each in tried if not each.findings[0].tried.is_gone] == []
    assert [each.case.program.id for each in tried if each.findings[0].sites in each.first.left] == []
    assert median(len(each.first.edges) for each in tried) == 1
    for each in tried:
        _check_with_oracle(each)


def _check_with_oracle(attempt):
    """The documents order the pair, too, in the program with the first fix."""
    before, fixed = attempt.case.program, attempt.first.program
    if {step.task for step in before.steps} != {None}:
        return
    outcome = run(fixed, attempt.case.rules.name)
    places = made_of(before, fixed)
    wrong = {
        (places[pair.first], places[pair.second]) for pair in pairs(read(fixed, attempt.case.rules.name, outcome.run))
    }
    assert not {*attempt.first.edges} & {(f"step:{one}", f"step:{other}") for one, other in wrong}
