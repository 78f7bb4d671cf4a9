"""Lifetimes: memory that is used before its allocation has had its turn, or freed while it is used."""

import numpy as np
import pytest

import acl_py as acl
from tests.sanitizer.racing import D2H, H2D, found, read, two_streams, write


def test_memory_of_a_stream_must_be_waited_for_in_others():
    async def program():
        one, two = await two_streams()
        event = await acl.CreateEvent()
        x = await acl.MallocAsync(64, one)
        await acl.LaunchKernel(write, 1, (x,), one)
        await acl.LaunchKernel(read, 1, (x,), two)
        await acl.RecordEvent(event, one)
        await acl.StreamWaitEvent(two, event)
        await acl.LaunchKernel(read, 1, (x,), two)

    assert found(program) == [("before allocation", 3, 5, "0:64"), ("race", 4, 5, "0:64")]


@pytest.mark.parametrize("rules", ["cuda", "acl"])
def test_memory_is_given_back_to_the_pool_behind_its_last_use(rules):
    async def program():
        one, two = await two_streams()
        x, event = await acl.MallocAsync(64, one), await acl.CreateEvent()
        await acl.RecordEvent(event, one)
        await acl.StreamWaitEvent(two, event)
        await acl.LaunchKernel(write, 1, (x,), two)
        await acl.FreeAsync(x, one)

    assert found(program, rules) == [("free in use", 5, 6, "0:64")]


@pytest.mark.parametrize(("rules", "expected"), [("cuda", []), ("acl", [("free in use", 3, 4, "0:64")])])
def test_a_free_behind_a_launch_is_what_programs_do_under_cuda_only(rules, expected):
    async def program():
        one = await acl.CreateStream()
        x = await acl.Malloc(64)
        await acl.LaunchKernel(write, 1, (x,), one)
        await acl.Free(x)

    assert found(program, rules) == expected


@pytest.mark.parametrize("rules", ["cuda", "acl"])
def test_a_free_behind_a_synchronisation_is_right(rules):
    async def program():
        one, two = await two_streams()
        x, host = await acl.Malloc(64), await acl.MallocHost(64)
        await acl.MemcpyAsync(x, 64, host, 64, H2D, one)
        await acl.LaunchKernel(write, 1, (x,), one)
        await acl.MemcpyAsync(host, 64, x, 64, D2H, one)
        await acl.SynchronizeStream(one)
        await acl.Free(x)
        await acl.FreeHost(host)
        y = await acl.MallocAsync(64, two)
        await acl.LaunchKernel(write, 1, (y,), two)
        await acl.FreeAsync(y, two)

    assert found(program, rules) == []


def test_free_of_memory_from_a_pool_waits_for_nothing():
    async def program():
        one = await acl.CreateStream()
        x = await acl.MallocAsync(64, one)
        await acl.SynchronizeStream(one)
        await acl.LaunchKernel(write, 1, (x,), one)
        await acl.Free(x)

    assert found(program) == [("free in use", 4, 5, "0:64")]


def test_a_life_may_rely_on_a_wait_that_nothing_promises():
    async def program():
        one, two = await two_streams()
        x, y, plain = await acl.MallocAsync(64, one), await acl.Malloc(64), np.zeros(64, np.uint8)
        await acl.MemcpyAsync(plain, 64, y, 64, D2H, one)
        await acl.LaunchKernel(write, 1, (x,), two)
        await acl.MemcpyAsync(plain, 64, y, 64, D2H, two)
        await acl.FreeAsync(x, one)

    assert found(program) == [("relies", 2, 4, "0:64"), ("relies", 4, 6, "0:64")]


def test_a_copy_of_no_bytes_ends_no_life():
    async def program():
        one, two = await two_streams()
        x = await acl.Malloc(64)
        await acl.Memcpy(x, 64, x, 0, acl.MemcpyKind.DEVICE_TO_DEVICE)
        await acl.LaunchKernel(write, 1, (x,), one)
        await acl.LaunchKernel(read, 1, (x,), two)

    assert found(program, "acl") == [("race", 4, 5, "0:64")]
