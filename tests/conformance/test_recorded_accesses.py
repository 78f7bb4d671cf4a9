"""What the host reads and writes through views, as steps of a recorded program: same bytes, same findings."""

import asyncio
from random import Random

import numpy as np
import pytest
from roundtrips import differences, document_of

import acl_py as acl
from acl_py.programs.format import ProgramError, parse
from acl_py.programs.replay import replay
from acl_py.verbs.kernels import Cost, InOut, kernel
from tests.campaigns import many

IN, OUT = acl.MemcpyKind.HOST_TO_DEVICE, acl.MemcpyKind.DEVICE_TO_HOST
SIZE = 64
PARTS = "host,device,uninitialised"


@kernel(cost=Cost(us=60))
def square(x: InOut):
    np.multiply(x, x, out=x)


def recording(main, *args, sanitize=PARTS, rules="cuda"):
    """The timeline of a sanitized run on the tiny device, and the ids of its findings."""

    async def whole():
        await main(*args)
        sim = acl.current_simulation()
        return sim.trace.timeline(), {finding.id for finding in sim.findings}

    return acl.run(whole, device="tiny", rules=rules, sanitize=sanitize)


def accesses(timeline):
    """The accesses of the recorded program, without lines."""
    steps = document_of(timeline)["steps"]
    return [
        {name: value for name, value in step.items() if name not in ("site", "op")}
        for step in steps
        if step["op"] == "host_access"
    ]


def replayed(timeline, sanitize=PARTS):
    return replay(parse(document_of(timeline)), device="tiny", rules=timeline.rules, sanitize=sanitize)


def test_accesses_stand_between_the_calls_where_they_were_made():
    async def main():
        host, device = await acl.MallocHost(SIZE, name="h"), await acl.Malloc(SIZE, name="d")
        view = host.numpy(np.uint8)
        view[:] = 1
        await acl.MemcpyAsync(device, SIZE, host, SIZE, IN)
        view[8:16] = 2
        await acl.SynchronizeDevice()
        view.sum()

    timeline, found = recording(main)
    steps = [{**step, "site": step["site"].rpartition(":")[0]} for step in document_of(timeline)["steps"]]
    assert steps[2:] == [
        {"op": "host_access", "writes": [["h", 0, SIZE]], "site": "test_recorded_accesses.py"},
        {"op": "memcpy_async", "dst": "d", "src": "h", "bytes": SIZE, "stream": "legacy",
         "site": "test_recorded_accesses.py"},
        {"op": "host_access", "writes": [["h", 8, 16]], "site": "test_recorded_accesses.py"},
        {"op": "sync_device", "site": "test_recorded_accesses.py"},
        {"op": "host_access", "reads": [["h", 0, SIZE]], "site": "test_recorded_accesses.py"},
    ]  # fmt: skip
    assert differences(timeline) == []
    assert len(found) == 1
    again = replayed(timeline)
    assert {finding.id for finding in again.findings} == found
    assert accesses(again.trace.timeline()) == accesses(timeline)


def test_bytes_are_exact():
    async def main():
        view = (await acl.MallocHost(SIZE, name="h")).numpy(np.int16)
        view[:] = 1
        await acl.GetDevice()
        view[::4] = 2
        await acl.GetDevice()
        view.reshape(4, 8)[:, 2].sum()

    timeline, _ = recording(main)
    assert accesses(timeline)[1:] == [
        {"writes": [["h", start, start + 2] for start in range(0, SIZE, 8)]},
        {"reads": [["h", start + 4, start + 6] for start in range(0, SIZE, 16)]},
    ]


def test_a_loop_over_items_is_one_step():
    async def main():
        view = (await acl.MallocHost(SIZE, name="h")).numpy(np.uint8)
        for index in range(SIZE):
            view[index] = index
        await acl.GetDevice()
        for index in reversed(range(0, SIZE, 2)):
            int(view[index])

    timeline, _ = recording(main)
    assert accesses(timeline) == [
        {"writes": [["h", 0, SIZE]]},
        {"reads": [["h", index, index + 1] for index in range(0, SIZE, 2)]},
    ]


