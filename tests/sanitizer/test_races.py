"""Races: which pairs of lines are found, and which are not, under each set of rules."""

import asyncio

import numpy as np
import pytest

import acl_py as acl
from tests.sanitizer.racing import CUDA, D2H, H2D, found, read, two_streams, write

MIB = 1 << 20


@pytest.mark.parametrize("rules", [*CUDA, "acl"])
def test_two_streams_write_the_same_bytes_without_order(rules):
    async def program():
        one, two = await two_streams()
        x = await acl.Malloc(64, name="x")
        await acl.LaunchKernel(write, 1, (x,), one)
        await acl.LaunchKernel(write, 1, (x,), two)

    assert found(program, rules) == [("race", 3, 4, "0:64")]


def test_a_finding_says_which_bytes_who_and_what_to_do():
    seen = []

    async def program():
        one, two = await two_streams()
        x = await acl.Malloc(64, name="x")
        await acl.LaunchKernel(write, 1, (x,), one)
        await acl.LaunchKernel(read, 1, (x[16:32],), two)
        seen.extend(acl.current_simulation().findings)

    found(program)
    [finding] = seen
    first = program.__code__.co_firstlineno
    a, b = f"test_races.py:{first + 3}", f"test_races.py:{first + 4}"
    assert finding.text == (
        f"kernel 'write' on stream 'one' ({a}) writes 'x'[16:32], and kernel 'read' on stream 'two' ({b}) reads it: "
        "nothing puts them in order"
    )
    assert finding.missing == f"`two` does not wait for what `one` was given at {a}"
    assert finding.fix == f"record on `one` after {a}, wait on `two` before {b}"


@pytest.mark.parametrize("rules", [*CUDA, "acl"])
def test_an_event_orders_what_was_queued_before_its_record(rules):
    async def program():
        one, two = await two_streams()
        x, event = await acl.Malloc(64), await acl.CreateEvent()
        await acl.LaunchKernel(read, 1, (x,), one)
        await acl.RecordEvent(event, one)
        await acl.LaunchKernel(read, 1, (x,), one)
        await acl.StreamWaitEvent(two, event)
        await acl.LaunchKernel(write, 1, (x,), two)

    assert found(program, rules) == [("race", 5, 7, "0:64")]


def test_a_later_record_does_not_count_for_an_earlier_wait():
    async def program():
        one, two = await two_streams()
        x, event = await acl.Malloc(64), await acl.CreateEvent()
        await acl.RecordEvent(event, one)
        await acl.StreamWaitEvent(two, event)
        await acl.LaunchKernel(write, 1, (x,), one)
        await acl.RecordEvent(event, one)
        await acl.LaunchKernel(read, 1, (x,), two)

    assert found(program) == [("race", 5, 7, "0:64")]


def test_order_is_handed_on_through_streams():
    async def program():
        x = await acl.Malloc(64)
        before = await acl.CreateStream()
        await acl.LaunchKernel(write, 1, (x,), before)
        for _ in range(5):
            stream, event = await acl.CreateStream(), await acl.CreateEvent()
            await acl.RecordEvent(event, before)
            await acl.StreamWaitEvent(stream, event)
            before = stream
        await acl.LaunchKernel(write, 1, (x,), before)

    assert found(program) == []


def test_a_host_that_synchronises_orders_what_it_queues_next():
    async def program():
        one, two = await two_streams()
        x, y, event = await acl.Malloc(64), await acl.Malloc(64), await acl.CreateEvent()
        await acl.LaunchKernel(write, 1, (x,), one)
        await acl.RecordEvent(event, one)
        await acl.LaunchKernel(write, 1, (y,), one)
        await acl.SynchronizeEvent(event)
        await acl.LaunchKernel(read, 1, (x,), two)
        await acl.LaunchKernel(read, 1, (y,), two)
        await acl.SynchronizeStream(one)
        await acl.LaunchKernel(read, 1, (y,), two)

    assert found(program) == [("race", 5, 8, "0:64")]


def test_a_query_orders_only_if_it_says_complete():
    async def program():
        one, two = await two_streams()
        x = await acl.Malloc(64)
        await acl.LaunchKernel(write, 1, (x,), one)
        await acl.StreamQuery(one)
        await acl.LaunchKernel(read, 1, (x,), two)
        while await acl.StreamQuery(one) is not acl.Status.COMPLETE:
            pass
        await acl.LaunchKernel(read, 1, (x,), two)

    assert found(program) == [("race", 3, 5, "0:64")]


