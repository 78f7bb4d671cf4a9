"""Recorded programs: a run, written as a program, replays to the same timeline, to the nanosecond."""

import asyncio
import contextlib
from random import Random

import numpy as np
import pytest
from criteria import is_capture, measured
from roundtrips import differences, document_of

import acl_py as acl
from acl_py import faults
from acl_py.errors import AclError
from acl_py.programs.format import ProgramError, parse
from acl_py.programs.replay import replay
from acl_py.recorded import notes_of
from acl_py.trace.rows.files import read_trace, save
from acl_py.verbs.kernels import Cost, InOut, kernel

IN, OUT = acl.MemcpyKind.HOST_TO_DEVICE, acl.MemcpyKind.DEVICE_TO_HOST
KIB = 1024


@kernel(cost=Cost(us=60))
def square(x: InOut):
    np.multiply(x, x, out=x)


def recording(main, *args, **options):
    """The timeline of a run on the tiny device."""

    async def whole():
        await main(*args)
        return acl.current_simulation().trace.timeline()

    return acl.run(whole, **({"device": "tiny"} | options))


def steps_of(timeline, *names):
    """The steps of the recorded program without the lines; only the fields *names*, if any are given."""
    steps = document_of(timeline)["steps"]
    return [
        {name: value for name, value in step.items() if (name in names if names else name != "site")} for step in steps
    ]


def test_a_program_of_one_task_is_its_calls():
    async def main():
        stream = await acl.CreateStream(name="up")
        device, host = await acl.Malloc(KIB), await acl.MallocHost(KIB)
        await acl.MemcpyAsync(device, KIB, host[:512], 256, IN, stream)
        await acl.HostWork(2.5)
        await square[8, stream](device)
        await acl.SynchronizeStream(stream)

    timeline = recording(main)
    assert steps_of(timeline) == [
        {"op": "create_stream", "name": "up"},
        {"op": "malloc", "name": "allocation 1", "bytes": KIB},
        {"op": "malloc_host", "name": "allocation 2", "bytes": KIB},
        {"op": "memcpy_async", "dst": "allocation 1", "src": "allocation 2", "bytes": 256, "stream": "up"},
        {"op": "host_work", "us": 2.5},
        {
            "op": "launch",
            "stream": "up",
            "us": 60,
            "name": "square",
            "blocks": 8,
            "reads": [["allocation 1", 0, KIB]],
            "writes": [["allocation 1", 0, KIB]],
        },
        {"op": "sync_stream", "stream": "up"},
    ]
    assert document_of(timeline)["steps"][0]["site"].startswith("test_recorded.py:")
    document = document_of(timeline)
    assert [document[name] for name in ("notes", "buffers", "streams", "events")] == [[], {}, {}, {}]
    assert differences(timeline) == []


def test_a_fill_with_words_keeps_them_from_a_file_too(tmp_path):
    async def main():
        device = await acl.Malloc(KIB)
        await acl.MemsetAsync(device, KIB, 0x01020304, 64, unit=4)
        await acl.MemsetAsync(device, KIB, 7, 64)
        await acl.SynchronizeDevice()

    timeline = recording(main, rules="cuda")
    save(timeline, tmp_path / "run.acltrace")
    for each in (timeline, read_trace(tmp_path / "run.acltrace")):
        fills = [step for step in steps_of(each, "value", "unit") if step]
        assert fills == [{"value": 0x01020304, "unit": 4}, {"value": 7}]
    assert differences(timeline) == []


def test_what_a_task_has_waited_for_outside_devices_is_found():
    async def main():
        queue: asyncio.Queue[int] = asyncio.Queue()
        stream = await acl.CreateStream()

        async def produce():
            for item in range(2):
                await square[8, stream](await acl.Malloc(64))
                await acl.SynchronizeStream(stream)
                queue.put_nowait(item)

        async def consume():
            for _ in range(2):
                await queue.get()
                await acl.HostWork(1)

        await asyncio.gather(produce(), consume())

    timeline = recording(main)
    assert steps_of(timeline, "op", "task", "after")[1:] == [
        {"op": "malloc", "task": "task 2"},
        {"op": "launch", "task": "task 2"},
        {"op": "sync_stream", "task": "task 2"},
        {"op": "malloc", "task": "task 2"},
        {"op": "launch", "task": "task 2"},
        {"op": "sync_stream", "task": "task 2"},
        {"op": "host_work", "task": "task 3", "after": 3},
        {"op": "resume", "task": "task 2"},
        {"op": "host_work", "task": "task 3", "after": 6},
    ]
    assert differences(timeline) == []