@pytest.mark.slow
def test_a_line_has_as_few_steps_for_many_items_as_for_one():
    async def main(items):
        view = (await acl.MallocHost(items)).numpy(np.uint8)
        view[:] = 1
        for index in range(items):
            view[index] ^= view[index - 1]

    few, many = (accesses(recording(main, items)[0]) for items in (2, 5000))
    assert len(few) == len(many) == 3


def test_what_a_line_reads_behind_its_own_writes_stays_behind_them():
    """Only the first item is unwritten when it is read."""

    async def main():
        view = (await acl.MallocHost(SIZE, name="h")).numpy(np.uint8)
        for index in range(1, SIZE):
            view[index] = view[index - 1]

    timeline, found = recording(main)
    assert accesses(timeline) == [
        {"reads": [["h", 0, 1]]},
        {"writes": [["h", 1, SIZE]]},
        {"reads": [["h", 1, SIZE - 1]]},
    ]
    assert {finding.id for finding in replayed(timeline).findings} == found
    assert len(found) == 1


def test_an_access_at_the_end_of_a_callback_stays_in_it_or_behind_it():
    """The copy behind the callback waits for its end: what the host writes after that races with the copy."""

    async def main(writes_inside):
        host, device = await acl.MallocHost(SIZE, name="h"), await acl.Malloc(SIZE, name="d")
        stream, view = await acl.CreateStream(), host.numpy(np.uint8)

        def write(_):
            if writes_inside:
                view[:] = 1

        await acl.SubscribeReport(None, stream)
        await acl.LaunchCallback(write, None, acl.CallbackBlock.BLOCK, stream)
        await acl.MemcpyAsync(device, SIZE, host, SIZE, IN, stream)
        await acl.ProcessReport(-1)
        if not writes_inside:
            view[:] = 1
        await acl.SynchronizeStream(stream)

    for writes_inside, count in ((True, 0), (False, 1)):
        timeline, found = recording(main, writes_inside, rules="acl")
        assert len(found) == count
        assert {finding.id for finding in replayed(timeline).findings} == found


def test_an_await_of_what_is_done_puts_later_accesses_in_order():
    async def main():
        host, device = await acl.MallocHost(SIZE), await acl.Malloc(SIZE)
        view = host.numpy(np.uint8)
        view[:] = 1
        copied = await acl.MemcpyAsync(device, SIZE, host, SIZE, IN)
        await acl.HostWork(1000)
        if is_awaited:
            await copied
        view[:] = 2

    for is_awaited in (True, False):
        timeline, found = recording(main)
        assert len(found) == (not is_awaited)
        assert {finding.id for finding in replayed(timeline).findings} == found


def test_a_host_function_has_the_bytes_that_it_touches():
    async def main():
        host, stream = await acl.MallocHost(SIZE, name="h"), await acl.CreateStream()
        view = host.numpy(np.uint8)
        view[:] = 1

        def add():
            view[4:8] += 1

        await acl.LaunchHostFunc(stream, add, us=5)
        view[6] = 0
        await acl.SynchronizeDevice()

    timeline, found = recording(main)
    [step] = [step for step in document_of(timeline)["steps"] if step["op"] == "host_func"]
    assert (step["name"], step["reads"], step["writes"]) == ("add", [["h", 4, 8]], [["h", 4, 8]])
    assert differences(timeline) == []
    assert {finding.id for finding in replayed(timeline).findings} == found
    assert len(found) == 1


def test_each_task_makes_its_own_accesses():
    async def touch(view):
        view[:8] = 1
        await acl.GetDevice()

    async def main():
        view = (await acl.MallocHost(SIZE, name="h")).numpy(np.uint8)
        tasks = [asyncio.create_task(touch(view), name=name) for name in "ab"]
        await asyncio.gather(*tasks)

    timeline, _ = recording(main)
    assert [each["task"] for each in accesses(timeline)] == ["task 'a'", "task 'b'"]
    assert differences(timeline) == []


