"""acl.prof: the folder of a profile, whose totals are those of the trace, and calls in the wrong order."""

import csv
import importlib
import json
import os
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest
from card import D2H, H2D, done, made, module, work

from acl_py.compat.acl import Tensor, register_model, unregister_model
from acl_py.compat.acl.face.session import session

HERE = Path(__file__).parent
REPEAT_INITIALIZE, ALREADY_RUN, NOT_RUN, REPEAT_SUBSCRIBE, API_CONFLICT = 100002, 100042, 100043, 148046, 148047


@pytest.fixture
def profile(acl, tmp_path):
    """Begin a profile of device 0, and return its configuration."""
    done(acl.prof.init(str(tmp_path / "out")))
    config = acl.prof.create_config([0], 1, 0, 7)
    done(acl.prof.start(config))
    return config


def tables(folder):
    """The rows of each table in the folder of a profile, by the names of the files."""
    found = {}
    for path in sorted(folder.glob("mindstudio_profiler_output/*.csv")):
        with open(path, newline="") as file:
            found[path.name.rpartition("_")[0]] = list(csv.DictReader(file))
    return found


def program(acl):
    """Two streams with copies and kernels, and a range around them."""
    mstx = importlib.import_module("mstx")
    device, host = made(acl.rt.malloc(3000, 0)), made(acl.rt.malloc_host(3000))
    streams = [made(acl.rt.create_stream()) for _ in range(2)]
    whole = mstx.range_start("whole", streams[0])
    for stream in streams:
        done(acl.rt.memcpy_async(device, 3000, host, 3000, H2D, stream))
        work("fast", 3, stream)
        work("slow", 9, stream)
        done(acl.rt.memcpy_async(host, 1000, device, 1000, D2H, stream))
    mstx.range_end(whole)
    mstx.mark("queued")
    done(acl.rt.synchronize_device())


def test_the_totals_of_a_folder_are_those_of_the_trace(acl, profile, tmp_path):
    program(acl)
    done(acl.prof.stop(profile), acl.prof.destroy_config(profile), acl.prof.finalize())
    (folder,) = (tmp_path / "out").iterdir()
    found, trace = tables(folder), session().trace
    kernels = [op for op in trace.ops if op.kind == "kernel"]
    lasted = Counter()
    for op in kernels:
        lasted[op.name] += op.end_ns - op.start_ns
    assert {row["OP Type"]: round(float(row["Total Time(us)"]) * 1000) for row in found["op_statistic"]} == lasted
    starts = sorted((op.name, op.start_ns, op.end_ns - op.start_ns) for op in kernels)
    assert starts == sorted(
        (row["Op Name"], *(round(float(row[name]) * 1000) for name in ("Task Start Time(us)", "Task Duration(us)")))
        for row in found["op_summary"]
    )
    assert len(found["task_time"]) == len(trace.ops) == 8
    times = sum(round(float(row["task_time(us)"]) * 1000) for row in found["task_time"])
    assert times == sum(op.end_ns - op.start_ns for op in trace.ops)
    calls = Counter(row["API Name"] for row in found["api_statistic"] for _ in range(int(row["Count"])))
    assert calls == {
        "aclrtMalloc": 1, "aclrtMallocHost": 1, "aclrtCreateStream": 2, "aclrtMemcpyAsync": 4, "launch": 4,
        "aclrtSynchronizeDevice": 1,
    }  # fmt: skip
    spent = sum(round(float(row["Time(us)"]) * 1000) for row in found["api_statistic"])
    assert spent == sum(call.exit_ns - call.enter_ns for call in trace.calls[1:])  # behind set_device()


def test_the_timeline_has_calls_tasks_arrows_and_marks(acl, profile, tmp_path):
    program(acl)
    done(acl.prof.stop(profile))
    (path,) = (tmp_path / "out").glob("PROF_*/mindstudio_profiler_output/msprof_*.json")
    events = json.loads(path.read_text())
    processes = {each["pid"]: each["args"]["name"] for each in events if each["name"] == "process_name"}
    slices = Counter((processes[each["pid"]], each["name"]) for each in events if each["ph"] == "X")
    assert slices["CANN", "Node@launch"] == slices["Ascend Hardware", "fast"] * 2 == 4
    assert slices["CANN", "AscendCL@aclrtMemcpyAsync"] == slices["Ascend Hardware", "MEMCPY_ASYNC"] == 4
    assert (slices["CANN", "whole"], slices["CANN", "queued"], slices["Ascend Hardware", "whole"]) == (1, 1, 1)
    arrows = Counter((each["ph"], each["id"]) for each in events if each["ph"] in "sf")
    assert sorted(arrows) == sorted((phase, str(number)) for phase in "sf" for number in range(1, 9))
    whole, queued = tables(path.parent.parent)["msprof_tx"]
    (mark,) = (mark for mark in session().trace.marks if mark.caller == "stream 1")
    assert (whole["message"], whole["event_type"], queued["event_type"]) == ("whole", "start/end", "marker")
    assert float(whole["Device End_time(us)"]) * 1000 == mark.end_ns
    assert (queued["Device Start_time(us)"], queued["Device End_time(us)"]) == ("", "")