def test_timers_of_asyncio_are_sleeps_of_their_tasks():
    async def tick(stream, us):
        for _ in range(3):
            await square[1, stream](await acl.Malloc(64))
            await asyncio.sleep(us / 1e6)

    async def main():
        await asyncio.gather(tick(await acl.CreateStream(), 100), tick(await acl.CreateStream(), 330))

    timeline = recording(main)
    sleeps = [(step["task"], step["us"]) for step in document_of(timeline)["steps"] if step["op"] == "sleep"]
    assert sleeps == [("task 2", 100), ("task 3", 330), ("task 2", 100), ("task 3", 330)]
    assert differences(timeline) == []


def test_an_await_of_an_operation_names_its_step():
    async def main():
        stream = await acl.CreateStream()
        launched = await square[8, stream](await acl.Malloc(64))
        await (await acl.MemsetAsync(await acl.Malloc(64), 64, 1, 64, stream))
        await launched

    timeline = recording(main)
    assert [step for step in steps_of(timeline, "op", "id", "of") if len(step) > 1] == [
        {"op": "launch", "id": "op 0"},
        {"op": "memset_async", "id": "op 1"},
        {"op": "sync_op", "of": "op 1"},
        {"op": "sync_op", "of": "op 0"},  # which was done: that is no call
    ]
    assert [call.name for call in timeline.calls].count("await") == 1
    assert differences(timeline) == []


@pytest.mark.parametrize("pause", [None, "work", "sleep"])
def test_a_loop_of_queries_is_one_step(pause):
    async def main():
        stream, event = await acl.CreateStream(), await acl.CreateEvent()
        await square[8, stream](await acl.Malloc(64))
        await acl.RecordEvent(event, stream)
        while await acl.QueryEventStatus(event) is acl.Status.NOT_READY:
            if pause == "work":
                await acl.HostWork(2)
            if pause == "sleep":
                await asyncio.sleep(5e-6)

    timeline = recording(main)
    fields = {None: {}, "work": {"work_us": 2}, "sleep": {"sleep_us": 5}}[pause]
    assert steps_of(timeline)[-1] == {"op": "query_event", "event": "Event 1", "until": True, **fields}
    assert document_of(timeline)["notes"] == []
    assert differences(timeline) == []


def test_an_edit_changes_how_often_a_loop_asks():
    async def main():
        stream = await acl.CreateStream()
        await square[8, stream](await acl.Malloc(64))
        while await acl.StreamQuery(stream) is acl.Status.NOT_READY:
            pass

    document = document_of(recording(main))
    document["steps"][2]["us"] = 10
    calls = replay(parse(document), device="tiny").trace.calls
    assert 10 < sum(call.name == "StreamQuery" for call in calls) < 20


def test_what_a_query_decided_is_noted():
    async def main():
        stream = await acl.CreateStream()
        await square[8, stream](await acl.Malloc(64))
        if await acl.StreamQuery(stream) is acl.Status.NOT_READY:
            await acl.HostWork(5)
        await acl.SynchronizeStream(stream)

    timeline = recording(main)
    [note] = document_of(timeline)["notes"]
    assert note.endswith(': a query was answered "not yet"; what the host did then is fixed here')
    assert differences(timeline) == []


def test_a_time_out_that_struck_is_noted_and_keeps_its_time():
    async def main():
        stream = await acl.CreateStream()
        await square[8, stream](await acl.Malloc(64))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(20e-6):
                await acl.SynchronizeStream(stream)
        with contextlib.suppress(AclError):
            await acl.SynchronizeStreamWithTimeout(stream, 1)
        await acl.SynchronizeDevice()

    timeline = recording(main)
    [note] = document_of(timeline)["notes"]
    assert "SynchronizeStream was ended by a time-out or a cancellation" in note
    assert differences(timeline) == []


def test_a_limit_that_struck_strikes_again():
    async def main():
        stream = await acl.CreateStream()
        for _ in range(30):
            await square[8, stream](await acl.Malloc(64))
        with contextlib.suppress(AclError):
            await acl.SynchronizeStreamWithTimeout(stream, 1)
        await acl.SynchronizeStream(stream)

    timeline = recording(main)
    [note] = document_of(timeline)["notes"]
    assert "the limit of SynchronizeStreamWithTimeout struck" in note
    assert differences(timeline) == []


