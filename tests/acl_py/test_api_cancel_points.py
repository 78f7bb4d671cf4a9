"""Each verb that may wait, cancelled at each point where it does: it has queued nothing, or all, and nothing is left.

A case prepares a device on which its verb has to wait, and says what is left of a call that was cancelled at its
first, second, ... wait: "-" nothing, "+" all that the call does, "=" where the two are the same.
"""

import asyncio
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from cut import CANCELLED, MEANS, Cut, by_task
from histories import D2D, D2H, H2D, H2H, busy

import acl_py as acl
from acl_py.runtime.scopes import scope_var
from acl_py.simulation import simulation_of
from acl_py.verbs.devices import Initialized
from device_model import memory as model
from device_model.completions import Completion
from device_model.profile import load

LONG = busy("long", 100)
NEXT = busy("next", 1)
CASES = {}


def case(left, *, rules=("cuda",)):
    """A coroutine function of a `Place` that gives a function which makes the verb's coroutine."""

    def enter(prepare):
        for each in rules:
            CASES[f"{prepare.__name__}-{each}"] = (prepare, each, left)
        return prepare

    return enter


class Place:
    """What the cases have: a stream that is busy for 100 us, and 8 KiB of memory of each kind, twice."""

    async def make(self):
        self.stream, self.event = await acl.CreateStream(), await acl.CreateEvent()
        self.device, self.other = await acl.Malloc(8192), await acl.Malloc(8192)
        self.pinned, self.pinned_other = await acl.MallocHost(8192), await acl.MallocHost(8192)
        self.pageable, self.pageable_other = np.full(8192, 5, np.uint8), np.full(8192, 6, np.uint8)
        self.pinned.numpy()[:], self.pinned_other.numpy()[:] = 1, 2
        await acl.Memset(self.device, 8192, 3, 8192)
        await acl.Memset(self.other, 8192, 4, 8192)
        await acl.LaunchKernel(LONG, 1, (), self.stream)
        await acl.RecordEvent(self.event, self.stream)
        self.done = lambda: None  # has the verb done what is seen nowhere else?
        return self

    async def fill_queue(self, verb, *args):
        """Until there is no room for one more."""
        while all(len(queue.fifo) + queue.reserved < queue.depth for queue in self.stream.queues[:3]):
            await verb(*args)

    def contents(self):
        """All bytes, read without a call."""
        ours = (self.pinned, self.pinned_other, self.device, self.other)
        bytes_ = [
            None if each.allocation.freed else model.array(each.allocation, 0, np.dtype(np.uint8), 8192)
            for each in ours
        ]
        return [_runs(each) for each in (*bytes_, self.pageable, self.pageable_other)]


def _runs(values):
    """Short for long arrays: each run as a value and its end."""
    if values is None:
        return "freed"
    ends = [*np.flatnonzero(np.diff(values)).tolist(), len(values) - 1]
    return [(int(values[end]), end + 1) for end in ends]


@case("-")
async def launch_with_a_full_queue(place):
    await place.fill_queue(acl.LaunchKernel, NEXT, 1, (), place.stream)
    return lambda: acl.LaunchKernel(NEXT, 1, (), place.stream)


@case("-")
async def pinned_copy_to_the_device_with_a_full_queue(place):
    await place.fill_queue(acl.MemcpyAsync, place.device, 8192, place.pinned, 10, H2D, place.stream)
    return lambda: acl.MemcpyAsync(place.other, 8192, place.pinned, 8192, H2D, place.stream)


@case("-")
async def copy_to_pinned_memory_with_a_full_queue(place):
    await place.fill_queue(acl.MemcpyAsync, place.pinned, 8192, place.device, 10, D2H, place.stream)
    return lambda: acl.MemcpyAsync(place.pinned_other, 8192, place.device, 8192, D2H, place.stream)


@case("-")
async def copy_inside_the_device_with_a_full_queue(place):
    await place.fill_queue(acl.LaunchKernel, NEXT, 1, (), place.stream)
    return lambda: acl.MemcpyAsync(place.other, 8192, place.device, 8192, D2D, place.stream)


