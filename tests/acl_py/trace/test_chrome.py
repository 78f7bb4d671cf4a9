"""The Chrome trace obeys the rules that its viewers do not tell."""

import json
import tracemalloc
from bisect import bisect_right
from collections import Counter, defaultdict
from itertools import pairwise

import pytest
from histories import busy
from traceable import pipeline

import acl_py
from acl_py import faults
from acl_py.programs.format import parse
from acl_py.programs.replay import replay
from acl_py.trace import chrome, read_trace
from acl_py.trace.rows.reading import site_of_call
from acl_py.trace.rows.recorder import Trace
from acl_py.trace.rows.timeline import Call, Timeline

WORK = busy("work", 20)


def by_phase(events):
    phases = defaultdict(list)
    for event in events:
        phases[event["ph"]].append(event)
    return phases


def lane(event):
    return event["pid"], event["tid"]


def span(event):
    """Begin and end in nanoseconds."""
    return round(event["ts"] * 1000), round((event["ts"] + event["dur"]) * 1000)


def lane_names(phases):
    processes = {e["pid"]: e["args"]["name"] for e in phases["M"] if e["name"] == "process_name"}
    return {lane(e): f"{processes[e['pid']]}: {e['args']['name']}" for e in phases["M"] if e["name"] == "thread_name"}


def test_no_two_slices_of_a_lane_overlap(any_trace, chrome_events):
    lanes = defaultdict(list)
    for event in by_phase(chrome_events(any_trace))["X"]:
        if event["cat"] != "sleep":  # these are inside of calls
            lanes[lane(event)].append(span(event))
    for spans in lanes.values():
        spans.sort()
        for (_, end), (begin, _) in pairwise(spans):
            assert end <= begin


def test_every_operation_and_call_is_one_slice_in_a_lane_with_a_name(any_trace, chrome_events):
    phases = by_phase(chrome_events(any_trace))
    slices = [(event["name"], *span(event)) for event in phases["X"]]
    ops = [(op.name, op.start_ns, op.end_ns) for op in any_trace.ops]
    calls = [(call.name, call.enter_ns, call.exit_ns) for call in any_trace.calls]
    sleeps = [("asleep", sleep.begin_ns, sleep.end_ns) for call in any_trace.calls for sleep in call.sleeps]
    timed = ("record", "wait", "callback")  # the steps that these programs make
    steps = [(event["name"], *span(event)) for event in phases["X"] if event["cat"] in timed]
    assert len(steps) == len(any_trace.timeline().steps)
    assert sorted(slices) == sorted(ops + calls + sleeps + steps)
    names = lane_names(phases)
    assert {lane(event) for event in phases["X"]} == set(names)
    assert len(set(names.values())) == len(names)


def test_each_operation_has_an_arrow_from_the_call_that_queued_it(any_trace, chrome_events):
    slices = by_phase(chrome_events(any_trace))["X"]
    ops = [event for event in slices if event.get("flow_in")]
    calls = {event["bind_id"]: event for event in slices if event.get("flow_out")}
    assert [event["args"]["correlation"] for event in ops] == list(range(1, len(any_trace.ops) + 1))
    assert calls.keys() == {event["bind_id"] for event in ops}
    for number, call in calls.items():
        assert type(number) is int
        assert call["cat"] == "call"
        assert call["args"]["correlation"] == number - 2**32
    for op in ops:
        call = calls[op["bind_id"]]
        assert op["cat"] != "call"
        assert call["args"]["site"] == op["args"]["site"]
        assert span(call)[0] < round(op["args"]["queued_us"] * 1000) <= span(call)[1]
        assert call["ts"] <= op["ts"]


def test_no_lane_has_the_number_of_a_process(any_trace, chrome_events):
    phases = by_phase(chrome_events(any_trace))
    lanes = {event["tid"] for event in phases["X"]}
    assert lanes.isdisjoint(event["pid"] for event in phases["X"])
    assert len(lanes) == len({lane(event) for event in phases["X"]})


def test_lanes_are_sorted_in_the_order_of_their_numbers_and_names(any_trace, chrome_events):
    events = [event for event in by_phase(chrome_events(any_trace))["M"] if event["name"] == "thread_sort_index"]
    assert [event["args"]["sort_index"] for event in events] == list(range(len(events)))
    assert [event["pid"] for event in events] == sorted(event["pid"] for event in events)


