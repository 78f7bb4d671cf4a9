"""Findings: each pitfall in the smallest program that has it, and the line that is named."""

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


def test_the_text_of_findings():
    assert (
        findings_text([])
        == "findings: none: no call and no operation waited without being asked to (races: see the sanitizer)"
    )

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
