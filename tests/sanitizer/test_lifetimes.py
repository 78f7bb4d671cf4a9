"""Lifetimes: memory that is used before its allocation has had its turn, or freed while it is used."""

from contextlib import suppress
from pathlib import Path

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


@pytest.mark.parametrize(("rules", "kind"), [("cuda", "relies"), ("acl", "free in use")])
def test_a_free_behind_a_launch_relies_on_the_wait_of_the_free_under_cuda(rules, kind):
    async def program():
        one = await acl.CreateStream()
        x = await acl.Malloc(64)
        await acl.LaunchKernel(write, 1, (x,), one)
        await acl.Free(x)

    assert found(program, rules) == [(kind, 3, 4, "0:64")]


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


def test_a_call_with_memory_that_was_freed_names_both_lines_and_fails_all_the_same():
    texts = []

    @acl.kernel(cost=acl.Cost(us=10))
    def use(x: acl.In):
        pass

    async def program():
        x, host, one = await acl.Malloc(64, name="x"), await acl.MallocHost(64, name="host"), await acl.CreateStream()
        await acl.Free(x)
        with pytest.raises(acl.AclError):
            await acl.MemcpyAsync(x, 64, host, 64, H2D, one)
        with pytest.raises(acl.AclError):
            await use[1, one](x)
        with pytest.raises(acl.AclError):
            await acl.Memset(int(x.address), 64, 0, 64)
        with pytest.raises(acl.AclError):
            await acl.Free(x)
        await acl.FreeHost(host)
        with pytest.raises(acl.AclError):
            host.numpy()
        texts.extend(finding.text for finding in acl.current_simulation().findings)

    assert found(program) == [
        *(("use after free", 2, line, "0:64") for line in (4, 6, 8)),
        ("double free", 2, 10, "0:64"), ("use after free", 11, 13, "0:64"),
    ]  # fmt: skip
    first = program.__code__.co_firstlineno
    free, used = f"test_lifetimes.py:{first + 2}", f"test_lifetimes.py:{first + 4}"
    assert texts[0] == f"MemcpyAsync ({used}) uses 'x', which was freed at {free}"
    assert texts[3] == f"Free (test_lifetimes.py:{first + 10}) frees 'x', which was freed at {free} already"


def test_memory_of_a_pool_is_gone_when_its_free_was_queued():
    async def program():
        one = await acl.CreateStream()
        x = await acl.MallocAsync(64, one)
        await acl.FreeAsync(x, one)
        with pytest.raises(acl.AclError):
            await acl.LaunchKernel(write, 1, (x,), one)
        with pytest.raises(acl.AclError):
            await acl.FreeAsync(x, one)

    assert found(program) == [("use after free", 3, 5, "0:64"), ("double free", 3, 7, "0:64")]


def test_streams_events_notifies_and_contexts_that_were_destroyed():
    async def program():
        one, event, notify = await acl.CreateStream(), await acl.CreateEvent(), await acl.CreateNotify()
        context = await acl.CreateContext(0)
        await acl.SetDevice(0)
        await acl.DestroyEvent(event)
        with pytest.raises(acl.AclError):
            await acl.RecordEvent(event, one)
        with pytest.raises(acl.AclError):
            await acl.DestroyEvent(event)
        await acl.DestroyStream(one)
        with pytest.raises(acl.AclError):
            await acl.SynchronizeStream(one)
        await acl.DestroyNotify(notify)
        with pytest.raises(acl.AclError):
            await acl.RecordNotify(notify, None)
        await acl.DestroyContext(context)
        with pytest.raises(acl.AclError):
            await acl.SetCurrentContext(context)

    assert found(program, "acl") == [
        ("after destroy", *lines) for lines in ((4, 6), (4, 8), (9, 11), (12, 14), (15, 17))
    ]  # fmt: skip


def test_graphs_and_executables_that_were_destroyed():
    """A use of one had ended the sanitizer, which found nothing more."""

    async def program():
        one, two = await acl.CreateStream(), await acl.CreateStream()
        x, graph = await acl.Malloc(64), await acl.GraphCreate()
        executable = await acl.GraphInstantiate(graph)
        await acl.GraphDestroy(graph)
        with pytest.raises(acl.AclError):
            await acl.GraphClone(graph)
        await acl.GraphExecDestroy(executable)
        with pytest.raises(acl.AclError):
            await acl.GraphExecDestroy(executable)
        await acl.MemsetAsync(x, 64, 1, 64, one)
        await acl.MemsetAsync(x, 64, 1, 64, two)

    assert [each[:3] for each in found(program)] == [
        ("after destroy", 4, 6), ("after destroy", 7, 9), ("race", 10, 11)
    ]  # fmt: skip


def test_a_view_that_is_read_or_written_after_its_memory_was_freed():
    async def program():
        host = await acl.MallocHost(64)
        view = host.numpy(np.int32)
        view[:] = 1
        await acl.FreeHost(host)
        int(view[2])
        view[4:] = 2

    assert found(program, sanitize="host") == [("use after free", 4, 5, "8:12"), ("use after free", 4, 6, "16:64")]


def test_an_array_that_is_no_longer_registered_is_an_array():
    async def program():
        host = await acl.HostRegister(np.zeros(64, np.uint8))
        view = host.numpy()
        await acl.HostUnregister(host)
        view[0] = 1
        with pytest.raises(acl.AclError):
            await acl.HostUnregister(host)

    assert found(program, sanitize="host") == [("double free", 3, 6, "0:64")]


def test_registered_bytes_are_the_same_by_whatever_name_a_program_gives_them():
    async def program():
        one, two = await two_streams()
        plain, x = np.zeros(64, np.uint8), await acl.Malloc(64)
        host = await acl.HostRegister(plain)
        await acl.MemcpyAsync(host, 64, x, 64, D2H, one)
        await acl.MemcpyAsync(plain[16:48], 32, x, 32, D2H, two)
        await acl.MemcpyAsync(plain.ctypes.data + 40, 8, x, 8, D2H, one)

    assert found(program) == [("race", 4, 5, "16:48"), ("race", 5, 6, "40:48")]


def test_what_ends_too_early_or_twice_has_a_fix():
    async def program():
        host, event = await acl.MallocHost(64), await acl.CreateEvent()
        view = host.numpy(np.uint8)
        await acl.FreeHost(host)
        view[0] = 1
        await acl.DestroyEvent(event)
        for call in (acl.FreeHost(host), acl.RecordEvent(event), acl.DestroyEvent(event)):
            with suppress(acl.AclError):
                await call

    async def whole():
        await program()
        return [finding.fix for finding in acl.current_simulation().findings]

    first, file = program.__code__.co_firstlineno, Path(__file__).name
    end, use, destroy, again = (f"{file}:{first + line}" for line in (3, 4, 5, 8))
    made = f"{file}:{first + 1}"
    assert acl.run(whole, device="tiny", sanitize="host") == [
        f"move FreeHost from {end} behind {use}",
        f"take out FreeHost at {again}",
        f"move the end of the event made at {made} from {destroy} behind {again}",
        f"take out DestroyEvent at {again}",
    ]