def test_counters_have_what_runs_and_the_bytes_that_are_copied(chrome_events, traced):
    counters = by_phase(chrome_events(traced("one_of_each")))["C"]
    running = [(event["ts"], event["args"]["operations"]) for event in counters if event["name"] == "running"]
    moving = [(event["ts"], event["args"]["bytes"]) for event in counters if event["name"] == "in flight"]
    assert running == [(3.01, 1), (43.01, 0)]  # one operation begins where another ends
    assert moving == [(3.01, 10_000), (13.01, 0), (33.01, 10_000), (43.01, 0)]


async def test_a_counter_has_the_memory_in_use_on_each_device(chrome_events):
    async with acl_py.simulate(device="tiny") as sim:
        stream = await acl_py.CreateStream()
        kept, lent = await acl_py.Malloc(1_000), await acl_py.MallocAsync(2_000, stream)
        await acl_py.MallocHost(500)
        await acl_py.FreeAsync(lent, stream)
        with pytest.raises(acl_py.AclError):
            await acl_py.Free(kept[8:])
        await acl_py.SetDevice(1)
        await acl_py.Malloc(700)
        await acl_py.Free(kept)
    exits = [call.exit_ns / 1000 for call in sim.trace.calls if call.name.startswith(("Malloc", "Free"))]
    counters = [event for event in by_phase(chrome_events(sim.trace))["C"] if event["name"] == "memory"]
    first, second = ([(e["ts"], e["args"]["bytes"]) for e in counters if e["pid"] == pid] for pid in (2, 3))
    malloc, malloc_async, _, free_async, other, free = exits
    assert first == [(malloc, 1_000), (malloc_async, 3_000), (free_async, 1_000), (free, 0)]
    assert second == [(other, 700)]


def memory_in_use(chrome_events, trace):
    counters = [event for event in by_phase(chrome_events(trace))["C"] if event["name"] == "memory"]
    return [(round(event["ts"] * 1000), event["args"]["bytes"]) for event in counters]


async def test_memory_of_free_async_is_in_use_until_the_work_ahead_of_it_is_over(chrome_events):
    async with acl_py.simulate(device="tiny") as sim:
        stream = await acl_py.CreateStream()
        lent, own = await acl_py.MallocAsync(2_000, stream), await acl_py.Malloc(300)
        await acl_py.LaunchKernel(WORK, 1, (), stream)
        await acl_py.FreeAsync(lent, stream)
        await acl_py.FreeAsync(own, stream)
        before = memory_in_use(chrome_events, sim.trace)
        await acl_py.SynchronizeDevice()
    (kernel,) = sim.trace.ops
    assert before == [(2_000, 2_000), (3_000, 2_300)]
    assert memory_in_use(chrome_events, sim.trace) == [*before, (kernel.end_ns, 0)]
    assert kernel.end_ns > 20_000
    assert [each.end_ns for each in sim.trace.buffers] == [kernel.end_ns] * 2


async def test_a_block_that_a_pool_gives_out_again_is_counted_once(chrome_events):
    """The host runs ahead: at the last MallocAsync the device has not come to the first FreeAsync. The second and the
    third take a part each of the first block, which is in use until then.
    """
    async with acl_py.simulate(device="tiny") as sim:
        stream = await acl_py.CreateStream()
        for nbytes in (2_000, 1_000, 500):
            lent = await acl_py.MallocAsync(nbytes, stream)
            await acl_py.LaunchKernel(WORK, 1, (), stream)
            await acl_py.FreeAsync(lent, stream)
        await acl_py.SynchronizeDevice()
    first, second, third = (op.end_ns for op in sim.trace.ops)
    assert memory_in_use(chrome_events, sim.trace) == [(2_000, 2_000), (first, 1_500), (second, 500), (third, 0)]