@case("-")
async def fill_with_a_full_queue(place):
    await place.fill_queue(acl.LaunchKernel, NEXT, 1, (), place.stream)
    return lambda: acl.MemsetAsync(place.other, 8192, 9, 8192, place.stream)


@case("-")
async def pitched_copy_with_a_full_queue(place):
    await place.fill_queue(acl.MemcpyAsync, place.device, 8192, place.pinned, 10, H2D, place.stream)
    return lambda: acl.Memcpy2dAsync(place.other, 64, place.pinned, 32, 32, 16, H2D, place.stream)


@case("-")
async def small_pageable_copy_with_a_full_ring(place):
    for _ in range(4):
        await acl.MemcpyAsync(place.device, 8192, place.pageable, 4096, H2D, place.stream)
    return lambda: acl.MemcpyAsync(place.other, 8192, place.pageable_other, 4096, H2D, place.stream)


@case("-")
async def small_pageable_copy_with_a_full_queue(place):
    await place.fill_queue(acl.MemcpyAsync, place.device, 8192, place.pageable, 10, H2D, place.stream)
    return lambda: acl.MemcpyAsync(place.other, 8192, place.pageable_other, 4096, H2D, place.stream)


@case("+")
async def large_pageable_copy_in_staging(place):
    return lambda: acl.MemcpyAsync(place.other, 8192, place.pageable_other, 8192, H2D, place.stream)


@case("+")
async def copy_to_pageable_memory(place):
    return lambda: acl.MemcpyAsync(place.pageable, 8192, place.other, 8192, D2H, place.stream)


@case("-")
async def copy_from_host_to_host(place):
    return lambda: acl.MemcpyAsync(place.pinned, 8192, place.pinned_other, 8192, H2H, place.stream)


@case("-+", rules=("acl",))
async def pageable_copy_outside_the_streams(place):
    return lambda: acl.MemcpyAsync(place.other, 8192, place.pageable_other, 8192, H2D, place.stream)


@case("+", rules=("cuda", "acl"))
async def synchronous_copy_to_the_device(place):
    return lambda: acl.Memcpy(place.other, 8192, place.pinned, 8192, H2D)


@case("+", rules=("cuda", "acl"))
async def synchronous_copy_from_the_device(place):
    return lambda: acl.Memcpy(place.pinned_other, 8192, place.device, 8192, D2H)


@case("-+")
async def synchronous_copy_of_large_pageable_memory(place):
    return lambda: acl.Memcpy(place.other, 8192, place.pageable_other, 8192, H2D)


@case("+")
async def synchronous_copy_to_pageable_memory(place):
    return lambda: acl.Memcpy(place.pageable, 8192, place.device, 8192, D2H)


@case("+", rules=("cuda", "acl"))
async def synchronous_pitched_copy(place):
    return lambda: acl.Memcpy2d(place.other, 64, place.pinned, 32, 32, 16, H2D)


@case("+", rules=("cuda", "acl"))
async def synchronous_fill_of_pinned_memory(place):
    return lambda: acl.Memset(place.pinned, 8192, 9, 8192)


@case("+", rules=("acl",))
async def synchronous_fill_of_pageable_memory(place):
    return lambda: acl.Memset(place.pageable, 8192, 9, 8192)


@case("+")
async def free(place):
    return lambda: acl.Free(place.other)


@case("+")
async def free_of_pinned_memory(place):
    return lambda: acl.FreeHost(place.pinned_other)


@case("+")
async def unregister(place):
    registered = await acl.HostRegister(place.pageable)
    return lambda: acl.HostUnregister(registered)


@case("=", rules=("cuda", "acl"))
async def synchronize_a_stream(place):
    return lambda: acl.SynchronizeStream(place.stream)


@case("=", rules=("cuda", "acl"))
async def synchronize_an_event(place):
    return lambda: acl.SynchronizeEvent(place.event)


@case("=", rules=("cuda", "acl"))
async def synchronize_the_device(place):
    return acl.SynchronizeDevice