def test_calls_without_a_step_are_host_work_of_their_names():
    async def main():
        await acl.GetDevice()
        await acl.DeviceCanAccessPeer(0, 1)

    timeline = recording(main)
    assert steps_of(timeline, "op", "name") == [
        {"op": "host_work", "name": "GetDevice"},
        {"op": "host_work", "name": "DeviceCanAccessPeer"},
    ]
    assert differences(timeline) == []


def test_a_call_whose_effect_is_lost_is_noted():
    async def main():
        await acl.ResetDevice(0)

    [note] = document_of(recording(main))["notes"]
    assert note.endswith(
        ": a stream program has no step for ResetDevice: a replay keeps its time and leaves out its effect"
    )


def test_a_call_whose_operation_has_not_ended_is_noted():
    async def main():
        device, host = await acl.Malloc(64), await acl.MallocHost(64)
        await acl.MemcpyAsync(device, 64, host, 64, acl.MemcpyKind.HOST_TO_DEVICE, await acl.CreateStream())

    [note] = document_of(recording(main))["notes"]
    assert note.endswith(
        ": what MemcpyAsync queued has not ended in this run, so a replay keeps the time of the call only"
    )


def test_a_reset_that_waits_has_its_time_and_not_its_effect():
    async def main():
        stream = await acl.CreateStream()
        await square[8, stream](await acl.Malloc(64))
        await acl.ResetDeviceForce(0)
        await acl.SetDevice(0)

    timeline = recording(main, rules="acl")
    document = document_of(timeline)
    assert [note.split(": ")[1] for note in document["notes"]] == [
        "a stream program has no step for ResetDeviceForce",
        "ResetDeviceForce has waited, and the program has a fixed time in its place",
    ]
    again = replay(parse(document), device="tiny", rules="acl").trace
    assert [(op.start_ns, op.end_ns) for op in again.ops] == [(op.start_ns, op.end_ns) for op in timeline.ops]
    last = timeline.calls[-1]
    assert (last.enter_ns, last.exit_ns, last.name) in [
        (call.enter_ns, call.exit_ns, call.name) for call in again.calls
    ]


@pytest.mark.parametrize("rules", ["cuda", "acl"])
def test_a_failure_and_what_it_made_fail_is_noted(rules, tmp_path):
    @kernel(cost=Cost(us=10))
    def broken(x: InOut):
        raise ValueError("x")

    async def main():
        stream, x = await acl.CreateStream(), await acl.Malloc(64)
        await broken[1, stream](x)
        with contextlib.suppress(AclError):
            await acl.SynchronizeStream(stream)
        with contextlib.suppress(AclError):
            await square[1, stream](x)

    timeline = recording(main, rules=rules)
    save(timeline, tmp_path / "run.acl")
    for each in timeline, read_trace(tmp_path / "run.acl"):
        *_, note = document_of(each)["notes"]
        assert note.endswith(": broken failed; in the program, neither it nor what failed because of it does")


@pytest.mark.parametrize("fault", [faults.slow("H2D", 3), faults.slow("cores", 2), faults.delay(op="h2d", us=7)])
def test_faults_that_only_take_time_are_noted(fault):
    async def main():
        with acl.current_simulation().fault(fault):
            device, host = await acl.Malloc(64), await acl.MallocHost(64)
            await acl.Memcpy(device, 64, host, 64, IN)
            await square[1, None](device)
            await acl.SynchronizeDevice()

    assert document_of(recording(main))["notes"] == [
        "faults were injected: the calls and operations that they struck are as without them"
    ]


def test_real_time_that_counted_is_noted_also_from_a_file(tmp_path):
    async def main():
        await acl.HostWork(5)

    timeline = recording(main, host_time="measured")
    save(timeline, tmp_path / "run.acl")
    for each in timeline, read_trace(tmp_path / "run.acl"):
        [note] = document_of(each)["notes"]
        assert note.startswith("the run counted the real time between two calls (host_time='measured'), ")
    assert document_of(recording(main))["notes"] == []


def test_names_are_those_of_the_program_unless_the_format_uses_them():
    async def main():
        for name in ("copies", "legacy", "it's"):
            stream = await acl.CreateStream(name=name)
            await square[1, stream](await acl.Malloc(64, name=name))
        await acl.SynchronizeDevice()

    timeline = recording(main)
    names = ["copies", "stream 'legacy'", "it's"]
    assert [step["name"] for step in steps_of(timeline, "op", "name") if step["op"] == "create_stream"] == names
    again = replay(parse(document_of(timeline)), device="tiny").trace
    assert [op.stream for op in again.ops] == ["stream 'copies'", """stream "stream 'legacy'\"""", 'stream "it\'s"']
    assert differences(timeline) == []