@pytest.mark.parametrize("rules", ["cuda", "acl"])
async def test_a_reset_frees_all_memory_of_its_device(chrome_events, rules):
    async with acl_py.simulate(device="tiny", rules=rules) as sim:
        stream = await acl_py.CreateStream()
        await acl_py.Malloc(1_000)
        lent = await acl_py.MallocAsync(2_000, stream)
        await acl_py.MallocHost(64)
        await acl_py.LaunchKernel(WORK, 1, (), stream)
        await acl_py.FreeAsync(lent, stream)
        await acl_py.ResetDeviceForce(0)
        await acl_py.SetDevice(0)
        await acl_py.Malloc(300)
        await acl_py.HostWork(100)
    reset = next(call for call in sim.trace.calls if call.name == "ResetDeviceForce")
    (kernel,) = sim.trace.ops
    gone = [(kernel.end_ns, 1_000), (reset.exit_ns, 0)]  # it waits for the work of the device, and so for FreeAsync
    assert reset.exit_ns > kernel.end_ns
    assert memory_in_use(chrome_events, sim.trace)[1:] == [(3_000, 3_000), *gone, (reset.exit_ns + 2_000, 300)]
    device, pool, host, _ = sim.trace.buffers
    assert (device.freed, pool.end_ns, host.freed) == (site_of_call(reset), gone[0][0], "")


async def test_a_reset_of_a_board_leaves_what_malloc_host_made(chrome_events):
    async with acl_py.simulate(device="ascend310") as sim:
        await acl_py.Malloc(1_000)
        await acl_py.MallocHost(64)
        await acl_py.ResetDeviceForce(0)
    assert [nbytes for _, nbytes in memory_in_use(chrome_events, sim.trace)] == [1_000, 1_064, 64]


async def test_a_saved_trace_has_the_same_counter_of_memory(chrome_events, tmp_path):
    async with acl_py.simulate(device="tiny") as sim:
        stream, lent = await acl_py.CreateStream(), await acl_py.MallocAsync(2_000)
        await acl_py.Malloc(300)
        await acl_py.LaunchKernel(WORK, 1, (), stream)
        await acl_py.FreeAsync(lent, stream)
        await acl_py.SynchronizeDevice()
        await acl_py.ResetDevice(0)
    sim.trace.save(tmp_path / "run.acl")
    saved = read_trace(tmp_path / "run.acl")
    (kernel,), reset = saved.ops, saved.calls[-1]
    in_use = memory_in_use(chrome_events, saved)
    assert in_use == memory_in_use(chrome_events, sim.trace)
    assert in_use[2:] == [(kernel.end_ns, 300), (reset.exit_ns, 0)]


def test_a_counter_begins_with_the_memory_of_a_program(chrome_events):
    buffers = {"a": {"space": "device", "bytes": 64}, "b": {"space": "pinned", "bytes": 64}}
    program = parse({"id": "p", "buffers": buffers, "streams": {}, "events": {}, "steps": [{"op": "sync_device"}]})
    counters = by_phase(chrome_events(replay(program).trace))["C"]
    assert [(event["name"], event["ts"], event["args"]["bytes"]) for event in counters] == [("memory", 0, 64)]


def test_a_counter_is_the_sum_over_all_that_runs(any_trace, chrome_events):
    counters = by_phase(chrome_events(any_trace))["C"]
    ops = any_trace.ops
    for device in {op.device for op in ops}:
        starts = sorted(op.start_ns for op in ops if op.device == device)
        ends = sorted(op.end_ns for op in ops if op.device == device)
        own = [event for event in counters if event["pid"] == device + 2 and event["name"] == "running"]
        for event in own:
            at = round(event["ts"] * 1000)
            assert event["args"]["operations"] == bisect_right(starts, at) - bisect_right(ends, at)
        assert own[-1]["args"]["operations"] == 0


def test_the_file_has_one_event_per_line(any_trace, tmp_path):
    path = tmp_path / "trace.json"
    chrome.write(any_trace, path)
    first, *lines, last = path.read_text(encoding="utf-8").splitlines()
    assert (first, last) == ('{"displayTimeUnit": "ns", "traceEvents": [', "]}")
    assert json.loads(path.read_text(encoding="utf-8"))["traceEvents"] == [
        json.loads(line.removesuffix(",")) for line in lines
    ]


