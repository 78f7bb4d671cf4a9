"""Traces in the formats of other tools have every operation and call, at its time."""

import csv
import json
from collections import defaultdict
from decimal import Decimal
from itertools import pairwise

import pytest
from histories import busy
from insight import check_cores, check_timeline
from test_instructions import traced as traced_launches

import acl_py
from acl_py.trace import Timeline, kineto, msprof, msprof_op, table

work = busy("work", 20)
DEVICE_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")


def span(event):
    """Begin and end in nanoseconds, however they are written."""
    begin = Decimal(str(event["ts"]))
    return round(begin * 1000), round((begin + Decimal(str(event["dur"]))) * 1000)


def check_lanes(slices):
    """No two slices of a lane overlap."""
    lanes = defaultdict(list)
    for event in slices:
        lanes[event["pid"], event["tid"]].append(span(event))
    for spans in lanes.values():
        for (_, end), (begin, _) in pairwise(sorted(spans)):
            assert end <= begin


def spans(rows):
    return sorted((row.start_ns, row.end_ns) for row in rows)


# --- Kineto


@pytest.fixture
def kineto_events(tmp_path):
    def read(trace):
        kineto.write(trace, tmp_path / "kineto.json")
        document = json.loads((tmp_path / "kineto.json").read_text(encoding="utf-8"))
        assert document["schemaVersion"] == 1
        assert document["distributedInfo"]["rank"] == 0
        return document["traceEvents"]

    return read


def test_kineto_has_every_operation_and_call(any_trace, kineto_events):
    slices = [event for event in kineto_events(any_trace) if event["ph"] == "X"]
    check_lanes([event for event in slices if event["cat"] != "cuda_sync" or event["dur"]])
    calls = [event for event in slices if event["cat"] in ("cuda_runtime", "cuda_driver")]
    ops = [event for event in slices if event["cat"] not in ("cuda_runtime", "cuda_driver", "cuda_sync")]
    assert sorted(map(span, ops)) == spans(any_trace.ops)
    assert sorted(map(span, calls)) == sorted((call.enter_ns, call.exit_ns) for call in any_trace.calls)


def test_kineto_connects_work_with_its_call_and_has_no_stream_0(any_trace, kineto_events):
    events = kineto_events(any_trace)
    slices = [event for event in events if event["ph"] == "X"]
    calls = {e["args"]["correlation"]: e for e in slices if e["cat"] == "cuda_runtime" and "correlation" in e["args"]}
    for event in slices:
        if event["cat"] in DEVICE_CATEGORIES:
            call = calls[event["args"]["correlation"]]
            assert call["ts"] <= event["ts"]
            assert call["args"]["site"] == event["args"]["site"]
            assert event["args"]["stream"] > 0
            assert event["args"]["device"] == event["pid"]
    arrows = [event for event in events if event["ph"] in "sf"]
    queued = {event["args"]["correlation"] for event in slices if event["cat"] in (*DEVICE_CATEGORIES, "cpu_op")}
    assert {event["id"] for event in arrows} == queued
    assert all(event["bp"] == "e" for event in arrows if event["ph"] == "f")


def test_a_kineto_trace(traced, kineto_events):
    events = kineto_events(traced("one_of_each"))
    slices = sorted((e for e in events if e["ph"] == "X"), key=lambda event: event["ts"])
    assert [(event["cat"], event["name"], *span(event)) for event in slices] == [
        ("cuda_runtime", "cudaMallocHost", 0, 10),
        ("cuda_runtime", "cudaMalloc", 10, 1_010),
        ("cuda_runtime", "cudaStreamCreate", 1_010, 2_010),
        ("cuda_runtime", "cudaMemcpyAsync", 2_010, 3_010),
        ("cuda_runtime", "cudaLaunchKernel", 3_010, 4_010),
        ("gpu_memcpy", "Memcpy HtoD", 3_010, 13_010),
        ("cuda_runtime", "cudaMemcpyAsync", 4_010, 5_010),
        ("cuda_runtime", "cudaDeviceSynchronize", 5_010, 45_010),
        ("cuda_sync", "Context Sync", 5_010, 45_010),
        ("kernel", "scale", 13_010, 33_010),
        ("gpu_memcpy", "Memcpy DtoH", 33_010, 43_010),
    ]
    copy = slices[5]
    assert copy["args"]["bytes"] == 10_000
    assert copy["args"]["memory bandwidth (GB/s)"] == 1.0