def test_await_of_a_completion_orders():
    async def program():
        one, two = await two_streams()
        x, event = await acl.Malloc(64), await acl.CreateEvent()
        first = await acl.LaunchKernel(write, 1, (x,), one)
        await first
        await acl.LaunchKernel(write, 1, (x,), two)
        await (await acl.RecordEvent(event, two))
        await acl.LaunchKernel(write, 1, (x,), one)

    assert found(program) == []


@pytest.mark.parametrize(
    ("rules", "nonblocking", "races"),
    [("cuda", False, []), ("cuda", True, [(4, 5), (5, 6)]), ("acl", False, [(4, 5), (5, 6)]),
     ("cuda_per_thread", False, [(4, 5), (5, 6)])],
)  # fmt: skip
def test_the_default_stream_orders_what_the_rules_say(rules, nonblocking, races):
    async def program():
        one, two = await two_streams(nonblocking=nonblocking)
        x = await acl.Malloc(64)

        await acl.LaunchKernel(write, 1, (x,), one)
        await acl.LaunchKernel(write, 1, (x,))
        await acl.LaunchKernel(read, 1, (x,), two)

    expected = [("race", *pair, "0:64") for pair in races]
    assert [each for each in found(program, rules) if each[1:3] != (4, 6)] == expected


def test_a_record_and_a_wait_on_the_legacy_stream_are_barriers_too():
    async def program():
        one, two = await two_streams()
        x, y, event = await acl.Malloc(64), await acl.Malloc(64), await acl.CreateEvent()
        await acl.LaunchKernel(write, 1, (x,), one)
        await acl.RecordEvent(event, acl.LEGACY_STREAM)
        await acl.LaunchKernel(write, 1, (x,), two)
        free = await acl.CreateStream(nonblocking=True)
        await acl.LaunchKernel(write, 1, (y,), free)
        await acl.RecordEvent(event, free)
        await acl.StreamWaitEvent(acl.LEGACY_STREAM, event)
        await acl.LaunchKernel(write, 1, (y,), one)

    assert found(program) == []


def test_a_wait_on_the_legacy_stream_for_an_event_without_a_record_is_no_barrier():
    async def program():
        one, two = await two_streams()
        x, event = await acl.Malloc(64), await acl.CreateEvent()
        await acl.LaunchKernel(write, 1, (x,), one)
        await acl.StreamWaitEvent(acl.LEGACY_STREAM, event)
        await acl.LaunchKernel(read, 1, (x,), two)

    assert found(program) == [("race", 3, 5, "0:64")]


def test_the_legacy_stream_synchronises_the_blocking_streams_only():
    async def program():
        one, free = await acl.CreateStream(), await acl.CreateStream(nonblocking=True)
        x, y = await acl.Malloc(64), await acl.Malloc(64)
        other = await acl.CreateStream(nonblocking=True)
        await acl.LaunchKernel(write, 1, (x,), one)
        await acl.LaunchKernel(write, 1, (y,), free)
        await acl.SynchronizeStream(acl.LEGACY_STREAM)
        await acl.LaunchKernel(read, 1, (x,), other)
        await acl.LaunchKernel(read, 1, (y,), other)

    assert found(program) == [("race", 5, 8, "0:64")]


def test_a_synchronised_device_covers_destroyed_streams_and_no_other_device():
    async def program():
        one = await acl.CreateStream()
        x = await acl.Malloc(64)
        await acl.LaunchKernel(write, 1, (x,), one)
        await acl.DestroyStream(one)
        await acl.HostWork(1000)
        await acl.SynchronizeDevice()
        await acl.LaunchKernel(write, 1, (x,), await acl.CreateStream())

    assert found(program) == []


def test_copies_of_even_and_odd_columns_do_not_touch():
    async def program():
        one, two = await two_streams()
        x, host = await acl.Malloc(64), await acl.MallocHost(64)
        await acl.Memcpy2dAsync(x, 8, host, 8, 4, 8, H2D, one)
        await acl.Memcpy2dAsync(x + 4, 8, host + 4, 8, 4, 8, H2D, two)
        await acl.Memcpy2dAsync(x + 2, 8, host, 8, 4, 4, H2D, two)

    assert found(program) == [("race", 3, 5, "2:4", "10:12", "18:20", "26:28")]


