"""Findings: each pitfall in the smallest program that has it, and the line that is named."""

import asyncio
from ast import PyCF_ALLOW_TOP_LEVEL_AWAIT
from linecache import getline

import numpy as np
import pytest
from histories import D2H, DEFAULT, H2D, H2H, busy

import acl_py
from acl_py.causes.findings import Pitfall, findings, findings_text
from device_model.profile import load

SIZE = 10_000
US = 1_000


def found(program, **options):
    """What the run of *program* has: (pitfall, source of the line, microseconds that it held, number of times)."""

    async def main():
        await program()
        return acl_py.current_simulation().trace.timeline()

    timeline = acl_py.run(main, **{"device": "tiny", "workers": 1} | options)
    return [
        (str(each.pitfall), source(each.site), each.held_ns // US, len(each.calls) or len(each.ops))
        for each in findings(timeline)
    ]


def source(site):
    name, line = site.split(":")
    assert name == "test_findings.py"
    return getline(__file__, int(line)).strip().removeprefix("await ")


kernel, other = busy("kernel", 50), busy("other", 50)


def test_a_program_that_asks_for_all_its_waits_has_no_findings():
    async def program():
        stream = await acl_py.CreateStream()
        host, device = await acl_py.MallocHost(SIZE), await acl_py.Malloc(SIZE)
        await acl_py.MemcpyAsync(device, SIZE, host, SIZE, H2D, stream)
        await kernel[1, stream]()
        await acl_py.SynchronizeStream(stream)

    assert found(program) == []


def test_a_line_that_stages_and_once_waits_for_room_has_one_finding():
    """The first copy only goes through the buffers; they are full of it when the second one comes, behind a kernel."""

    async def program():
        stream, array, there = await acl_py.CreateStream(), np.zeros(8_192, np.uint8), await acl_py.Malloc(8_192)
        await kernel[1, stream]()
        texts.append(await copy(there, array, stream))
        texts.append(await copy(there, array, stream))
        await acl_py.SynchronizeDevice()

    async def copy(there, array, stream):
        await acl_py.MemcpyAsync(there, 8_192, array, 8_192, H2D, stream)
        return [each.what for each in findings(acl_py.current_simulation().trace.timeline())]

    texts = []
    line = "MemcpyAsync(there, 8_192, array, 8_192, H2D, stream)"
    assert [each[:2] + each[3:] for each in found(program)] == [("pageable copy", "acl_py." + line, 2)]
    staged = "a copy from pageable memory kept the host, which copied the bytes to buffers of the driver"
    assert texts == [[staged], [f"{staged} and waited for room in them"]]


def test_the_legacy_stream_in_both_directions():
    async def program():
        stream = await acl_py.CreateStream()
        await kernel[1, stream]()
        await kernel[1]()
        await other[1, stream]()
        await acl_py.SynchronizeDevice()

    assert found(program) == [
        ("legacy stream", "kernel[1]()", 50, 1),  # other waits for it
        ("legacy stream", "kernel[1]()", 49, 1),  # it waits for the first kernel
    ]


def test_a_nonblocking_stream_is_the_edit():
    async def program():
        stream = await acl_py.CreateStream(nonblocking=True)
        await kernel[1, stream]()
        await kernel[1]()
        await other[1, stream]()
        await acl_py.SynchronizeDevice()

    assert found(program) == []


@pytest.mark.parametrize("rules", ["cuda", "acl"])
def test_pageable_copies(rules):
    async def program():
        array = np.zeros(SIZE, np.uint8)
        device, stream = await acl_py.Malloc(SIZE), await acl_py.CreateStream()
        for _ in range(3):
            await kernel[1, stream]()
            await acl_py.MemcpyAsync(array, SIZE, device, SIZE, D2H, stream)

    ((pitfall, line, held, times),) = found(program, rules=rules)
    assert (pitfall, times) == ("pageable copy", 3)
    assert line == "acl_py.MemcpyAsync(array, SIZE, device, SIZE, D2H, stream)"
    assert held >= 3 * 50


def test_a_copy_from_host_to_host():
    async def program():
        array, again = np.zeros(SIZE, np.uint8), np.zeros(SIZE, np.uint8)
        stream = await acl_py.CreateStream()
        await kernel[1, stream]()
        await acl_py.MemcpyAsync(again, SIZE, array, SIZE, H2H, stream)

    assert found(program) == [("synchronous copy", "acl_py.MemcpyAsync(again, SIZE, array, SIZE, H2H, stream)", 50, 1)]


def test_a_synchronous_copy():
    async def program():
        host, device = await acl_py.MallocHost(SIZE), await acl_py.Malloc(SIZE)
        await acl_py.Memcpy(device, SIZE, host, SIZE, H2D)

    assert found(program) == [("synchronous copy", "acl_py.Memcpy(device, SIZE, host, SIZE, H2D)", 10, 1)]


@pytest.mark.parametrize(
    ("make", "give_back"),
    [
        (acl_py.Malloc, acl_py.Free),
        (acl_py.MallocHost, acl_py.FreeHost),
        (lambda size: acl_py.HostRegister(np.zeros(size, np.uint8)), acl_py.HostUnregister),
    ],
    ids=["Free", "FreeHost", "HostUnregister"],
)
def test_a_free_that_waits_for_the_device(make, give_back):
    async def program():
        stream = await acl_py.CreateStream(nonblocking=True)
        memory = await make(SIZE)
        await kernel[1, stream]()
        await give_back(memory)

    assert found(program) == [("free", "give_back(memory)", 50, 1)]
    assert found(program, rules="acl") == []


def test_a_destroy_that_waits_for_its_stream():
    async def program():
        stream = await acl_py.CreateStream()
        await kernel[1, stream]()
        await acl_py.DestroyStream(stream)

    assert found(program, rules="acl") == [("destroy", "acl_py.DestroyStream(stream)", 49, 1)]
    assert found(program) == []


# Each verb that waits for room in a queue, as a program calls it.
QUEUING = dict(
    line.split(": ", 1)
    for line in """\
LaunchKernel: await acl_py.LaunchKernel(kernel, 1, (), stream)
MemcpyAsync: await acl_py.MemcpyAsync(there, 8, pinned, 8, H2D, stream)
Memcpy2dAsync: await acl_py.Memcpy2dAsync(there, 8, pinned, 8, 8, 1, H2D, stream)
MemsetAsync: await acl_py.MemsetAsync(there, 8, 0, 8, stream)
MemPrefetchAsync: await acl_py.MemPrefetchAsync(managed, 4096, 0, stream)
GraphLaunch: await acl_py.GraphLaunch(executable, stream)
""".splitlines()
)


@pytest.mark.parametrize("name", QUEUING)
def test_a_full_queue(name):
    call = compile(QUEUING[name], __file__, "eval", PyCF_ALLOW_TOP_LEVEL_AWAIT)

    async def program():
        stream = await acl_py.CreateStream()
        names = {"stream": stream, "there": await acl_py.Malloc(8), "pinned": await acl_py.MallocHost(8)}
        names["managed"] = await acl_py.MallocManaged(4096)
        await acl_py.BeginCapture(stream)
        await kernel[1, stream]()
        names["executable"] = await acl_py.GraphInstantiate(await acl_py.EndCapture(stream))
        await kernel[1, stream]()
        for _ in range(load("tiny").queues.depth + 1):
            await eval(call, globals() | names)
        timeline = acl_py.current_simulation().trace.timeline()
        (full,) = [each for each in findings(timeline) if each.pitfall is Pitfall.FULL_QUEUE]
        assert {timeline.calls[index].name for index in full.calls} == {name}

    acl_py.run(program, device="tiny", workers=1)


def test_calls_that_order_nothing_new():
    async def program():
        one, two = await acl_py.CreateStream(), await acl_py.CreateStream()
        event = await acl_py.CreateEvent()
        await kernel[1, one]()
        await acl_py.RecordEvent(event, one)
        await acl_py.StreamWaitEvent(two, event)
        await acl_py.StreamWaitEvent(two, event)
        await acl_py.StreamWaitEvent(one, event)
        await kernel[1, two]()
        await acl_py.SynchronizeStream(two)
        await acl_py.SynchronizeEvent(event)
        await acl_py.SynchronizeDevice()

    lines = {line for pitfall, line, _, _ in found(program) if pitfall == "orders nothing new"}
    assert lines == {
        "acl_py.StreamWaitEvent(two, event)",
        "acl_py.StreamWaitEvent(one, event)",
        "acl_py.SynchronizeEvent(event)",
        "acl_py.SynchronizeDevice()",
    }


def test_a_wait_for_a_notify_that_is_recorded_later_orders_something():
    async def program():
        one, two = await acl_py.CreateStream(), await acl_py.CreateStream()
        notify = await acl_py.CreateNotify()
        for _ in range(2):
            await acl_py.WaitAndResetNotify(notify, two)
            await kernel[1, two]()
            await kernel[1, one]()
            await acl_py.RecordNotify(notify, one)
        await acl_py.SynchronizeDevice()

    assert found(program, rules="acl") == []


def test_a_line_that_orders_something_once_is_no_finding():
    async def program():
        stream = await acl_py.CreateStream()
        for rounds in range(3):
            if rounds == 1:
                await kernel[1, stream]()
            await acl_py.SynchronizeStream(stream)

    assert found(program) == []


def test_what_another_task_has_waited_for_is_not_known():
    """The tasks may tell each other, but the recording cannot show it: no finding."""

    async def program():
        stream = await acl_py.CreateStream()
        await kernel[1, stream]()
        await acl_py.SynchronizeStream(stream)
        await asyncio.create_task(acl_py.SynchronizeDevice())

    assert found(program) == []


def test_a_synchronisation_behind_a_free_is_still_needed():
    """A program must not rely on a wait that nobody asked for."""

    async def program():
        memory, stream = await acl_py.Malloc(SIZE), await acl_py.CreateStream()
        await kernel[1, stream]()
        await acl_py.Free(memory)
        await acl_py.SynchronizeStream(stream)

    assert [pitfall for pitfall, *_ in found(program)] == ["free"]


@pytest.mark.parametrize("rules", ["cuda", "acl"])
def test_a_synchronisation_behind_a_pageable_copy_is_still_needed(rules):
    """It is, once the memory is pinned."""

    async def program():
        array, device, stream = np.zeros(SIZE, np.uint8), await acl_py.Malloc(SIZE), await acl_py.CreateStream()
        await acl_py.MemcpyAsync(array, SIZE, device, SIZE, D2H, stream)
        await acl_py.SynchronizeStream(stream)

    assert [pitfall for pitfall, *_ in found(program, rules=rules)] == ["pageable copy"]


@acl_py.kernel(cost=acl_py.Cost(us=50))
def write(x: acl_py.Out):
    x[:] = 1


def handed_on(*, through, waits):
    """A program in which one stream writes what another one reads, behind a record and a wait, with work between them:
    a copy in the *stream* or, if that is None, a synchronous one.
    """

    async def program():
        one, two = await acl_py.CreateStream(), await acl_py.CreateStream()
        own = await acl_py.CreateStream(nonblocking=True)
        x, host, y = await acl_py.Malloc(SIZE), await acl_py.MallocHost(SIZE), await acl_py.Malloc(SIZE)
        event = await acl_py.CreateEvent()
        await write[1, one](x)
        await acl_py.RecordEvent(event, one)
        if through == "Memcpy":
            await acl_py.Memcpy(y, SIZE, host, SIZE, H2D)
        else:
            await acl_py.MemcpyAsync(y, SIZE, host, SIZE, H2D, own if through == "own" else acl_py.LEGACY_STREAM)
        if waits:
            await acl_py.StreamWaitEvent(two, event)
        await write[1, two](x)
        await acl_py.SynchronizeDevice()

    return program


@pytest.mark.parametrize(("through", "barrier"), [("legacy", "legacy stream"), ("Memcpy", "synchronous copy")])
def test_a_wait_that_only_a_barrier_makes_redundant_is_needed_if_the_barrier_is_a_finding(through, barrier):
    """Whoever follows all advice has no race: the copy gets a stream of its own, and what orders nothing goes."""
    advice = {pitfall for pitfall, *_ in found(handed_on(through=through, waits=True))}
    assert barrier in advice

    async def main():
        await handed_on(through="own", waits="orders nothing new" not in advice)()
        return [str(each.kind) for each in acl_py.current_simulation().findings]

    assert acl_py.run(main, device="tiny", workers=1, sanitize="device") == []


def test_a_wait_that_is_redundant_without_the_barrier_too_is_still_a_finding():
    async def program():
        one, two, event = await acl_py.CreateStream(), await acl_py.CreateStream(), await acl_py.CreateEvent()
        await kernel[1, one]()
        await acl_py.RecordEvent(event, one)
        await kernel[1]()
        await acl_py.StreamWaitEvent(one, event)
        await kernel[1, two]()
        await acl_py.SynchronizeDevice()

    assert {(pitfall, line) for pitfall, line, *_ in found(program)} == {
        ("legacy stream", "kernel[1]()"),
        ("orders nothing new", "acl_py.StreamWaitEvent(one, event)"),
    }


@pytest.mark.parametrize("is_recorded", [True, False])
def test_a_wait_of_the_legacy_stream_is_a_barrier_if_the_event_has_a_record(is_recorded):
    async def program():
        stream, event = await acl_py.CreateStream(), await acl_py.CreateEvent()
        if is_recorded:
            await acl_py.RecordEvent(event, stream)
        await kernel[1, stream]()
        await acl_py.StreamWaitEvent(acl_py.LEGACY_STREAM, event)

    assert [pitfall for pitfall, *_ in found(program)] == ([] if is_recorded else ["orders nothing new"])


def test_the_text_of_findings():
    assert findings_text([]) == "findings: none: no call and no operation waited without being asked to"

    async def main():
        host, device = await acl_py.MallocHost(SIZE), await acl_py.Malloc(SIZE)
        for _ in range(2):
            await acl_py.Memcpy(device, SIZE, host, SIZE, DEFAULT)
        return acl_py.current_simulation().trace.timeline()

    found = findings(acl_py.run(main, device="tiny", workers=1))
    assert findings_text(found) == (
        "findings: 1\n"
        f"  {found[0].site}: Memcpy() waited for its work, 2 times, for 20.0 us. "
        "Use MemcpyAsync() in a stream, with pinned memory, and synchronise before the result is used"
    )