def test_kineto_has_the_waits_of_streams_and_of_the_host(traced, kineto_events):
    events = kineto_events(traced("events"))
    slices = [event for event in events if event["ph"] == "X"]
    lanes = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    calls = {e["args"]["correlation"]: e for e in slices if e["cat"] == "cuda_runtime" and "correlation" in e["args"]}
    waits = []
    for event in sorted((event for event in slices if event["cat"] == "cuda_sync"), key=lambda event: span(event)[1]):
        args = event["args"]
        record = calls.get(args.get("wait_on_cuda_event_record_corr_id"), {"name": ""})
        waits.append((event["name"], lanes[event["pid"], event["tid"]], *span(event), args["stream"]))
        waits.append((calls[args["correlation"]]["name"], record["name"], args.get("wait_on_stream")))
    assert waits == [
        ("Stream Wait Event", "stream 'maths'", 9_010, 9_010, 8),
        ("cudaStreamWaitEvent", "cudaEventRecord", 7),
        ("Event Sync", "synchronisation", 12_010, 39_010, -1),
        ("cudaEventSynchronize", "cudaEventRecord", 8),
        ("Stream Wait Event", "stream 'maths'", 42_010, 42_010, 8),
        ("cudaStreamWaitEvent", "cudaEventRecord", 7),
        ("Event Sync", "synchronisation", 45_010, 72_010, -1),
        ("cudaEventSynchronize", "cudaEventRecord", 8),
        ("Stream Sync", "stream 'uploads'", 93_310, 93_310, 7),
        ("cudaStreamSynchronize", "", None),
    ]


async def test_kineto_has_the_marks_of_the_program(kineto_events):
    async with acl_py.simulate(device="tiny") as sim:
        with acl_py.annotate("ProfilerStep#0"):
            await acl_py.HostWork(3)
    marks = [event for event in kineto_events(sim.trace) if event.get("cat") == "user_annotation"]
    assert [(event["name"], *span(event)) for event in marks] == [("ProfilerStep#0", 0, 3_000)]


# --- msprof


@pytest.fixture
def timelines(tmp_path):
    def read(trace):
        msprof.write(trace, tmp_path / "profile")
        folders = sorted((tmp_path / "profile").iterdir())
        assert [folder.name for folder in folders] == [f"device_{number}_ascend_pt" for number in range(len(folders))]
        return folders, [check_timeline(folder / "ASCEND_PROFILER_OUTPUT" / "trace_view.json") for folder in folders]

    return read


def test_msprof_has_every_operation_of_a_device_and_every_call(any_trace, timelines):
    for device, events in enumerate(timelines(any_trace)[1]):
        slices = [event for event in events if event["ph"] == "X"]
        check_lanes(slices)
        names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
        layers = defaultdict(list)
        for event in slices:
            assert event["pid"] & 31 == device
            layers[names[event["pid"]]].append(span(event))
        own = [op for op in any_trace.ops if op.device == device]
        events = [event for event in slices if event["name"] in ("EVENT_RECORD", "EVENT_WAIT")]
        assert len(events) == sum(step.device == device for step in any_trace.steps)
        assert sorted(layers["Ascend Hardware"]) == sorted([*spans(own), *map(span, events)])
        assert sorted(layers["CANN"]) == sorted((call.enter_ns, call.exit_ns) for call in any_trace.calls)


def test_a_wait_for_an_event_is_a_task_that_takes_as_long_as_it_holds_its_stream(traced, timelines):
    [events] = timelines(traced("events"))[1]
    lanes = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    tasks = [event for event in events if event["ph"] == "X" and "Task Id" in event["args"]]
    tasks.sort(key=lambda event: (span(event)[1], event["args"]["Task Id"]))
    assert [(task["name"], lanes[task["pid"], task["tid"]], *span(task)) for task in tasks[:6]] == [
        ("MEMCPY_ASYNC", "Stream 'uploads'", 7_010, 17_010),
        ("EVENT_WAIT", "Stream 'maths'", 9_010, 17_010),
        ("EVENT_RECORD", "Stream 'uploads'", 17_010, 17_010),
        ("EVENT_WAIT", "Stream 'maths'", 17_010, 17_010),
        ("scale", "Stream 'maths'", 17_010, 37_010),
        ("EVENT_RECORD", "Stream 'maths'", 37_010, 37_010),
    ]
    assert sorted(task["args"]["Task Id"] for task in tasks) == list(range(len(tasks)))