def test_parts_of_a_buffer_that_do_not_overlap_are_clean():
    async def program():
        one, two = await two_streams()
        x = await acl.Malloc(64)
        await acl.LaunchKernel(write, 1, (x[:32],), one)
        await acl.LaunchKernel(write, 1, (x[32:],), two)
        await acl.LaunchKernel(read, 1, (x[24:40],), two)

    assert found(program) == [("race", 3, 5, "24:32")]


def test_each_of_several_lines_is_told_once_with_its_count():
    counts = []

    async def program():
        one, two = await two_streams()
        x = await acl.Malloc(64)
        for _ in range(3):
            await acl.LaunchKernel(write, 1, (x,), one)
            await acl.LaunchKernel(read, 1, (x,), one)
        await acl.LaunchKernel(write, 1, (x,), two)
        counts.extend(finding.count for finding in acl.current_simulation().findings)

    assert found(program) == [("race", 4, 6, "0:64"), ("race", 5, 6, "0:64")]
    assert counts == [1, 1]


def test_a_copy_outside_the_streams_is_unordered_under_acl():
    async def program():
        one = await acl.CreateStream()
        x, host = await acl.Malloc(64), await acl.MallocHost(64)
        await acl.LaunchKernel(write, 1, (x,), one)
        await acl.Memcpy(host, 64, x, 64, D2H)
        await acl.SynchronizeStream(one)
        await acl.Memcpy(host, 64, x, 64, D2H)
        await acl.LaunchKernel(write, 1, (x,), one)

    assert found(program, "acl") == [("race", 3, 4, "0:64")]
    assert found(program, "cuda") == []


def test_memory_that_is_given_out_again_is_other_memory():
    async def program():
        one = await acl.CreateStream()
        x = await acl.Malloc(64)
        await acl.LaunchKernel(write, 1, (x,), one)
        await acl.FreeAsync(x, one)
        y = await acl.MallocAsync(64, one)
        await acl.LaunchKernel(write, 1, (y,), one)
        await acl.SynchronizeDevice()

    assert found(program) == []


def test_pageable_copies_take_their_turn_in_the_stream():
    async def program():
        one, two = await two_streams()
        x, data = await acl.Malloc(200_000), np.zeros(200_000, np.uint8)
        await acl.MemcpyAsync(x, 200_000, data, 200_000, H2D, one)
        await acl.LaunchKernel(read, 1, (x,), one)
        await acl.LaunchKernel(read, 1, (x,), two)

    assert found(program) == [("race", 3, 5, "0:200000")]
    assert found(program, "acl") == []


def test_a_host_function_touches_memory_in_its_turn():
    async def program():
        one, two = await two_streams()
        x, host = await acl.Malloc(64), await acl.MallocHost(64)
        array = host.numpy()
        await acl.MemcpyAsync(host, 64, x, 64, D2H, one)
        await acl.LaunchHostFunc(one, array.fill, [1])
        await acl.MemcpyAsync(x, 64, host, 64, H2D, one)
        await acl.MemcpyAsync(x, 64, host, 64, H2D, two)
        await acl.SynchronizeStream(one)
        array[0] = 2
        await acl.SynchronizeDevice()

    races = found(program, sanitize="host")
    assert ("race", 5, 7, "0:64") in races  # the function and the copy in another stream
    assert {race[1:3] for race in races} == {(4, 7), (5, 7), (6, 7), (7, 9)}


def test_a_host_that_reads_too_early_is_found_whatever_the_times_are():
    async def program():
        one = await acl.CreateStream(name="one")
        x, host = await acl.Malloc(64), await acl.MallocHost(64)
        array = host.numpy()
        await acl.MemcpyAsync(host, 64, x, 64, D2H, one)
        await acl.HostWork(1_000_000)
        int(array[0])
        await acl.SynchronizeStream(one)
        int(array[0])

    assert found(program, sanitize="host") == [("race", 4, 6, "0:1")]


def test_work_that_only_a_free_orders_relies_on_it():
    async def program():
        one, two = await two_streams()
        x, y = await acl.Malloc(64), await acl.Malloc(64)
        await acl.LaunchKernel(write, 1, (x,), one)
        await acl.Free(y)
        await acl.LaunchKernel(read, 1, (x,), two)
        await acl.SynchronizeDevice()
        await acl.LaunchKernel(write, 1, (x,), one)

    assert found(program) == [("relies", 3, 5, "0:64")]
    assert found(program, "acl") == [("race", 3, 5, "0:64")]


