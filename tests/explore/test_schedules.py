"""Choice points: what each deviation does to a run, and that the default schedule changes nothing."""

import asyncio
import sys
from functools import partial

import numpy as np
import pytest
import racy

import acl_py as acl
from acl_py.schedules import Deviation, Point, Replay, Schedule, following, parse
from device_model.choices import Choice

H2D, D2H = acl.MemcpyKind.HOST_TO_DEVICE, acl.MemcpyKind.DEVICE_TO_HOST


@acl.kernel(cost=acl.Cost(us=10))
def seven(x: acl.Out):
    x[:] = 7


def run(main, text="", **options):
    """The result of a coroutine function under a schedule, and the schedule."""
    with following(Schedule(Replay(parse(text) if text else ()))) as schedule:
        return acl.run(main, **({"device": "tiny", "workers": 1} | options)), schedule


def history(sim):
    return [(op.name, op.start_ns, op.end_ns) for op in sim.trace.ops]


@pytest.mark.parametrize("program", racy.PROGRAMS, ids=lambda program: program.__name__)
def test_the_default_schedule_is_the_run_without_one(program):
    """To the nanosecond and to the byte, on every code path that has choice points."""
    small = partial(program, racy.SMALL)
    with following(Schedule(Replay(()))) as schedule:
        under_it = racy.everything(small)
    assert under_it == racy.everything(small)
    assert len(schedule.points) > 20
    assert not schedule.deviations


async def two_copies():
    host, device = await acl.MallocHost(200), await acl.Malloc(200)
    host.numpy()[:] = 5
    one, two = await acl.CreateStream(), await acl.CreateStream()
    await acl.MemcpyAsync(device[:100], 100, host[:100], 100, H2D, one)
    await acl.MemcpyAsync(device[100:], 100, host[100:], 100, H2D, two)
    await acl.SynchronizeDevice()
    return history(acl.current_simulation())


def test_a_copy_starts_later_and_others_pass_it():
    default, _ = run(two_copies)
    (_, start, end), second = default
    assert end - start == 100
    late, schedule = run(two_copies, "delay@1=1")
    assert sorted(late) == sorted([("h2d", start + 20_000, end + 20_000), second])
    assert schedule.deviations == [Deviation(Choice.DELAY, 1, 1)]


def test_a_copy_takes_longer_or_less():
    default, _ = run(two_copies)
    start = default[0][1]
    assert run(two_copies, "duration@1=1")[0][0] == ("h2d", start, start + 800)
    assert run(two_copies, "duration@1=2")[0][0] == ("h2d", start, start + 12)


def test_a_host_is_late():
    default, _ = run(two_copies)
    late, _ = run(two_copies, "host@1=2")
    assert late == [(name, start + 1_000_000, end + 1_000_000) for name, start, end in default]


async def kernel_and_copy():
    """A copy of 100 bytes reads what a kernel of 10 us writes meanwhile."""
    host, device = await acl.MallocHost(100), await acl.Malloc(100)
    await acl.Memset(device, 100, 1, 100)
    await acl.SynchronizeDevice()
    one, two = await acl.CreateStream(), await acl.CreateStream()
    await acl.LaunchKernel(seven, 1, (device,), one)
    await acl.MemcpyAsync(host, 100, device, 100, D2H, two)
    await acl.SynchronizeDevice()
    return list(host.numpy()), history(acl.current_simulation())


def test_an_effect_at_the_start_of_a_kernel():
    default, whole = run(kernel_and_copy)[0]
    early, same_times = run(kernel_and_copy, "effect@2=1")[0]
    assert (default, early) == ([1] * 100, [7] * 100)
    assert whole == same_times


@acl.kernel(cost=acl.Cost(us=10))
def store(x: acl.InOut, value):
    x *= 10
    x += value


async def two_at_once():
    """Two kernels begin and end at the same instants, and each appends its digit."""
    back, device = np.zeros(1, np.uint32), await acl.Malloc(4)
    one, two, gate = await acl.CreateStream(), await acl.CreateStream(), await acl.CreateEvent()
    await acl.Memset(device, 4, 0, 4)
    await acl.LaunchKernel(store, 1, (acl.Array(device, np.uint32), 1), one)
    await acl.RecordEvent(gate, one)
    await acl.StreamWaitEvent(two, gate)
    await acl.LaunchKernel(store, 1, (acl.Array(device, np.uint32), 2), one)
    await acl.LaunchKernel(store, 1, (acl.Array(device, np.uint32), 3), two)
    await acl.SynchronizeDevice()
    await acl.Memcpy(back, 4, device, 4, D2H)
    return int(back[0])


def test_two_operations_end_at_one_instant_in_either_order():
    assert run(two_at_once)[0] == 123
    assert run(two_at_once, "tie@1=1")[0] == 132


def test_an_early_effect_happens_once():
    assert run(two_at_once, "effect@2=1")[0] == 123
    assert run(two_at_once, "effect@4=1")[0] == 132