def test_things_of_one_name_are_told_apart():
    async def work(stream):
        for _ in range(2):
            await square[8, stream](await acl.Malloc(64, name="x"))
            await acl.SynchronizeStream(stream)

    async def main():
        streams = [await acl.CreateStream(name="s") for _ in range(2)]
        await asyncio.gather(*[asyncio.create_task(work(stream), name="w") for stream in streams])

    timeline = recording(main)
    steps = steps_of(timeline, "op", "task", "stream", "name")
    assert {step.get("task") for step in steps} == {"task 1", "task 'w' (1)", "task 'w' (2)"}
    assert {step["stream"] for step in steps if "stream" in step} == {"s (1)", "s (2)"}
    assert differences(timeline) == []


@pytest.mark.parametrize("rules", ["cuda", "cuda_per_thread", "acl"])
def test_pageable_memory_and_rows_keep_their_times(rules):
    async def main():
        array = np.zeros(1 << 20, np.uint8)
        device, stream = await acl.Malloc(array.nbytes), await acl.CreateStream()
        await acl.Memcpy(device, array.nbytes, array, array.nbytes, IN)
        await acl.MemcpyAsync(device, array.nbytes, array, 512, IN, stream)
        await acl.Memcpy2dAsync(device, 4096, array, 8192, 1000, 100, acl.MemcpyKind.DEFAULT, stream)
        await acl.Memcpy2d(array, 4096, device, 8192, 1000, 100, OUT)
        await acl.Memcpy(array, 0, device, 0, OUT)
        await acl.Memset(device, 64, 0, 0)
        await square[8, None](device)
        await acl.MemcpyAsync(array, array.nbytes, device, array.nbytes, OUT)
        await acl.SynchronizeDevice()

    assert differences(recording(main, device="h200", rules=rules)) == []


@pytest.mark.parametrize("sizes", [(40 * KIB, 20 * KIB), (20 * KIB, 40 * KIB)])
def test_tasks_that_copy_pageable_memory_from_one_instant_on_take_turns_as_they_did(sizes):
    """The short copy returns first, whichever began first."""

    async def main():
        device = await acl.Malloc(64 * KIB)
        copies = (acl.Memcpy(device, size, np.zeros(size, np.uint8), size, IN) for size in sizes)
        await asyncio.gather(*copies)
        await acl.SynchronizeDevice()

    timeline = recording(main)
    one, other = [call for call in timeline.calls if call.name == "Memcpy"]
    assert one.sleeps[0].begin_ns == other.sleeps[0].begin_ns
    assert [step["bytes"] for step in steps_of(timeline, "op", "bytes") if step["op"] == "memcpy"] == [*sizes]
    assert differences(timeline) == []


def test_acl_has_its_events_notifies_values_and_callbacks():
    async def main():
        stream, other = await acl.CreateStream(), await acl.CreateStream()
        flag = await acl.CreateEventWithFlag(acl.EventFlag.SYNC)
        notify, device = await acl.CreateNotify(), await acl.Malloc(64)
        await acl.Memset(device, 64, 0, 64)
        await acl.StreamWaitEvent(other, flag)
        await square[8, other](device)
        await acl.WaitAndResetNotify(notify, other)
        await square[8, stream](device)
        await acl.RecordEvent(flag, stream)
        await acl.ResetEvent(flag, other)
        await acl.RecordNotify(notify, stream)
        await acl.ValueWait(device[8:], 0, acl.Compare.EQ, other)
        await acl.ValueWrite(device[16:], 3, 0, stream)
        await acl.SubscribeReport(None, stream)
        await acl.LaunchCallback(print, "", acl.CallbackBlock.NO_BLOCK, stream)
        await acl.ProcessReport(100)
        await acl.UnsubscribeReport(None, stream)
        await acl.SynchronizeDevice()

    timeline = recording(main, rules="acl")
    assert document_of(timeline)["notes"] == []
    assert differences(timeline) == []