@pytest.mark.skipif(find_spec("msprof_analyze") is None, reason="needs msprof_analyze: pip install -e .[readers]")
def test_msprof_analyze_reads_the_folder_and_has_our_totals(acl, profile, tmp_path):
    program(acl)
    done(acl.prof.stop(profile))
    command = [sys.executable, HERE / "prof_totals.py", tmp_path / "out"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    found, ops = json.loads(printed.splitlines()[-1]), session().trace.ops
    lasted = [op.end_ns - op.start_ns for op in ops if op.kind == "kernel"]
    assert round(found["total"] * 1000) == sum(lasted)
    assert sorted(round(us * 1000) for *_, us in found["kernels"]) == sorted(lasted)
    assert sorted(round(start * 1000) for _, start, _ in found["tasks"]) == sorted(op.start_ns for op in ops)
    assert found["processes"] == ["Ascend Hardware", "CANN", "Overlap Analysis"]


def test_each_device_has_a_folder_with_its_own_work(tmp_path):
    with module(devices=2) as acl:
        done(acl.prof.init(str(tmp_path)))
        config = acl.prof.create_config([1, 0], 0, 0, 2)
        done(acl.prof.start(config))
        work("first", 3)
        done(acl.rt.synchronize_device(), acl.rt.set_device(1))
        work("second", 4)
        done(acl.rt.synchronize_device(), acl.prof.stop(config), acl.prof.finalize())
        folders = sorted(tmp_path.iterdir())
        assert [folder.name[-2:] for folder in folders] == ["AB", "AA"]
        assert [[row["Op Name"] for row in tables(each)["op_summary"]] for each in folders] == [["second"], ["first"]]
        assert [len(list(each.glob("device_*/info.json.*"))) for each in folders] == [1, 1]


def test_a_profile_that_is_not_stopped_is_written_by_finalize(acl, profile, tmp_path):
    work("busy", 3)
    done(acl.rt.synchronize_device(), acl.prof.finalize())
    (folder,) = (tmp_path / "out").iterdir()
    assert [row["Op Name"] for row in tables(folder)["op_summary"]] == ["busy"]
    assert list(session().warned) == ["acl.prof.finalize(): devices 0 were not stopped; call acl.prof.stop() first"]


def test_calls_in_the_wrong_order(acl, tmp_path):
    prof, folder = acl.prof, str(tmp_path / "out")
    config = prof.create_config([0], 0, 0, 1)
    assert (prof.start(config), prof.stop(config), prof.finalize()) == (NOT_RUN,) * 3
    assert "acl.prof.finalize() needs acl.prof.init() first" in acl.get_recent_err_msg()
    assert prof.set_config(1, "x") == NOT_RUN
    done(prof.init(folder))
    assert prof.init(folder) == REPEAT_INITIALIZE
    assert prof.stop(config) == NOT_RUN
    assert "device 0 is not profiled: call acl.prof.start() first" in acl.get_recent_err_msg()
    done(prof.start(config))
    assert prof.start(config) == ALREADY_RUN
    done(prof.set_config(1, "x"), prof.stop(config), prof.destroy_config(config), prof.finalize())
    assert (prof.start(config), prof.destroy_config(config), prof.finalize()) == (100000, 100000, NOT_RUN)


@pytest.fixture
def net(acl):
    """A loaded model that takes 10 us."""
    register_model("net.om", [Tensor("x", "int8", (1,))], [Tensor("y", "int8", (1,))], cost_us=10)(lambda x: x)
    yield made(acl.mdl.load_from_file("net.om"))
    unregister_model("net.om")


def test_profiles_and_subscriptions_exclude_each_other(acl, net, tmp_path):
    reading, writing = os.pipe()
    prof, config = acl.prof, acl.prof.create_subscribe_config(1, 0, writing)
    assert prof.model_unsubscribe(net) == NOT_RUN
    done(prof.init(str(tmp_path)))
    assert prof.model_subscribe(net, config) == API_CONFLICT
    assert "call acl.prof.finalize() before you subscribe" in acl.get_recent_err_msg()
    done(prof.finalize(), prof.model_subscribe(net, config))
    assert prof.model_subscribe(net, config) == REPEAT_SUBSCRIBE
    assert (prof.init(str(tmp_path)), prof.finalize()) == (API_CONFLICT, API_CONFLICT)
    assert prof.model_unsubscribe(net + 1) == 100011
    assert prof.model_subscribe(net + 1, config) == 145003
    done(prof.model_un_subscribe(net), prof.init(str(tmp_path)), prof.destroy_subscribe_config(config))
    os.close(reading)
    os.close(writing)


def execute(acl, model, times):
    """Execute *model* some times."""
    given, wanted = acl.mdl.create_dataset(), acl.mdl.create_dataset()
    for dataset in (given, wanted):
        memory = made(acl.rt.malloc(1, 0))
        done(acl.rt.memset(memory, 1, 0, 1))
        acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(memory, 1))
    for _ in range(times):
        done(acl.mdl.execute(model, given, wanted))