def test_a_thread_that_makes_no_calls_is_a_task_of_the_program():
    async def main():
        view = (await acl.MallocHost(SIZE, name="h")).numpy(np.uint8)
        await asyncio.to_thread(view.fill, 3)

    timeline, _ = recording(main)
    (access,) = accesses(timeline)
    assert access["writes"] == [["h", 0, SIZE]]
    assert access["task"] not in {call.caller for call in timeline.calls}
    assert differences(timeline) == []


def test_a_run_whose_host_is_not_watched_has_none():
    async def main():
        (await acl.MallocHost(SIZE)).numpy(np.uint8)[:] = 1

    for sanitize in (False, "device"):
        timeline, _ = recording(main, sanitize=sanitize)
        assert list(timeline.accesses) == []
        assert accesses(timeline) == []


def test_memory_without_a_name_is_named_by_its_line_in_a_replay_too():
    async def main():
        int((await acl.MallocHost(SIZE)).numpy(np.uint8)[0])

    timeline, found = recording(main)
    assert {finding.id for finding in replayed(timeline).findings} == found
    assert len(found) == 1


@pytest.mark.parametrize(
    ("buffer", "problem"),
    [("d", "'d' is device memory"), ("p", "'p' has 64 bytes, and the step touches 65")],
)
def test_what_a_host_cannot_touch_is_refused(buffer, problem):
    buffers = {"d": {"space": "device", "bytes": SIZE}, "p": {"space": "pinned", "bytes": SIZE}}
    steps = [{"op": "host_access", "reads": [[buffer, 0, SIZE + (buffer == "p")]]}]
    with pytest.raises(ProgramError, match=f"{problem}; the host would crash here"):
        replay(parse({"id": "x", "buffers": buffers, "steps": steps}), device="tiny")


async def at_random(seed):
    """One task that copies, computes, waits, and touches parts of pinned memory in many ways."""
    rng = Random(seed)
    streams = [await acl.CreateStream() for _ in range(2)]
    hosts = [await acl.MallocHost(SIZE, name=rng.choice((None, f"h{place}"))) for place in range(2)]
    device = await acl.Malloc(SIZE)
    event = await acl.CreateEvent()
    views = [host.numpy(np.uint8) for host in hosts]
    queued = [await acl.MemsetAsync(device, SIZE, 1, SIZE, streams[0])]
    for _ in range(rng.randint(5, 25)):
        view, host, stream = rng.choice(views), rng.choice(hosts), rng.choice(streams)
        first, step = rng.randrange(SIZE), rng.choice((1, 1, 2, 8))
        match rng.randrange(12):
            case 0 | 1:
                view[first::step] = 1
            case 2:
                view[first::step].sum()
            case 3:
                for index in range(first, SIZE):
                    view[index] = view[index - 1]
            case 4:
                views[0][first:] += views[1][first:]
            case 5:
                queued.append(await acl.MemcpyAsync(device, SIZE, host, SIZE, IN, stream))
            case 6:
                queued.append(await acl.MemcpyAsync(host, SIZE, device, SIZE - first, OUT, stream))
            case 7:
                await square[1, stream](device)
            case 8:
                await rng.choice(queued)
            case 9:
                await acl.RecordEvent(event, stream)
                await acl.StreamWaitEvent(rng.choice(streams), event)
            case 10:
                await acl.HostWork(rng.choice((1, 100)))
            case 11:
                queued.append(await acl.LaunchHostFunc(stream, view[first:].sum, us=3))
    await acl.SynchronizeDevice()


def check_at_random(seed):
    timeline, found = recording(at_random, seed)
    assert differences(timeline) == []
    again = replayed(timeline)
    assert {finding.id for finding in again.findings} == found
    assert accesses(again.trace.timeline()) == accesses(timeline)
    return len(found)


def test_random_runs_have_the_same_findings_in_their_replays():
    assert sum(map(check_at_random, range(8))) > 8


@pytest.mark.slow
def test_many_random_runs_have_the_same_findings_in_their_replays():
    """522 had."""
    assert sum(map(check_at_random, range(8, 8 + many(180)))) > many(170)