def test_a_callback_ends_where_it_ended_although_its_task_makes_calls_before_it_takes_the_next_one():
    async def main():
        stream, device = await acl.CreateStream(), await acl.Malloc(64)
        await acl.SubscribeReport(None, stream)
        for _ in range(2):
            await acl.LaunchCallback(acl.HostWork, 5, acl.CallbackBlock.BLOCK, stream)
            await square[8, stream](device)
            await acl.ProcessReport(100)
            await acl.SynchronizeStream(stream)  # without end if the callback were not over

    timeline = recording(main, rules="acl")
    ops = ["launch_callback", "launch", "process_report", "host_work", "end_report", "sync_stream"]
    assert [step["op"] for step in steps_of(timeline)][3:] == 2 * ops
    assert differences(timeline) == []


def test_contexts_and_devices_are_kept():
    async def main():
        first = await acl.CreateContext(0)
        await square[8, await acl.CreateStream()](await acl.Malloc(64))
        await acl.SetDevice(1)
        await square[8, await acl.CreateStream()](await acl.Malloc(64))
        await acl.SynchronizeDevice()
        await acl.SetCurrentContext(first)
        await acl.SynchronizeDevice()

    timeline = recording(main)
    assert {op.device for op in timeline.ops} == {0, 1}
    assert differences(timeline) == []


@pytest.mark.parametrize(("limit_ms", "struck"), [(None, 0), (50, 0), (1, 1)])
def test_a_call_of_another_name_that_waits_for_a_stream_waits_no_longer_than_its_limit(limit_ms, struck):
    launch = {"op": "launch", "stream": "s", "us": 2_000, "blocks": 1}
    wait = {"op": "sync_stream", "stream": "s", "name": "decoder.frame"} | ({"limit_ms": limit_ms} if limit_ms else {})
    steps = [launch, wait]
    program = parse({"id": "p", "device": "tiny", "rules": "acl", "streams": {"s": {}}, "steps": steps})
    timeline = replay(program, device="tiny", rules="acl").trace.timeline()
    assert [call.name for call in timeline.calls][1] == "decoder.frame"
    [again] = [step for step in document_of(timeline)["steps"] if step.get("name") == "decoder.frame"]
    assert {name: again[name] for name in again if name != "site"} == wait
    assert len(document_of(timeline)["notes"]) == struck
    assert differences(timeline) == []


def test_the_primary_context_of_each_device_has_a_name_of_its_own():
    async def main():
        for device in (0, 1):
            await acl.SetDevice(device)
        second = await acl.GetCurrentContext()
        await acl.SetDevice(0)
        first = await acl.GetCurrentContext()
        for context in (second, first):
            await acl.SetCurrentContext(context)
            await square[8, None](await acl.Malloc(64))
            await acl.SynchronizeDevice()

    timeline = recording(main)
    assert {op.device for op in timeline.ops} == {0, 1}
    chosen = [step["context"] for step in steps_of(timeline) if step["op"] == "set_context"]
    assert chosen == ["primary 1", "primary"]
    assert parse(document_of(timeline)).devices()[-3:] == [0, 0, 0]
    assert differences(timeline) == []


def test_a_primary_context_of_a_device_that_is_not_there_is_refused():
    program = parse({"id": "p", "steps": [{"op": "set_context", "context": "primary 2"}]})
    with pytest.raises(ProgramError, match=r"context 'primary 2': device: .* 2"):
        replay(program, device="tiny")


@pytest.mark.parametrize("looks_around", [False, True])
def test_the_notes_of_a_run_are_those_of_its_program(looks_around):
    async def main():
        streams = [await acl.CreateStream() for _ in range(2)]
        buffer = await acl.Malloc(64)
        event = await acl.CreateEvent()
        for stream in streams * 3:
            await square[8, stream](buffer)
            await acl.MemsetAsync(buffer, 64, 0, 64, stream)
            await acl.RecordEvent(event, stream)
            await acl.SetOpWaitTimeOut(3)  # no step has it
            if looks_around:
                await acl.QueryEventStatus(event)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1e-5):
                await acl.SynchronizeStream(streams[0])
        await acl.SynchronizeDevice()

    timeline = recording(main, rules="acl")
    notes = notes_of(timeline)
    assert len(notes) == (3 if looks_around else 2)
    assert notes == document_of(timeline)["notes"]


def test_a_saved_trace_gives_the_same_program(tmp_path):
    async def main():
        await square[8, await acl.CreateStream()](await acl.Malloc(64))
        await acl.SynchronizeDevice()

    timeline = recording(main)
    save(timeline, tmp_path / "trace")
    assert document_of(read_trace(tmp_path / "trace")) == document_of(timeline)


