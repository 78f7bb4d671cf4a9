"""The Chrome trace obeys the rules that its viewers do not tell."""

import json
from collections import defaultdict
from itertools import pairwise

import pytest

import acl_py
from acl_py import faults
from acl_py.trace import chrome
from acl_py.trace.recorder import Trace


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


def test_no_two_slices_of_a_lane_overlap(any_trace):
    lanes = defaultdict(list)
    for event in by_phase(chrome.events(any_trace))["X"]:
        lanes[lane(event)].append(span(event))
    for spans in lanes.values():
        spans.sort()
        for (_, end), (begin, _) in pairwise(spans):
            assert end <= begin


def test_every_operation_and_call_is_one_slice_in_a_lane_with_a_name(any_trace):
    phases = by_phase(chrome.events(any_trace))
    slices = [(event["name"], *span(event)) for event in phases["X"]]
    ops = [(op.name, op.start_ns, op.end_ns) for op in any_trace.ops]
    calls = [(call.name, call.enter_ns, call.exit_ns) for call in any_trace.calls]
    assert sorted(slices) == sorted(ops + calls)
    names = lane_names(phases)
    assert {lane(event) for event in phases["X"]} == set(names)
    assert len(set(names.values())) == len(names)


def test_each_operation_has_an_arrow_from_the_call_that_queued_it(any_trace):
    phases = by_phase(chrome.events(any_trace))
    starts = {event["id"]: event for event in phases["s"]}
    ends = {event["id"]: event for event in phases["f"]}
    assert len(starts) == len(phases["s"]) == len(ends) == len(any_trace.ops)
    assert starts.keys() == ends.keys()
    begins = {(*lane(event), event["ts"]): event for event in phases["X"]}
    for number, end in ends.items():
        start = starts[number]
        assert type(number) is int
        assert end["bp"] == "e"
        call, op = begins[*lane(start), start["ts"]], begins[*lane(end), end["ts"]]
        assert call["cat"] == "call"
        assert op["cat"] != "call"
        assert call["args"]["site"] == op["args"]["site"]
        assert span(call)[0] < round(op["args"]["queued_us"] * 1000) <= span(call)[1]
        assert start["ts"] <= end["ts"]


def test_events_are_in_the_order_of_their_times_and_slices_before_their_flows(any_trace):
    events = chrome.events(any_trace)
    timed = [event for event in events if event["ph"] != "M"]
    assert [event["ts"] for event in timed] == sorted(event["ts"] for event in timed)
    assert all(event["ph"] == "M" for event in events[: len(events) - len(timed)])
    seen = set()
    for event in timed:
        if event["ph"] == "X":
            seen.add((*lane(event), event["ts"]))
        else:
            assert (*lane(event), event["ts"]) in seen


def test_the_file_is_json_and_holds_the_events(any_trace, tmp_path):
    path = tmp_path / "trace.json"
    chrome.write(any_trace, path)
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["displayTimeUnit"] == "ns"
    assert document["traceEvents"] == chrome.events(any_trace)


def test_a_whole_trace(traced):
    phases = by_phase(chrome.events(traced("one_of_each")))
    names = lane_names(phases)
    assert [(names[lane(event)], event["name"], *span(event)) for event in phases["X"]] == [
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
    assert op["args"].keys() == {"bytes", "stream", "queued_us", "site", "waited_for"}
    assert (op["args"]["bytes"], op["args"]["stream"], op["args"]["queued_us"]) == (10_000, "stream 1", 3.01)
    assert op["args"]["site"].startswith("conftest.py:")
    assert op["args"]["waited_for"] == "host"
    scale = next(event for event in phases["X"] if event["name"] == "scale")
    assert scale["args"]["waited_for"] == f"order: h2d of stream 1 at {op['args']['site']}"


def test_tasks_that_wait_at_the_same_time_have_lanes_of_their_own(traced):
    names = lane_names(by_phase(chrome.events(traced("tasks"))))
    assert list(names.values()) == [
        *("host: task 1", "host: task 2", "host: task 3"),
        *("device 0: cores stream 1", "device 0: cores stream 2", "device 0: cores stream 3"),
    ]


def test_lanes_have_the_names_of_tasks_and_streams(traced):
    phases = by_phase(chrome.events(traced("named")))
    assert list(lane_names(phases).values()) == [
        "host: task 1 and 1 more",  # its task has made the streams, and a task without a name uses one
        "host: task 'producer'",
        "host: task 'consumer'",
        "device 0: H2D stream 'uploads'",
        "device 0: cores stream 3",
        "device 0: cores stream 'maths'",
    ]
    streams = {event["args"]["stream"] for event in phases["X"] if event["cat"] != "call"}
    assert streams == {"stream 3", "stream 'uploads'", "stream 'maths'"}


def test_default_streams_of_two_contexts_stand_apart(traced):
    names = lane_names(by_phase(chrome.events(traced("two_devices_and_two_contexts"))))
    assert list(names.values()) == [
        "host: calls",
        "device 0: cores legacy",
        "device 0: cores legacy of context 1",
        "device 1: cores legacy",
    ]


def test_chunks_of_one_pageable_copy_hang_on_one_call(traced):
    phases = by_phase(chrome.events(traced("pageable")))
    sources = defaultdict(int)
    for event in phases["s"]:
        sources[event["ts"]] += 1
    assert list(sources.values()) == [3, 1, 3] * 3 + [1]  # 10,000 bytes through buffers of 4,096


async def test_what_fault_rules_strike_are_instants():
    async with acl_py.simulate(device="tiny") as sim:
        with sim.fault(faults.delay(5, call="Malloc")):
            await acl_py.Malloc(64)
    phases = by_phase(chrome.events(sim.trace))
    [instant] = phases["i"]
    assert (instant["name"], instant["ts"], instant["args"]["struck"]) == ("delay(call='Malloc', us=5)", 0, "Malloc")
    assert lane_names(phases)[lane(instant)] == "host: faults"


def test_nothing_is_a_trace_too(tmp_path):
    chrome.write(Trace(), tmp_path / "empty.json")
    document = json.loads((tmp_path / "empty.json").read_text(encoding="utf-8"))
    assert [event["ph"] for event in document["traceEvents"]] == ["M"]


@pytest.mark.parametrize("at", [0, 1, 999, 123_456_789_012_345])
def test_times_keep_every_nanosecond(at):
    assert round(chrome._us(at) * 1000) == at
