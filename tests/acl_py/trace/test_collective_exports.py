"""Collectives in the formats of PyTorch's and Ascend's profilers: names, lanes, and a file for each rank."""

import json

import numpy as np
import pytest

import acl_py as acl
from acl_py.trace import Timeline, kineto, msprof
from acl_py.trace.rows.ranks import meetings_of, parts_of


@acl.kernel(cost=acl.Cost(us=22))
def step():
    pass


async def training():
    """Two ranks: a kernel each, an AllReduce beside it, and an exchange with Sends and Recvs; rank 1 is on device 0."""
    comms = await acl.CommInitAll([1, 0])
    for device in (1, 0):
        await acl.SetDevice(device)
        compute, reduce = await acl.CreateStream(name="compute"), await acl.CreateStream(name="reduce")
        comm, buffer = comms[1 - device], acl.Array(await acl.Malloc(1 << 16), np.float32)
        await step[1, compute]()
        await acl.AllReduce(buffer, buffer, None, None, acl.ReduceOp.MAX, comm, reduce)
        async with acl.group():
            await acl.Send(buffer, 16, "int32", device, comm, reduce)
            await acl.Recv(buffer[16:], 16, "int32", device, comm, reduce)
        await acl.Barrier(comm, reduce)
    for device in (0, 1):
        await acl.SetDevice(device)
        await acl.SynchronizeDevice()


@pytest.fixture(scope="module")
def trace():
    async def main():
        await training()
        return acl.current_simulation().trace.timeline()

    return acl.run(main, device="h200")


def document(path):
    return json.loads(path.read_text(encoding="utf-8"))


def test_parts_know_their_rank_and_collectives_their_parts(trace):
    shown = [
        (trace.ops[part.op].device, trace.handles[part.comm].options["rank"], [joint.kind for joint in part.joints])
        for part in parts_of(trace)
    ]
    kinds = (["AllReduce"], ["Send", "Recv"], ["Barrier"])
    assert sorted(shown) == sorted((device, 1 - device, kind) for device in (0, 1) for kind in kinds)
    meetings = meetings_of(trace)
    assert [(each.clique, each.number, each.kind, sorted(each.ops)) for each in meetings] == [
        (1, 1, "AllReduce", [0, 1]),
        (1, 2, "Barrier", [0, 1]),
    ]
    for meeting in meetings:
        first, second = (trace.ops[meeting.ops[rank]] for rank in (0, 1))
        assert (first.device, second.device, first.end_ns) == (1, 0, second.end_ns)


def test_kineto_names_parts_as_nccl_and_connects_them_with_their_calls(trace, tmp_path):
    kineto.write(trace, tmp_path / "trace.json")
    events = document(tmp_path / "trace.json")["traceEvents"]
    kernels = [event for event in events if event.get("cat") == "kernel" and event["pid"] == 0]
    assert [event["name"] for event in sorted(kernels, key=lambda event: event["ts"])] == [
        "step", "ncclDevKernel_AllReduce_MinMax_f32", "ncclDevKernel_SendRecv", "ncclDevKernel_AllReduce",
    ]  # fmt: skip
    calls = {
        event["args"]["correlation"]: event["name"]
        for event in events
        if event.get("cat") == "cuda_runtime" and "correlation" in event["args"]
    }
    assert [calls[event["args"]["correlation"]] for event in kernels if "nccl" in event["name"]] == [
        "ncclAllReduce", "ncclGroupEnd", "Barrier",
    ]  # fmt: skip


def test_kineto_has_a_file_for_each_rank(trace, tmp_path):
    kineto.write(trace, tmp_path / "all.json")
    kineto.write_ranks(trace, tmp_path / "ranks")
    whole = document(tmp_path / "all.json")["traceEvents"]
    assert sorted(path.name for path in (tmp_path / "ranks").iterdir()) == ["rank_0.json", "rank_1.json"]
    for rank in (0, 1):
        own = document(tmp_path / "ranks" / f"rank_{rank}.json")
        assert own["distributedInfo"] == {"backend": "nccl", "rank": rank, "world_size": 2}
        assert [each["id"] for each in own["deviceProperties"]] == [1 - rank]
        events = own["traceEvents"]
        assert [each for each in events if each["ph"] in "XM"] == [
            each for each in whole if each["ph"] in "XM" and each["pid"] != rank
        ]
        ids = [[each["id"] for each in events if each["ph"] == phase] for phase in "sf"]
        assert sorted(ids[0]) == sorted(ids[1])
        assert len(ids[0]) == 4


def test_kineto_makes_one_file_of_a_trace_without_communicators(tmp_path):
    kineto.write_ranks(Timeline(), tmp_path)
    assert document(tmp_path / "rank_0.json")["distributedInfo"] == {"backend": "nccl", "rank": 0, "world_size": 1}


def test_msprof_has_communication_and_what_of_it_is_not_overlapped(trace, tmp_path):
    msprof.write(trace, tmp_path)
    events = document(tmp_path / "device_0_ascend_pt" / "ASCEND_PROFILER_OUTPUT" / "trace_view.json")
    tasks = {event["name"]: event["args"]["Task Type"] for event in events if "Task Type" in event.get("args", {})}
    assert tasks == {
        "step": "AI_CORE",
        "hcom_allReduce_": "COMMUNICATION",
        "hcom_send_": "COMMUNICATION",
        "hcom_barrier_": "COMMUNICATION",
    }
    ops = [op for op in trace.ops if op.device == 0]
    [kernel] = [(op.start_ns, op.end_ns) for op in ops if op.kind == "kernel"]
    parts = sorted((op.start_ns, op.end_ns) for op in ops if op.kind == "collective")
    assert kernel[0] < parts[0][0] < parts[1][0] < kernel[1] < parts[1][1]
    assert spans(events, "Computing") == [kernel]
    assert spans(events, "Communication") == parts
    assert spans(events, "Communication(Not Overlapped)") == [(kernel[1], parts[1][1]), parts[2]]
    assert spans(events, "Free") == [(parts[1][1], parts[2][0])]


def spans(events, name):
    return [
        (round(1000 * float(event["ts"])), round(1000 * (float(event["ts"]) + event["dur"])))
        for event in events
        if event["ph"] == "X" and event["name"] == name
    ]