@case("=", rules=("cuda", "acl"))
async def synchronize_a_stream_with_a_limit(place):
    return lambda: acl.SynchronizeStreamWithTimeout(place.stream, 1)


@case("=")
async def synchronize_an_event_with_a_limit(place):
    return lambda: acl.SynchronizeEventWithTimeout(place.event, 1)


@case("=")
async def synchronize_the_device_with_a_limit(place):
    return lambda: acl.SynchronizeDeviceWithTimeout(1)


@case("=")
async def await_an_operation(place):
    async def wait():
        await work

    work = await acl.LaunchKernel(NEXT, 1, (), place.stream)
    return wait


@case("=")
async def synchronize_what_is_done(place):
    await acl.SynchronizeDevice()
    return lambda: acl.SynchronizeStream(place.stream)


@case("=")
async def query_a_stream(place):
    return lambda: acl.StreamQuery(place.stream)


@case("=")
async def query_an_event(place):
    return lambda: acl.QueryEventStatus(place.event)


@case("=")
async def sleep(place):
    return lambda: acl.Sleep(1_000)


@case("=")
async def sleep_for_a_turn(place):
    return lambda: acl.Sleep(0)


@case("-")
async def finalize(place):
    await acl.Init()
    return acl.Finalize


@case("-", rules=("acl",))
async def destroy_a_busy_stream(place):
    stream = await acl.CreateStream()
    await acl.LaunchKernel(LONG, 1, (), stream)
    return lambda: acl.DestroyStream(stream)


@case("-", rules=("acl",))
async def reset_a_busy_device(place):
    return lambda: acl.ResetDevice(0)


@case("-", rules=("acl",))
async def record_without_an_event_id_left(place):
    events = place.stream.context.device.event_ids
    while events.free:
        await acl.RecordEvent(await acl.CreateEvent(), place.stream)
    last = await acl.CreateEvent()
    place.done = lambda: last.work is not None
    return lambda: acl.RecordEvent(last, place.stream)


async def _callback(place, limit):
    ran = []
    await acl.SubscribeReport(None, place.stream)
    await acl.LaunchCallback(ran.append, 1, acl.CallbackBlock.BLOCK, place.stream)
    place.done = lambda: ran == [1]
    return lambda: acl.ProcessReport(limit)


@case("-", rules=("acl",))
async def wait_for_a_callback(place):
    return await _callback(place, -1)


@case("-", rules=("acl",))
async def wait_for_a_callback_with_a_limit(place):
    return await _callback(place, 1)


@case("")
async def launch_a_host_function(place):
    return lambda: acl.LaunchHostFunc(place.stream, int)


STAGED = (large_pageable_copy_in_staging, synchronous_copy_of_large_pageable_memory, copy_to_pageable_memory,
          synchronous_copy_to_pageable_memory)  # fmt: skip
CALLBACKS = (wait_for_a_callback, wait_for_a_callback_with_a_limit)


# --- how it is done


def _few_ids():
    profile = load("tiny")
    return replace(profile, limits=replace(profile.limits, events=8))


def _state(runtime):
    """What a call may have done, but for bytes."""
    return (
        [(op.name, op.bytes) for op in simulation_of(runtime).trace.ops],
        sorted(repr(each) for each in runtime.memory.leaks()),
        [len(context.streams) for device in runtime.devices for context in device.contexts],
        [context.id for device in runtime.devices for context in device.contexts],
        runtime.state(Initialized).count,
    )


async def _program(prepare, attempts):
    """What is left of *attempts* to make a call, how they ended, and when."""
    place = await Place().make()
    make = await prepare(place)
    bystander = asyncio.create_task(asyncio.Event().wait())  # somebody is there, so that nobody waits in place
    runtime, log = scope_var.get().runtime, []
    for means, cut in attempts:
        try:
            await means(cut, make())
            log.append(("done", runtime.host_ns))
        except CANCELLED:
            log.append(("cancelled", runtime.host_ns))
            asyncio.current_task().uncancel()
    timers = [subject for subject in runtime.scheduler.subjects() if type(subject) is Completion]
    assert prepare in STAGED or not timers, "time would go on for nobody's sake"
    done = place.done()
    if prepare in CALLBACKS and not done:
        await acl.ProcessReport(-1)
    while not runtime.scheduler.is_empty and runtime.closed is None:
        await acl.HostWork(1_000)
    bystander.cancel()
    await asyncio.wait([bystander])
    _check_that_nothing_is_left(runtime)
    return (done, _state(runtime), place.contents()), log


