"""Findings: what makes two of them the same, their ids, and how simulations keep and tell them."""

import asyncio

import numpy as np
import pytest

import acl_py
from acl_py import asc
from acl_py.findings import Findings
from acl_py.parts import SanitizerPart, parts_of
from acl_py.sanitizer import Access, Finding, Kind, Span
from acl_py.sanitizer.watch import watching

WRITE = Access("h2d 'weights'", True, "task 1", "stream 'copies'", "demo.py:38", at_ns=1_000, file="/home/me/demo.py")
READ = Access("kernel 'add'", False, "task 1", "stream 2", "demo.py:41", at_ns=2_000, file="/home/me/demo.py")
RACE = Finding(Kind.RACE, "kernel 'add' may read the weights early", (WRITE, READ), (Span("'weights'", 0, 4096),))


def quiet():
    findings = Findings()
    findings.is_quiet = True
    return findings


def moved(finding, **changes):
    """*finding*, seen on another machine, in another task and at another time."""
    accesses = tuple(
        Access(each.what, each.writes, "task 9", each.stream, each.site, ("main.py:1",), 7, f"/elsewhere/{each.site}")
        for each in finding.accesses
    )
    return Finding(finding.kind, "other words", accesses, finding.spans, count=3, **changes)


def test_an_id_is_made_of_kind_lines_and_names_only():
    assert moved(RACE).id == RACE.id == "race-1e00ec15"
    other_line = Finding(Kind.RACE, RACE.text, (WRITE, Access("kernel 'add'", False, "", "", "demo.py:42")), RACE.spans)
    other_name = Finding(Kind.RACE, RACE.text, RACE.accesses, (Span("'biases'", 0, 4096),))
    other_kind = Finding(Kind.FREE_IN_USE, RACE.text, RACE.accesses, RACE.spans)
    assert len({each.id for each in (RACE, other_line, other_name, other_kind)}) == 4
    assert other_kind.id.startswith("free-in-use-")


def test_what_is_found_again_is_counted():
    findings = quiet()
    for finding in (RACE, moved(RACE), RACE):
        findings.add(finding)
    (kept,) = findings
    assert (kept.text, kept.count, str(kept)) == (RACE.text, 5, f"race: {RACE.text} (5 times)")
    assert str(kept.spans[0]) == "'weights'[0:4,096]"


def test_a_new_finding_is_told_once(capsys):
    findings = Findings()
    findings.add(RACE)
    findings.add(RACE)
    assert capsys.readouterr().err == f"race: {RACE.text}\n"


@pytest.mark.parametrize(
    ("sanitize", "parts"),
    [
        (True, {SanitizerPart.DEVICE, SanitizerPart.HOST, SanitizerPart.UNINITIALISED, SanitizerPart.LEAKS}),
        (False, set()),
        ("leaks", {SanitizerPart.LEAKS}),
        ("device, uninitialised", {SanitizerPart.DEVICE, SanitizerPart.UNINITIALISED}),
        ("host", {SanitizerPart.HOST, SanitizerPart.DEVICE}),  # host accesses are checked against operations
        ("digest", {SanitizerPart.DIGEST}),
    ],
)
def test_the_parts_of_sanitize(sanitize, parts):
    assert parts_of(sanitize) == parts


def test_an_unknown_part_is_refused_with_those_that_there_are():
    message = (
        "the sanitizer has no part 'races', in sanitize='device,races'; it has device, host, uninitialised, leaks, "
        "digest; give one or more, with commas, or True for all but digest"
    )
    with pytest.raises(ValueError) as refused:
        acl_py.run(does_nothing, device="tiny", sanitize="device,races")
    assert str(refused.value) == message
    with pytest.raises(ValueError, match="has no part ''"):
        parts_of("")
    with pytest.raises(TypeError, match=r"sanitize must be True, False or a str such as 'device,host', not 1"):
        parts_of(1)


async def does_nothing():
    await acl_py.SynchronizeDevice()


@asc.kernel
def hasty(x: asc.Out):
    target = asc.GlobalTensor(asc.int32).SetGlobalBuffer(x)
    asc.DataCopy(target, asc.LocalTensor(asc.int32, asc.TPosition.VECCALC, 0, 8), 8)


async def makes_a_mistake():
    out = await acl_py.Malloc(32)
    await hasty[1](out)
    await acl_py.SynchronizeDevice()
    return acl_py.current_simulation().findings


def test_mistakes_of_core_kernels_have_the_form_of_all_findings(capsys):
    (finding,) = acl_py.run(makes_a_mistake, device="ascend910b3", workers=1)
    assert (finding.kind, finding.rule, finding.kernel) == (Kind.KERNEL, asc.Rule.UNWRITTEN_READ, "hasty")
    assert finding.where == "block 0 (AIV)"
    (access,) = finding.accesses
    line = hasty.function.__code__.co_firstlineno + 3
    assert (access.what, access.site, access.file) == ("kernel 'hasty'", f"test_findings.py:{line}", __file__)
    assert finding.sites == (access.site,)
    assert capsys.readouterr().err == f"{finding}\n"