async def half_a_copy():
    """The host looks at the destination while a copy of 2000 bytes runs."""
    host, device, stream = await acl.MallocHost(2000), await acl.Malloc(2000), await acl.CreateStream()
    host.numpy()[:] = 0
    await acl.Memset(device, 2000, 3, 2000)
    await acl.SynchronizeDevice()
    await acl.MemcpyAsync(host, 2000, device, 2000, D2H, stream)
    await acl.Sleep(1)
    before = host.numpy().tolist()
    await acl.SynchronizeDevice()
    return before, host.numpy().tolist()


def test_half_of_a_copy_is_there_early():
    assert run(half_a_copy)[0] == ([0] * 2000, [3] * 2000)
    assert run(half_a_copy, "effect@2=2")[0] == ([3] * 1000 + [0] * 1000, [3] * 2000)
    assert run(half_a_copy, "effect@2=1")[0] == ([3] * 2000, [3] * 2000)


@acl.kernel(cost=acl.Cost(us=10))
def broken(x: acl.Out):
    raise ArithmeticError("as planned")


async def failing_kernel():
    device = await acl.Malloc(4)
    await acl.LaunchKernel(broken, 1, (device,), await acl.CreateStream())
    with pytest.raises(acl.AclError, match="as planned"):
        await acl.SynchronizeDevice()
    return history(acl.current_simulation())


def test_an_early_failure_is_found_at_the_end():
    assert run(failing_kernel)[0] == run(failing_kernel, "effect@1=1")[0]


async def ready_tasks():
    order = []

    async def note(name):
        await asyncio.sleep(0)
        order.append(name)

    await asyncio.gather(*map(note, "abc"))
    return order


def test_another_task_goes_first():
    assert run(ready_tasks)[0] == ["a", "b", "c"]
    assert run(ready_tasks, "task@1=2 task@2=1")[0] == ["c", "b", "a"]


async def changed_array():
    array, device = np.ones(100, np.uint8), await acl.Malloc(100)
    stream, back = await acl.CreateStream(), np.zeros(100, np.uint8)
    await acl.MemcpyAsync(device, 100, array, 100, H2D, stream)
    array[:] = 2
    await acl.SynchronizeStream(stream)
    await acl.Memcpy(back, 100, device, 100, D2H)
    return set(back.tolist())


def test_a_copy_of_pageable_memory_takes_place_after_the_call():
    assert run(changed_array)[0] == {1}
    assert run(changed_array, "staged@1=1")[0] == {2}
    assert not [point for point in run(changed_array, rules="acl")[1].points if point.kind is Choice.STAGED]


def test_a_sleep_and_a_timer_end_late():
    async def sleeps():
        loop = asyncio.get_running_loop()
        begin = loop.time()
        await asyncio.sleep(0.001)
        return round((loop.time() - begin) * 1e6)

    assert (run(sleeps)[0], run(sleeps, "host@1=2")[0]) == (1000, 2000)


def test_deviations_are_said_in_words():
    texts = []
    with following(Schedule(Replay(parse("delay@1=1 duration@2=1")), lambda _, text: texts.append(text))):
        acl.run(two_copies, device="tiny")
    line = two_copies.__code__.co_firstlineno + 4
    assert texts == [
        f"h2d on stream 1, queued at test_schedules.py:{line}, starts 20 us later",
        f"h2d on stream 2, queued at test_schedules.py:{line + 1}, takes 8 times as long",
    ]


def test_the_text_of_a_schedule():
    deviations = [Deviation(Choice.DELAY, 3, 1), Deviation(Choice.TASK, 12, 2)]
    assert parse(" delay@3=1, task@12=2 ") == deviations
    assert " ".join(map(str, deviations)) == "delay@3=1 task@12=2"
    assert Replay(deviations)(Point(Choice.TASK, 12, 2), ()) == 0, "there is no such option in this run"


@pytest.mark.parametrize("text", ["", "delay@3", "delay@0=1", "speed@1=1", "delay@3=0", "delay@3=1 delay@3=2"])
def test_a_text_that_is_no_schedule(text):
    with pytest.raises(ValueError, match=r"is not a deviation, such as delay@3=1; the kinds are host, delay|twice"):
        parse(text)


def test_a_run_that_is_not_explored_never_asks_for_a_choice():
    """So it costs a comparison at each choice point, and nothing of what the machinery does."""
    asked = []

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.endswith(("choices.py", "reversed_effects.py")):
            asked.append(frame.f_code.co_qualname)

    def calls(**options):
        asked.clear()
        sys.setprofile(note)
        try:
            acl.run(two_at_once, device="tiny", workers=1, **options)
        finally:
            sys.setprofile(None)
        return set(asked)

    assert calls() == set()
    assert "ReversedEffects.run" in calls(effects="weak")
    with following(Schedule(Replay(()))):
        assert "Choices.queued" in calls()