@pytest.mark.parametrize(("launches", "kind"), [(12, "race"), (30, "relies")])
@pytest.mark.parametrize("rules", ["cuda", "acl"])
def test_work_that_only_a_full_queue_orders_relies_on_it(rules, launches, kind):
    """The queue takes 16 operations. The host waits until one of them starts, which is behind the first write."""

    async def program():
        one, two = await two_streams()
        x, y = await acl.Malloc(64), await acl.Malloc(64)
        await acl.LaunchKernel(write, 1, (x,), one)
        for _ in range(launches):
            await acl.LaunchKernel(read, 1, (y,), one)
        await acl.LaunchKernel(read, 1, (x,), two)
        await acl.LaunchKernel(write, 1, (y,), two)

    assert sorted(found(program, rules)) == sorted([(kind, 3, 6, "0:64"), ("race", 5, 7, "0:64")])


@pytest.mark.parametrize(("launches", "kind"), [(16, "race"), (17, "relies")])
def test_the_operation_that_made_room_has_only_started(launches, kind):
    """The write leaves the full queue when the long kernel is over; it is over itself when the one behind it starts."""

    @acl.kernel(cost=acl.Cost(us=1000))
    def long(x: acl.In):
        pass

    async def program():
        one, two = await two_streams()
        x, y = await acl.Malloc(64), await acl.Malloc(64)
        await acl.LaunchKernel(long, 1, (y,), one)
        await acl.LaunchKernel(write, 1, (x,), one)
        for _ in range(launches):
            await acl.LaunchKernel(read, 1, (y,), one)
        await acl.LaunchKernel(read, 1, (x,), two)

    assert found(program) == [(kind, 4, 7, "0:64")]


def test_a_full_queue_says_what_the_operation_that_made_room_has_waited_for():
    async def program():
        one, two = await two_streams()
        x, y, event = await acl.Malloc(64), await acl.Malloc(64), await acl.CreateEvent()
        await acl.LaunchKernel(write, 1, (x,), one)
        await acl.RecordEvent(event, one)
        await acl.StreamWaitEvent(two, event)
        for _ in range(18):
            await acl.LaunchKernel(read, 1, (y,), two)
        await acl.LaunchKernel(write, 1, (x,), two)
        await acl.LaunchKernel(read, 1, (x,), await acl.CreateStream())

    assert found(program) == [("relies", 3, 9, "0:64"), ("race", 8, 9, "0:64")]


def test_a_pageable_copy_that_happens_to_wait_promises_nothing():
    async def program():
        one, two = await two_streams()
        x, data = await acl.Malloc(200_000), np.zeros(200_000, np.uint8)
        await acl.LaunchKernel(write, 1, (x,), one)
        await acl.MemcpyAsync(data, 200_000, x, 200_000, D2H, one)
        await acl.LaunchKernel(write, 1, (x,), two)

    assert sorted(found(program)) == [("relies", 3, 5, "0:200000"), ("relies", 4, 5, "0:200000")]
    assert found(program, "acl") == []


def test_what_relies_on_a_wait_that_nothing_promises_relies_on_it_in_other_tasks_and_streams_too():
    async def program():
        one, two = await two_streams()
        x, y, plain = await acl.Malloc(64), await acl.Malloc(64), np.zeros(64, np.uint8)
        event = await acl.CreateEvent()

        async def later():
            await acl.RecordEvent(event, one)
            await acl.StreamWaitEvent(two, event)
            await acl.LaunchKernel(write, 1, (x,), two)

        three = await acl.CreateStream(nonblocking=True)
        await acl.LaunchKernel(write, 1, (x,), three)
        await acl.MemcpyAsync(plain, 64, y, 64, D2H, three)
        await asyncio.create_task(later())

    assert found(program) == [("relies", 11, 8, "0:64")]


@pytest.mark.parametrize("nbytes", [64, 400_000])
@pytest.mark.parametrize("kind", [H2D, D2H])
def test_a_pageable_copy_that_is_awaited_is_over(nbytes, kind):
    async def program():
        one, two = await two_streams(nonblocking=True)
        x, plain = await acl.Malloc(nbytes), np.zeros(nbytes, np.uint8)
        ends = (x, nbytes, plain, nbytes) if kind is H2D else (plain, nbytes, x, nbytes)
        await (await acl.MemcpyAsync(*ends, kind, one))
        await acl.LaunchKernel(write, 1, (x,), two)

    assert found(program) == []