def test_a_watch_keeps_the_findings_of_all_simulations_that_begin_in_it(capsys):
    with watching(parts_of("device")) as watch:
        (finding,) = acl_py.run(makes_a_mistake, device="ascend910b3")
        acl_py.run(makes_a_mistake, device="ascend910b3")
    acl_py.run(makes_a_mistake, device="ascend910b3")
    (kept,) = watch.findings
    assert (kept.id, kept.count) == (finding.id, 2)
    assert capsys.readouterr().err.count("kernel hasty") == 1  # of the last one, after the watch


def test_a_watch_chooses_the_parts_of_simulations_that_do_not_say():
    async def parts():
        sanitizer = acl_py.current_simulation().runtime.sanitizer
        return None if sanitizer is None else sanitizer.parts

    with watching(parts_of("leaks")):
        assert acl_py.run(parts) == {SanitizerPart.LEAKS}
        assert acl_py.run(parts, sanitize="device") == {SanitizerPart.DEVICE}
        assert acl_py.run(parts, sanitize=False) is None
    assert acl_py.run(parts) is None


async def two_races(between):
    """Two writes to each of two buffers from two streams each; *between* is called after those to the first one."""
    simulation = acl_py.current_simulation()
    for name in ("first", "second"):
        buffer = await acl_py.Malloc(4096, name=name)
        for _ in range(2):
            await acl_py.MemsetAsync(buffer, 4096, 7, 4096, await acl_py.CreateStream())
        between(simulation)
    await acl_py.SynchronizeDevice()
    host = await acl_py.MallocHost(4096)
    await acl_py.Memcpy(host, 4096, buffer, 4096, acl_py.MemcpyKind.DEVICE_TO_HOST)
    return simulation, bytes(host.numpy().tobytes())


def test_a_sanitizer_that_fails_is_a_note_and_what_it_found_is_kept():
    def fail(simulation):
        if not simulation.runtime.state(Findings).notes:
            simulation.runtime.sanitizer.fail(ZeroDivisionError("in a checker"))

    with watching(parts_of("device")) as watch:
        simulation, host = acl_py.run(two_races, fail, device="tiny")
    (finding,) = simulation.findings
    assert (finding.spans[0].buffer, host) == ("'first'", b"\7" * 4096)
    assert watch.notes == ["the sanitizer failed: ZeroDivisionError: in a checker; what it found until then is kept"]


def test_the_sanitizer_changes_neither_times_nor_bytes(capsys):
    runs = [
        acl_py.run(two_races, lambda _: None, device="tiny", sanitize=sanitize) for sanitize in (False, "device", True)
    ]
    times = [
        [(op.name, op.start_ns, op.end_ns) for op in simulation.trace.ops] + [simulation.runtime.host_ns]
        for simulation, _ in runs
    ]
    assert times[0] == times[1] == times[2]
    assert len({host for _, host in runs}) == 1
    found = [[finding.kind for finding in simulation.findings] for simulation, _ in runs]
    assert found[0] == []
    assert found[1] == [Kind.RACE, Kind.RACE]
    assert Kind.LEAK in found[2]
    assert capsys.readouterr().err.count("race: ") == 4


@acl_py.kernel(cost=acl_py.Cost(us=50))
def fill(x: acl_py.Out):
    x[:] = 1


def test_findings_of_all_parts_and_the_trace_call_a_task_without_a_name_the_same():
    async def mistakes(x, gone):
        stream, array, unwritten = await acl_py.CreateStream(), np.ones(64, np.uint8), await acl_py.Malloc(64)
        pinned = await acl_py.HostRegister(array)
        with pytest.raises(acl_py.AclError):
            await acl_py.Memset(gone, 64, 0, 64)
        await fill[1, stream](x)
        await acl_py.MemcpyAsync(unwritten, 32, pinned, 32, acl_py.MemcpyKind.HOST_TO_DEVICE, stream)
        array[0] = 2
        await acl_py.MemcpyAsync(x, 64, unwritten, 64, acl_py.MemcpyKind.DEVICE_TO_DEVICE, stream)
        await acl_py.SynchronizeStream(stream)

    async def main():
        x, gone, stream = await acl_py.Malloc(64), await acl_py.Malloc(64), await acl_py.CreateStream()
        await acl_py.Free(gone)
        await fill[1, stream](x)
        await asyncio.create_task(mistakes(x, gone))
        return acl_py.current_simulation()

    sim = acl_py.run(main, device="tiny", sanitize="device,uninitialised,digest")
    uses = {(each.kind.value, access.caller) for each in sim.findings for access in each.accesses if access.caller}
    assert uses == {
        ("race", "task 1"), ("race", "task 2"), ("use after free", "task 2"), ("uninitialised", "task 2"),
    }  # fmt: skip
    assert "the host changed" in "".join(map(str, sim.findings))
    assert list(dict.fromkeys(call.caller for call in sim.trace.calls)) == ["task 1", "task 2"]