def test_a_pipe_that_nobody_reads_keeps_what_fits(acl, net):
    reading, writing = os.pipe()
    config = acl.prof.create_subscribe_config(1, 0, writing)
    done(acl.prof.model_subscribe(net, config))
    execute(acl, net, 300)
    size, left = made(acl.prof.get_op_desc_size()), 300
    data = os.read(reading, 1 << 16)
    execute(acl, net, 1)
    done(acl.prof.model_unsubscribe(net))
    data += os.read(reading, 1 << 20)
    assert len(data) == (left + 1) * size
    pointer = acl.util.bytes_to_ptr(data)
    assert acl.prof.get_op_num(pointer, len(data)) == (301, 0)
    ends = [op.end_ns for op in session().trace.ops if op.kind == "kernel"]
    assert [acl.prof.get_op_end(pointer, len(data), place) for place in (0, 300)] == [ends[0], ends[-1]]
    os.close(reading)
    os.close(writing)


def test_a_pipe_that_is_closed_is_a_finding(acl, net):
    reading, writing = os.pipe()
    config = acl.prof.create_subscribe_config(1, 0, writing)
    done(acl.prof.model_subscribe(net, config))
    os.close(reading)
    execute(acl, net, 2)
    (told,) = session().warned
    assert "cannot be written: Broken pipe; close it after acl.prof.model_unsubscribe()" in told
    os.close(writing)


@pytest.mark.parametrize(
    ("name", "arguments", "complaint"),
    [
        ("create_config", ([], 0, 0, 1), "there are devices 0 to 1, and none was asked for"),
        ("create_config", ([2], 0, 0, 1), "there are devices 0 to 1, and 2 was asked for"),
        ("create_config", ([0, 0], 0, 0, 1), "a device is there twice: 0, 0"),
        ("create_config", ([0], 9, 0, 1), "there is no metric 9"),
        ("create_config", ([0], 0, 0, 0), "0x0 are not types of data"),
        ("create_config", ([0], 0, 1, 1), "the events must be 0"),
        ("create_subscribe_config", (2, 0, 0), "times must be 0 or 1"),
        ("create_subscribe_config", (1, 0, 999), "999 is no open file"),
    ],
)
def test_configurations_that_are_refused(acl, name, arguments, complaint):
    assert getattr(acl.prof, name)(*arguments) == 0
    assert complaint in acl.get_recent_err_msg()


def test_a_path_that_is_no_folder(acl, tmp_path):
    (tmp_path / "file").write_text("")
    assert acl.prof.init(str(tmp_path / "file" / "out")) == 100003
    assert "no folder can be made there: Not a directory" in acl.get_recent_err_msg()
    assert acl.prof.init("") == 100000


def test_bytes_that_are_no_records(acl):
    data = bytes(400)
    pointer = acl.util.bytes_to_ptr(data)
    assert acl.prof.get_op_num(pointer, 400) == (0, 100000)
    assert "the 400 bytes are not records of operators" in acl.get_recent_err_msg()
    assert acl.prof.get_op_type(pointer, 400, 0, 65) == ("", 100000)
    assert acl.prof.get_op_name_v2(pointer, 400, 0) == (None, 100000)
    assert (acl.prof.get_op_duration(pointer, 400, 0), acl.prof.get_model_id(pointer, 400, 0)) == (0, 0)
