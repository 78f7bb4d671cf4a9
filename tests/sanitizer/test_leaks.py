"""Leaks: what a program never gives back, with the line that made it."""

import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import acl_py as acl
from acl_py.findings import Findings
from acl_py.sanitizer import Kind


def leaks(main, **options):
    """The leaks of *main*, without the name of this file: text, and number of the line that made it."""
    sims = []

    async def whole():
        sims.append(acl.current_simulation())
        await main()

    acl.run(whole, **({"sanitize": "leaks", "device": "tiny"} | options))
    found = [finding for finding in sims[0].findings if finding.kind is Kind.LEAK]
    first = main.__code__.co_firstlineno
    return [
        (finding.text.split(", made at ")[0], finding.accesses[0].what, int(finding.sites[0].split(":")[1]) - first)
        for finding in found
    ]


def test_what_is_given_back_is_no_leak():
    async def main():
        stream, event = await acl.CreateStream(), await acl.CreateEvent()
        device, host, pooled = await acl.Malloc(64), await acl.MallocHost(64), await acl.MallocAsync(64)
        pinned = await acl.HostRegister(np.zeros(64, np.uint8))
        await acl.DestroyStream(stream)
        await acl.DestroyEvent(event)
        await acl.Free(device)
        await acl.FreeHost(host)
        await acl.FreeAsync(pooled)
        await acl.HostUnregister(pinned)

    assert leaks(main) == leaks(main, rules="acl") == []


def test_leaks_are_grouped_by_the_line_that_made_them():
    async def main():
        for _ in range(3):
            await acl.Malloc(1 << 10)
        await acl.MallocHost(64)
        await acl.HostRegister(np.zeros(64, np.uint8))
        for _ in range(2):
            await acl.CreateStream()
        await acl.CreateStream()
        await acl.CreateEvent()

    assert leaks(main) == [
        ("3 allocations of device memory, 3.0 KiB, never freed", "Malloc", 2),
        ("1 allocation of pinned memory, 64 B, never freed", "MallocHost", 3),
        ("1 allocation of pinned memory, 64 B, never unregistered", "HostRegister", 4),
        ("2 streams never destroyed", "CreateStream", 6),
        ("1 stream never destroyed", "CreateStream", 7),
        ("1 event never destroyed", "CreateEvent", 8),
    ]


def test_a_context_takes_its_streams_and_events_with_it():
    async def main():
        context = await acl.CreateContext(0)
        await acl.CreateStream()
        await acl.CreateEvent()
        await acl.DestroyContext(context)
        other = await acl.CreateContext(0)
        await acl.CreateStream()
        assert other.destroyed is None

    assert leaks(main) == [
        ("1 context never destroyed", "CreateContext", 5),
        ("1 stream never destroyed", "CreateStream", 6),
    ]


def test_notifies_and_flag_events_leak_too():
    async def main():
        notify = await acl.CreateNotify()
        await acl.DestroyNotify(notify)
        await acl.CreateNotify()
        await acl.CreateEventWithFlag(acl.EventFlag.SYNC)

    assert leaks(main, rules="acl") == [
        ("1 notify never destroyed", "CreateNotify", 3),
        ("1 event never destroyed", "CreateEventWithFlag", 4),
    ]


def test_memory_that_a_reset_had_to_free_is_a_leak():
    async def main():
        await acl.Malloc(64)
        await acl.CreateStream()
        await acl.ResetDevice(0)

    ((text, maker, line),) = leaks(main)
    assert text.startswith("1 allocation of device memory, 64 B, never freed before the reset at test_leaks.py:")
    assert (maker, line) == ("Malloc", 1)


def test_a_simulation_that_ends_with_an_error_lists_no_leaks():
    sims = []

    async def main(*, leaks):
        sims.append(acl.current_simulation())
        if leaks:
            await acl.Malloc(64)
        raise OSError("no such thing")

    for leaks in (True, False):
        with pytest.raises(OSError, match="no such thing"):
            acl.run(partial(main, leaks=leaks), sanitize="leaks", device="tiny")
    assert [sim.findings for sim in sims] == [[], []]
    notes = [list(sim.runtime.state(Findings).notes) for sim in sims]
    assert notes == [["leaks are not listed, because the program ended with an error"], []]


def test_finalize_and_the_report_say_the_same_as_the_sanitizer():
    told = []

    async def main():
        await acl.Init()
        for _ in range(2):
            await acl.Malloc(64)
        sim = acl.current_simulation()
        told.append([line for line in sim.report().splitlines() if line.startswith("  leak")])
        told.extend(await acl.Finalize())
        told.append(sim)

    acl.run(main, sanitize="leaks", device="tiny")
    report, finalize, sim = told
    (finding,) = sim.findings
    assert report == [f"  leak: {finding.text}"]
    assert finalize == finding.text
    assert finding.text.startswith("2 allocations of device memory, 128 B, never freed, made at test_leaks.py:")


def test_nothing_is_kept_of_what_was_destroyed():
    async def main():
        for _ in range(20):
            await acl.DestroyStream(await acl.CreateStream())
            await acl.DestroyEvent(await acl.CreateEvent())
            await acl.DestroyContext(await acl.CreateContext(0))
        return repr(acl.current_simulation().runtime.sanitizer.leaks)

    assert acl.run(main, sanitize="leaks", device="tiny") == "<Leaks: 0 handles>"


def fixes(main, sanitize):
    """The fix of each leak of *main*, with the numbers of its lines."""

    async def whole():
        await main()
        return acl.current_simulation()

    sim = acl.run(whole, device="tiny", sanitize=sanitize)
    first, file = main.__code__.co_firstlineno, Path(__file__).name
    return [
        re.sub(rf"{file}:(\d+)", lambda at: f"line {int(at[1]) - first}", finding.fix)
        for finding in sim.findings
        if finding.kind is Kind.LEAK
    ]


def test_a_leak_says_what_to_call_and_behind_which_line():
    async def main():
        host, stream = await acl.MallocHost(64), await acl.CreateStream(name="up")
        device = await acl.Malloc(64, name="weights")
        host.numpy(np.uint8)[:] = 1
        await acl.MemcpyAsync(device, 64, host, 64, acl.MemcpyKind.HOST_TO_DEVICE, stream)
        await acl.SynchronizeStream(stream)
        host.numpy(np.uint8)[:] = 1

    assert fixes(main, "host,leaks") == [
        "FreeHost(what line 1 made) after line 6",
        "Free('weights') when the work of line 4 is over",
        "DestroyStream('up') before the program ends",
    ]
    assert fixes(main, "leaks") == [
        "FreeHost(what line 1 made) before the program ends",
        "Free('weights') before the program ends",
        "DestroyStream('up') before the program ends",
    ]


@pytest.mark.parametrize(
    ("launches", "found"),
    [(-1, []), (0, []), (1, [("1 allocation of device memory, 64 B, never freed", "MallocAsync", 3)])],
)
def test_memory_of_a_graph_leaks_once_it_was_launched(launches, found):
    async def main():
        stream = await acl.CreateStream()
        await acl.BeginCapture(stream)
        await acl.MallocAsync(64, stream)
        graph = await acl.EndCapture(stream)
        if launches >= 0:
            executable = await acl.GraphInstantiate(graph)
            for _ in range(launches):
                await acl.GraphLaunch(executable, stream)
            await acl.GraphExecDestroy(executable)
        await acl.GraphDestroy(graph)
        await acl.DestroyStream(stream)

    assert leaks(main, rules="cuda") == found