def test_a_whole_trace(traced, chrome_events):
    phases = by_phase(chrome_events(traced("one_of_each")))
    names = lane_names(phases)
    slices = sorted(phases["X"], key=lambda event: event["ts"])
    slices, sleeps = [e for e in slices if e["cat"] != "sleep"], [e for e in slices if e["cat"] == "sleep"]
    assert [(*span(event), event["args"]["waited_for"][:18]) for event in sleeps] == [
        (5_310, 43_010, "d2h of stream 1 at")
    ]
    assert [(names[lane(event)], event["name"], *span(event)) for event in slices] == [
        ("host: calls", "MallocHost", 0, 10),
        ("host: calls", "Malloc", 10, 1_010),
        ("host: calls", "CreateStream", 1_010, 2_010),
        ("host: calls", "MemcpyAsync", 2_010, 3_010),
        ("host: calls", "LaunchKernel", 3_010, 4_010),
        ("device 0: H2D stream 1", "h2d", 3_010, 13_010),
        ("host: calls", "MemcpyAsync", 4_010, 5_010),
        ("host: calls", "SynchronizeDevice", 5_010, 45_010),
        ("device 0: cores stream 1", "scale", 13_010, 33_010),
        ("device 0: D2H stream 1", "d2h", 33_010, 43_010),
    ]
    op = next(event for event in phases["X"] if event["name"] == "h2d")
    args = op["args"]
    assert args.keys() == {"correlation", "bytes", "stream", "stream_id", "queued_us", "site", "waited_for"}
    assert (args["correlation"], args["stream"], args["stream_id"]) == (1, "stream 1", 1)
    assert (args["bytes"], args["queued_us"]) == (10_000, 3.01)
    assert op["args"]["site"].startswith("traceable.py:")
    assert op["args"]["waited_for"] == "host"
    scale = next(event for event in phases["X"] if event["name"] == "scale")
    assert scale["args"]["waited_for"] == f"order: h2d of stream 1 at {op['args']['site']}"


def test_tasks_that_wait_at_the_same_time_have_lanes_of_their_own(traced, chrome_events):
    names = lane_names(by_phase(chrome_events(traced("tasks"))))
    assert list(names.values()) == [
        *("host: task 1", "host: task 2", "host: task 3"),
        *("device 0: cores stream 1", "device 0: cores stream 2", "device 0: cores stream 3"),
    ]


def test_lanes_have_the_names_of_tasks_and_streams(traced, chrome_events):
    phases = by_phase(chrome_events(traced("named")))
    assert list(lane_names(phases).values()) == [
        "host: task 1 and 1 more",  # its task has made the streams, and a task without a name uses one
        "host: task 'producer'",
        "host: task 'consumer'",
        "device 0: H2D stream 'uploads'",
        "device 0: cores stream 3",
        "device 0: cores stream 'maths'",
    ]
    streams = {event["args"]["stream"] for event in phases["X"] if "stream" in event["args"]}
    assert streams == {"stream 3", "stream 'uploads'", "stream 'maths'"}


def test_default_streams_of_two_contexts_stand_apart(traced, chrome_events):
    names = lane_names(by_phase(chrome_events(traced("two_devices_and_two_contexts"))))
    assert list(names.values()) == [
        "host: calls",
        "device 0: cores legacy",
        "device 0: cores legacy of context 1",
        "device 1: cores legacy",
    ]


def test_chunks_of_one_pageable_copy_hang_on_one_call(traced, chrome_events):
    phases = by_phase(chrome_events(traced("pageable")))
    arrows = Counter(event["bind_id"] for event in phases["X"] if event.get("flow_in"))
    assert list(arrows.values()) == [3, 1, 3] * 3 + [1]  # 10,000 bytes through buffers of 4,096


async def test_an_arrow_leads_from_a_record_to_the_operation_that_waited_for_it(chrome_events):
    async with acl_py.simulate(device="tiny") as sim:
        host, device = await acl_py.MallocHost(10_000), await acl_py.Malloc(10_000)
        one, other, event = await acl_py.CreateStream(), await acl_py.CreateStream(), await acl_py.CreateEvent()
        await acl_py.MemcpyAsync(device, 10_000, host, 10_000, acl_py.MemcpyKind.HOST_TO_DEVICE, one)
        await acl_py.RecordEvent(event, one)
        await acl_py.StreamWaitEvent(other, event)
        await acl_py.LaunchKernel(WORK, 1, (), other)
        await acl_py.SynchronizeDevice()
    phases = by_phase(chrome_events(sim.trace))
    names = lane_names(phases)
    steps = [(names[lane(e)], e["name"], *span(e)) for e in phases["X"] if e["cat"] in ("record", "wait")]
    assert steps == [
        ("device 0: events stream 2", "wait Event 1", 7_010, 15_010),
        ("device 0: events stream 1", "record Event 1", 15_010, 15_010),
    ]
    [start], [end] = phases["s"], phases["f"]
    assert (names[lane(start)], start["ts"]) == ("device 0: events stream 1", 15.01)
    assert (names[lane(end)], end["ts"], end["bp"]) == ("device 0: cores stream 2", 15.01, "e")
    assert start["id"] == end["id"]


