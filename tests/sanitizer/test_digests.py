"""Digests: a source that changes between the call and the copy, written where no view sees it."""

import asyncio
import re

import numpy as np

import acl_py as acl

H2D = acl.MemcpyKind.HOST_TO_DEVICE
N = 4096


@acl.kernel(cost=acl.Cost(us=50))
def busy():
    pass


def found(main, sanitize="digest", **options):
    """What is found in *main*: kinds and texts, without the lines and the advice."""

    async def whole():
        await main()
        return acl.current_simulation().findings

    findings = acl.run(whole, **({"device": "tiny", "sanitize": sanitize} | options))
    return [re.sub(r" at test_digests.py:\d+", "", f"{each.kind}: {each.text.split(';')[0]}") for each in findings]


def copying(change):
    """A program that calls *change* with a registered array and its buffer, while a copy of it is queued."""

    async def main():
        stream = await acl.CreateStream()
        array, device = np.ones(N, np.uint8), await acl.Malloc(N)
        pinned = await acl.HostRegister(array, name="input")
        await busy[1, stream]()
        await acl.MemcpyAsync(device, N, pinned, N, H2D, stream)
        change(array, pinned)
        await acl.SynchronizeStream(stream)
        array[:] = 7

    return main


CHANGED = "race: h2d 'input' copies 'input', which the host changed between the call and the copy"


def test_an_array_that_is_written_before_it_is_copied():
    def write(array, _):
        array[5] = 2

    assert found(copying(write)) == [CHANGED]


def test_a_source_that_stays_or_gets_the_same_bytes_is_fine():
    def write_the_same(array, _):
        array[:] = 1

    assert found(copying(lambda *_: None)) == found(copying(write_the_same)) == []


def test_a_write_through_a_view_is_left_to_the_check_for_races():
    def write(_, pinned):
        pinned.numpy()[5] = 2

    (finding,) = found(copying(write), "digest,host")
    assert "reads 'input'[5:6], and host write" in finding


def test_what_operations_write_before_the_copy_is_meant():
    async def main():
        stream = await acl.CreateStream()
        one, two, host = await acl.Malloc(N), await acl.Malloc(N), await acl.MallocHost(N)
        array = host.numpy()
        await acl.MemsetAsync(one, N, 3, N, stream)
        await acl.MemcpyAsync(host, N, one, N, acl.MemcpyKind.DEVICE_TO_HOST, stream)
        await acl.MemcpyAsync(two, N, host, N, H2D, stream)
        await acl.LaunchHostFunc(stream, array.fill, (4,))
        await acl.MemcpyAsync(two, N, host, N, H2D, stream)
        await acl.SynchronizeStream(stream)
        assert (array == 4).all()

    assert found(main) == []


def test_a_pageable_array_that_another_task_changes_while_it_is_staged():
    n = 64 << 20
    array = np.ones(n, np.uint8)

    async def main():
        stream, device = await acl.CreateStream(), await acl.Malloc(n)

        async def write():
            await acl.Sleep(100)
            array[-1] = 2

        async with asyncio.TaskGroup() as group:
            group.create_task(write())
            group.create_task(acl.MemcpyAsync(device, n, array, n, H2D, stream))
        await acl.SynchronizeStream(stream)

    assert found(main, device="h200") == [
        "race: h2d copies an array, which the host changed between the call and the copy"
    ]


def test_nothing_is_kept_of_copies_that_are_over():
    async def main():
        stream, device, host = await acl.CreateStream(), await acl.Malloc(N), await acl.MallocHost(N)
        for _ in range(10):
            await acl.MemcpyAsync(device, N, host, N, H2D, stream)
        await acl.SynchronizeStream(stream)
        return repr(acl.current_simulation().runtime.sanitizer.digests)

    assert acl.run(main, sanitize="digest") == "<Digests: 0 sources>"