def test_a_stream_has_one_number_in_the_lanes_the_tasks_and_the_table_of_kernels(traced, timelines):
    async def program(sim):
        """A stream with nothing but a record, and streams with names on two devices."""
        await acl_py.RecordEvent(await acl_py.CreateEvent(), await acl_py.CreateStream(name="quiet"))
        for device in (0, 1):
            await acl_py.SetDevice(device)
            await work[1, await acl_py.CreateStream(name=f"busy {device}")]()
            await acl_py.SynchronizeDevice()

    folders, files = timelines(traced(program))
    for folder, events, number in zip(folders, files, (8, 9), strict=True):  # "quiet" has 7
        [task] = [event for event in events if event["ph"] == "X" and event["name"] == "work"]
        with (folder / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv").open(encoding="utf-8", newline="") as file:
            [row] = csv.DictReader(file)
        assert (task["tid"], task["args"]["Physic Stream Id"], int(row["Stream ID"])) == (number, number, number)


def test_the_overlap_analysis_divides_the_time_of_a_device(any_trace, timelines):
    for device, events in enumerate(timelines(any_trace)[1]):
        own = [op for op in any_trace.ops if op.device == device]
        if not own:
            continue
        parts = sorted((*span(e), e["name"]) for e in events if e["ph"] == "X" and e["name"] in ("Computing", "Free"))
        assert parts[0][0] == min(op.start_ns for op in own)
        assert parts[-1][1] == max(op.end_ns for op in own)
        for (_, end, _), (begin, _, _) in pairwise(parts):
            assert end == begin
        kernels = [op for op in own if op.kind == "kernel"]
        for begin, end, name in parts:
            at = (begin + end) / 2
            assert any(op.start_ns <= at < op.end_ns for op in kernels) == (name == "Computing")


def test_the_table_of_kernels_has_every_kernel(any_trace, timelines):
    for device, folder in enumerate(timelines(any_trace)[0]):
        with (folder / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        kernels = [op for op in any_trace.ops if op.device == device and op.kind == "kernel"]
        assert [(row["Name"], row["Start Time(us)"], row["Duration(us)"]) for row in rows] == [
            (op.name, f"{op.start_ns / 1000:.3f}", f"{(op.end_ns - op.start_ns) / 1000:.3f}") for op in kernels
        ]


async def test_the_operator_trace_has_the_instructions_by_core_and_pipe(tmp_path):
    sim = await traced_launches((2, 2))
    msprof_op.write(sim.trace, tmp_path / "trace.json")
    events = check_cores(tmp_path / "trace.json")
    rows = sim.trace.instructions
    work = [event for event in events if event["ph"] == "X"]
    assert len(work) + sum(event["ph"] == "B" for event in events) == len(rows)
    arrows = [event for event in events if event["ph"] == "s"]
    assert len(arrows) == sum(row.kind == "wait" and row.waited_for is not None for row in rows) > 0
    assert {event["pid"] for event in work} == {"core0.veccore0", "core0.veccore1"}


def test_an_operator_trace_needs_instructions(tmp_path):
    with pytest.raises(
        ValueError,
        match=r"no instructions of kernels on AI cores: none was launched, or .*; start it with instructions=",
    ):
        msprof_op.write(Timeline(), tmp_path / "trace.json")


# --- CSV


def test_the_table_has_every_row_in_the_order_of_the_ends(any_trace, tmp_path):
    table.write(any_trace, tmp_path / "trace.csv")
    with (tmp_path / "trace.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    ops = [row for row in rows if row["row"] == "operation"]
    calls = [row for row in rows if row["row"] == "call"]
    ends = [int(row["end_ns"]) for row in rows]
    assert ends == sorted(ends)
    assert [(row["name"], int(row["start_ns"]), int(row["end_ns"]), row["stream"], row["site"]) for row in ops] == [
        (op.name, op.start_ns, op.end_ns, op.stream, op.site) for op in any_trace.ops
    ]
    assert [row["after"] for row in ops] == ["" if op.after is None else str(op.after) for op in any_trace.ops]
    assert [(row["name"], int(row["start_ns"]), row["caller"]) for row in calls] == [
        (call.name, call.enter_ns, call.caller) for call in any_trace.calls
    ]


# --- all


@pytest.mark.parametrize("name", ['a "quoted" name', "拷贝", "</script>,;"])
async def test_names_with_any_characters_come_back(name, tmp_path, kineto_events, timelines):
    @acl_py.kernel(cost=acl_py.Cost(us=1))
    def work():
        pass

    work.__name__ = name
    async with acl_py.simulate(device="tiny") as sim:
        await acl_py.LaunchKernel(work, 1, (), await acl_py.CreateStream(name=name))
        await acl_py.SynchronizeDevice()
    [op] = sim.trace.ops
    assert any(event["name"] == op.name for event in kineto_events(sim.trace))
    [events] = timelines(sim.trace)[1]
    assert any(event["name"] == op.name for event in events)
    table.write(sim.trace, tmp_path / "trace.csv")
    with (tmp_path / "trace.csv").open(encoding="utf-8", newline="") as file:
        assert any(row["stream"] == op.stream for row in csv.DictReader(file))


def test_nothing_can_be_written_in_every_format(tmp_path, kineto_events, timelines):
    assert all(event["ph"] == "M" for event in kineto_events(Timeline()))
    assert all(event["ph"] == "M" for event in timelines(Timeline())[1][0])
    table.write(Timeline(), tmp_path / "trace.csv")
    assert (tmp_path / "trace.csv").read_text().splitlines() == [",".join(table.COLUMNS)]