async def test_a_wait_begins_when_the_work_ahead_of_it_is_over(chrome_events):
    async with acl_py.simulate(device="tiny") as sim:
        one, other, event = await acl_py.CreateStream(), await acl_py.CreateStream(), await acl_py.CreateEvent()
        await acl_py.LaunchKernel(busy("long", 50), 1, (), one)
        await acl_py.RecordEvent(event, one)
        await acl_py.LaunchKernel(WORK, 1, (), other)
        await acl_py.StreamWaitEvent(other, event)
        await acl_py.SynchronizeDevice()
    long, work = sorted(sim.trace.ops, key=lambda op: op.start_ns)
    [wait] = [event for event in by_phase(chrome_events(sim.trace))["X"] if event["cat"] == "wait"]
    assert span(wait) == (work.end_ns, long.end_ns)


async def test_a_wait_that_is_never_over_lasts_to_the_end(chrome_events):
    async with acl_py.simulate(device="tiny", rules="acl") as sim:
        stream, notify = await acl_py.CreateStream(), await acl_py.CreateNotify()
        await acl_py.WaitAndResetNotify(notify, stream)
        await acl_py.HostWork(10)
        timeline = sim.trace.timeline()
    [wait] = [event for event in by_phase(chrome_events(timeline))["X"] if event["cat"] == "notify_wait"]
    assert span(wait)[1] == timeline.end_ns
    assert wait["args"]["over"] == "never"


async def test_marks_of_the_program_have_lanes_of_their_own(chrome_events):
    async with acl_py.simulate(device="tiny") as sim:
        with acl_py.annotate("outer"):
            await acl_py.HostWork(1)
            with acl_py.annotate('in"ner'):
                await acl_py.HostWork(2)
        acl_py.mark("here")
    phases = by_phase(chrome_events(sim.trace))
    names = lane_names(phases)
    marks = [(names[lane(event)], event["name"], *span(event)) for event in phases["X"] if event["cat"] == "mark"]
    assert sorted(marks) == [
        ("host: marks", 'in"ner', 1_000, 3_000),
        ("host: marks (2)", "here", 3_000, 3_000),
        ("host: marks (2)", "outer", 0, 3_000),
    ]


async def test_what_fault_rules_strike_are_instants(chrome_events):
    async with acl_py.simulate(device="tiny") as sim:
        with sim.fault(faults.delay(5, call="Malloc")):
            await acl_py.Malloc(64)
    phases = by_phase(chrome_events(sim.trace))
    [instant] = phases["i"]
    assert (instant["name"], instant["ts"], instant["args"]["struck"]) == ("delay(call='Malloc', us=5)", 0, "Malloc")
    assert lane_names(phases)[lane(instant)] == "host: faults"


def test_nothing_is_a_trace_too(tmp_path):
    chrome.write(Trace(), tmp_path / "empty.json")
    document = json.loads((tmp_path / "empty.json").read_text(encoding="utf-8"))
    assert [event["ph"] for event in document["traceEvents"]] == ["M"]


@pytest.mark.slow
def test_an_export_needs_little_memory_for_each_operation(traced, tmp_path):
    peaks = []
    for rounds in (250, 1_250):
        trace = traced(lambda sim, rounds=rounds: pipeline(4, rounds))
        chrome.write(trace, tmp_path / "trace.json")  # the first one hands the memory of the packed rows over
        tracemalloc.start()
        chrome.write(trace, tmp_path / "trace.json")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert (peaks[1] - peaks[0]) / 12_000 < 100  # bytes for each operation: most of the memory is for a block


@pytest.mark.parametrize("at", [0, 1, 999, 123_456_789_012_345])
def test_times_keep_every_nanosecond(at, chrome_events):
    call = Call("Sleep", at, at + 1, "x.py", 1, "task 1")
    [event] = by_phase(chrome_events(Timeline(calls=[call])))["X"]
    assert (round(event["ts"] * 1000), round(event["dur"] * 1000)) == (at, 1)