def test_an_empty_run_is_an_empty_program():
    async def main():
        pass

    document = document_of(recording(main))
    assert document["steps"] == []
    assert replay(parse(document), device="tiny").host == []


def test_notes_of_others_are_shown_escaped():
    document = {"id": "p", "steps": [], "notes": ["\x1b[2J"]}
    assert parse(document).notes == ("\\x1b[2J",)
    with pytest.raises(ProgramError, match="site: must be a name"):
        parse({"id": "p", "steps": [{"op": "sync_device", "site": 7}]})


# --- many programs


async def chaos(seed):
    """Tasks that do random things with streams, events, queues, sleeps and time-outs."""
    rng = Random(seed)
    streams = [await acl.CreateStream(nonblocking=rng.random() < 0.3) for _ in range(rng.randint(1, 4))]
    events = [await acl.CreateEvent() for _ in range(3)]
    device, pinned = await acl.Malloc(1 << 16), await acl.MallocHost(1 << 16)
    pageable = np.zeros(1 << 16, np.uint8)
    queue: asyncio.Queue[int] = asyncio.Queue(2)
    lock = asyncio.Lock()
    await acl.SynchronizeDevice()

    async def act(rng):
        stream, event = rng.choice(streams), rng.choice(events)
        nbytes = rng.choice([64, 4096, 1 << 16])
        match rng.randrange(15):
            case 0 | 1:
                await square[rng.randint(1, 9), stream](device)
            case 2:
                await acl.MemcpyAsync(device, nbytes, pinned, nbytes, IN, stream)
            case 3:
                await acl.MemcpyAsync(pinned, nbytes, device, nbytes, OUT, stream)
            case 4:
                await acl.SynchronizeStream(stream)
            case 5:
                await acl.RecordEvent(event, stream)
            case 6:
                await acl.RecordEvent(event, rng.choice(streams))
                await acl.StreamWaitEvent(stream, event)
            case 7:
                await acl.SynchronizeEvent(event)
            case 8:
                await asyncio.sleep(rng.choice([0, 1e-6, 50e-6, 333e-6]))
            case 9:
                await acl.HostWork(rng.choice([0.5, 7, 120]))
            case 10:
                await acl.Memcpy(device, nbytes, pageable, nbytes, IN)
            case 11:
                await (await square[1, stream](device))
            case 12:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(rng.choice([5e-6, 80e-6])):
                        await acl.SynchronizeStream(stream)
            case 13:
                await acl.Free(await acl.Malloc(nbytes))
            case 14:
                async with lock:
                    await square[2, stream](device)
                    await acl.SynchronizeStream(stream)

    async def produce(seed):
        rng = Random(seed)
        for item in range(4):
            await act(rng)
            await queue.put(item)

    async def consume(seed):
        rng = Random(seed)
        for _ in range(4):
            await queue.get()
            await act(rng)

    async def wander(seed):
        rng = Random(seed)
        for _ in range(rng.randint(1, 8)):
            await act(rng)

    tasks = [produce(rng.random()), consume(rng.random())]
    tasks += [wander(rng.random()) for _ in range(rng.randint(0, 3))]
    await asyncio.gather(*tasks)
    await acl.SynchronizeDevice()


def check_chaos(seed):
    device = ("tiny", "h200", "ascend910b3")[seed % 3]
    assert differences(recording(chaos, seed, device=device)) == []


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(30))
def test_random_programs_replay_to_the_same_timeline(seed):
    check_chaos(seed)


@pytest.mark.slow
def test_five_hundred_random_programs_replay_to_the_same_timeline():
    for seed in range(30, 530):
        check_chaos(seed)


FILES = ("semantics", "timelines", "gaps", "waits", "graphs")
# A trace of a replay does not know the threads of its steps, and the capture modes of threads differ there.
OF_THREADS = ("capture-other-thread-exchanged",)
MEASURED = [each for name in FILES for each in measured(name) if each["id"] not in OF_THREADS]


def check_measured(documents):
    for document in documents:
        assert differences(replay(parse(document)).trace.timeline(), device="h200") == [], document["id"]


def test_some_measured_programs_replay_to_the_same_timeline():
    pools = [each for each in MEASURED if each["id"].startswith(("malloc-async", "pool"))]
    graphs = [each for each in MEASURED if is_capture(each)]
    check_measured([*MEASURED[::10], *pools, *graphs[::5]])


@pytest.mark.slow
def test_all_measured_programs_replay_to_the_same_timeline():
    check_measured(MEASURED)