def test_two_uses_are_told_once_though_both_read_and_write():
    counts = []

    @acl.kernel(cost=acl.Cost(us=10))
    def bump(x: acl.InOut):
        pass

    async def program():
        one, two = await two_streams()
        x, sim = await acl.MallocAsync(64, one), acl.current_simulation()
        await acl.LaunchKernel(bump, 1, (x,), one)
        await acl.LaunchKernel(bump, 1, (x,), two)
        await acl.FreeAsync(x, one)
        counts.extend(finding.count for finding in sim.findings)

    assert found(program) == [
        ("before allocation", 2, 4, "0:64"), ("race", 3, 4, "0:64"), ("free in use", 4, 5, "0:64"),
    ]  # fmt: skip
    assert counts == [1, 1, 1]


def test_a_host_function_comes_after_what_the_host_did_before():
    async def program():
        one, host = await acl.CreateStream(), await acl.MallocHost(64)
        array = host.numpy()
        await acl.LaunchHostFunc(one, int)
        array[:] = 1
        await acl.LaunchHostFunc(one, array.fill, [2])
        await acl.SynchronizeStream(one)
        array[:] = 3

    assert found(program, sanitize="host") == []


def test_bytes_are_kept_apart_once_a_part_was_touched():
    async def program():
        one, two = await two_streams()
        x = await acl.Malloc(64)
        await acl.LaunchKernel(read, 1, (x,), one)
        await acl.LaunchKernel(read, 1, (x,), one)
        await acl.LaunchKernel(read, 1, (x[32:],), one)
        await acl.LaunchKernel(write, 1, (x,), one)
        await acl.LaunchKernel(read, 1, (x[32:],), two)

    assert found(program) == [("race", 6, 7, "32:64")]


def test_a_kernel_that_reads_and_writes_other_bytes_is_compared_by_both():
    @acl.kernel(cost=acl.Cost(us=10))
    def move(x: acl.In, y: acl.Out):
        y[:] = x

    async def program():
        one, two = await two_streams()
        x, host = await acl.Malloc(64), await acl.MallocHost(64)
        await acl.LaunchKernel(move, 1, (x[16:20], x[4:8]), one)
        await acl.Memcpy2dAsync(x, 16, host, 16, 4, 4, H2D, two)

    assert found(program) == [("race", 3, 4, "16:20")]


def test_an_access_that_is_repeated_is_compared_by_its_last_time():
    async def program():
        one, two = await two_streams()
        x, event = await acl.Malloc(64), await acl.CreateEvent()
        for index in range(3):
            await acl.LaunchKernel(write, 1, (x,), one)
            if index == 1:
                await acl.RecordEvent(event, one)
        await acl.StreamWaitEvent(two, event)
        await acl.LaunchKernel(read, 1, (x,), two)

    assert found(program) == [("race", 4, 8, "0:64")]


def test_an_access_is_not_repeated_once_another_one_has_taken_its_place():
    async def program():
        one, two = await two_streams()
        x, host, event = await acl.Malloc(MIB), await acl.MallocHost(MIB), await acl.CreateEvent()
        for index, source in enumerate((host, np.zeros(MIB, np.uint8), host)):
            await acl.MemcpyAsync(x, MIB, source, MIB, H2D, one)  # the second one is staged
            if index == 1:
                await acl.RecordEvent(event, one)
        await acl.StreamWaitEvent(two, event)
        await acl.LaunchKernel(read, 1, (x,), two)

    assert found(program) == [("race", 4, 8, f"0:{MIB}")]


def test_an_access_is_not_repeated_once_another_stream_has_touched_its_bytes():
    async def program():
        one, two = await two_streams()
        x, event = await acl.Malloc(64), await acl.CreateEvent()
        for _ in range(2):
            await acl.LaunchKernel(write, 1, (x,), one)
            await acl.RecordEvent(event, one)
            await acl.StreamWaitEvent(two, event)
            await acl.LaunchKernel(read, 1, (x,), two)

    assert found(program) == [("race", 7, 4, "0:64")]


def test_a_stream_that_was_ready_has_its_turn_again_behind_the_legacy_stream():
    async def program():
        one, x = await acl.CreateStream(), await acl.Malloc(64)
        await acl.LaunchKernel(read, 1, (x,), one)
        await acl.LaunchKernel(write, 1, (x,))
        await acl.LaunchKernel(read, 1, (x,), one)

    assert found(program) == []