def _check_that_nothing_is_left(runtime):
    assert (runtime.waiters, runtime.limits, runtime.scheduler.is_empty, runtime.unfinished()) == ({}, {}, True, [])
    for device in runtime.devices:
        for stream in (stream for context in device.contexts for stream in context.everything()):
            assert device.staging.ring(stream).until_it_takes(16_384).done
            assert (stream.idle, stream.steps) == (True, {})
            for queue in stream.queues[:3]:
                assert (queue.reserved, queue.requests, len(queue.fifo)) == (0, [], 0)


def _run(name, *attempts, uvloop=False):
    prepare, rules, _ = CASES[name]
    return acl.run(_program, prepare, attempts, device=_few_ids(), rules=rules, workers=1, uvloop=uvloop)


@cache
def _uncut(name):
    """What is left where the call is not made, what is left where it is, and at how many points it can be cancelled."""
    counted = Cut()
    return _run(name)[0], _run(name, (by_task, counted))[0], counted.points


def _left(name, effect):
    nothing, everything, _ = _uncut(name)
    if nothing == everything:
        return "=" if effect == nothing else "?"
    return "-" if effect == nothing else "+" if effect == everything else "?"


def _points(name):
    return _uncut(name)[2]


LATE = pytest.mark.parametrize("late", [False, True], ids=["waiting", "woken"])


@pytest.mark.one_in(3)
@LATE
@pytest.mark.parametrize("name", CASES)
def test_a_call_that_is_cancelled_has_done_nothing_or_all(name, late):
    left = ""
    for point in range(_points(name)):
        effect, [(end, _)] = _run(name, (by_task, Cut(point, late=late)))
        assert end == "cancelled"
        left += _left(name, effect)
    assert left == CASES[name][2]


@pytest.mark.one_in(3)
@LATE
@pytest.mark.parametrize("name", [name for name, (_, _, left) in CASES.items() if "-" in left or "=" in left])
def test_a_call_that_did_nothing_can_be_made_again(name, late):
    point = max(CASES[name][2].find(sign) for sign in "-=")
    effect, [(first, _), (second, _)] = _run(name, (by_task, Cut(point, late=late)), (by_task, Cut()))
    assert (first, second) == ("cancelled", "done")
    assert effect == _uncut(name)[1]


@pytest.mark.one_in(16)
@LATE
@pytest.mark.parametrize("means", [means for means in MEANS if means is not by_task], ids=lambda means: means.__name__)
@pytest.mark.parametrize("name", CASES)
def test_by_whatever_means_and_on_either_loop(name, means, late):
    """Some strike a turn later than task.cancel(), so that the call may be over by then."""
    for point in range(_points(name)):
        effect, log = _run(name, (means, Cut(point, late=late)))
        assert _left(name, effect) in ("+=" if log[0][0] == "done" else "+-=")
        assert _run(name, (means, Cut(point, late=late)), uvloop=True) == (effect, log)


def test_who_waits_for_an_event_id_behind_one_that_is_cancelled_gets_it():
    async def main():
        place = await Place().make()
        while place.stream.context.device.event_ids.free:
            await acl.CreateEventWithFlag(
                acl.EventFlag.SYNC
            )  # has its id for good; one is that of the record in the stream
        first, second = await acl.CreateEvent(), await acl.CreateEvent()
        cancelled = asyncio.create_task(by_task(Cut(0, late=True), acl.RecordEvent(first, place.stream)))
        await asyncio.create_task(acl.RecordEvent(second, place.stream))
        assert (cancelled.cancelled(), first.work, second.done) == (True, None, True)

    acl.run(main, device=_few_ids(), rules="acl", workers=1)
