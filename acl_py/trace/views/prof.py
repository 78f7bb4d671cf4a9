"""The folder PROF_... of Ascend's profiler for one device, as `msprof --export` leaves it.

It has the tasks, calls and marks of the times that were profiled. They are a timeline for viewers (msprof_*.json), and
tables of kernels, of types of kernels, of functions, of tasks and of marks. What a simulation does not know, such as
shapes of tensors, is "N/A".
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from statistics import pvariance
from typing import Any, NamedTuple

import numpy as np

from acl_py.trace.rows.reading import as_timeline, short_site
from acl_py.trace.rows.recorder import Trace
from acl_py.trace.rows.timeline import Call, Mark, Operation, Timeline
from acl_py.trace.views.jsontext import write_list
from acl_py.trace.views.msprof import NO_MODEL, Rows, accelerator, function_of, task_name, task_type, union
from acl_py.trace.views.table import csv_row
from acl_py.trace.views.tracks import Track
from acl_py.whole_files import write_text, writing_text

OUTPUT = "mindstudio_profiler_output"
OP_SUMMARY = (
    *("Device_id", "Model ID", "Task ID", "Stream ID", "Op Name", "OP Type", "OP State", "Task Type"),
    *("Task Start Time(us)", "Task Duration(us)", "Task Wait Time(us)", "Block Dim", "Mix Block Dim", "HF32 Eligible"),
    *("Input Shapes", "Input Data Types", "Input Formats", "Output Shapes", "Output Data Types", "Output Formats"),
    *("Context ID", "aicore_time(us)", "aic_mac_time(us)", "aic_mte1_time(us)", "aic_fixpipe_time(us)"),
    *("aiv_time(us)", "aiv_vec_time(us)", "aiv_scalar_time(us)", "aiv_mte2_time(us)", "aiv_mte3_time(us)"),
)
OP_STATISTIC = (
    *("Device_id", "OP Type", "Core Type", "Count", "Total Time(us)", "Min Time(us)", "Avg Time(us)", "Max Time(us)"),
    "Ratio(%)",
)
API_STATISTIC = ("Device_id", "Level", "API Name", "Time(us)", "Count", "Avg(us)", "Min(us)", "Max(us)", "Variance")
TASK_TIME = (
    *("Device_id", "kernel_name", "kernel_type", "stream_id", "task_id", "task_time(us)", "task_start(us)"),
    "task_stop(us)",
)
MSPROF_TX = (
    *("pid", "tid", "category", "event_type", "payload_type", "payload_value", "Start_time(us)", "End_time(us)"),
    *("message_type", "message", "domain", "Device Start_time(us)", "Device End_time(us)"),
)
_BUSY = ("aic_time", "mac", "mte1", "fixpipe", "aiv_time", "vec", "scalar", "mte2", "mte3")
_HOST = 1  # the process
_CANN, _HARDWARE, _OVERLAP = ("CANN", 7, "CPU"), ("Ascend Hardware", 13, "NPU"), ("Overlap Analysis", 23, "NPU")
_MARKED = 17  # the lane of marks, behind those of the calling tasks and threads
_KERNEL, _COLLECTIVE = "kernel", "collective"


class _Task(NamedTuple):
    """An operation that was profiled: its number on the device, the number it shares with its call, and its names."""

    op: Operation
    number: int
    call: int
    name: str
    type: str
    stream: int


class _Profiled(NamedTuple):
    """What was profiled of a device, in the order of starts."""

    device: int
    tasks: list[_Task]
    calls: list[tuple[Call, int]]
    marks: list[Mark]


def write(
    trace: Trace | Timeline, folder: str | Path, device: int, spans: Sequence[tuple[int, int]], stamp: str, cores: int
) -> None:
    """Write what *trace* has of *device* and of the host in the times *spans*, in nanoseconds, into *folder*.

    *stamp* is the time in the names of the files, 14 digits; *cores* is the number of AI cores of the device.
    """
    timeline = as_timeline(trace)
    found = _profiled(timeline, device, spans)
    output = Path(folder) / OUTPUT
    output.mkdir(parents=True, exist_ok=True)
    about = {
        "DeviceInfo": [{"id": device, "chip": timeline.device, "ai_core_num": cores}],
        "rank_id": device,
        "platform": "acl_py",
    }
    (Path(folder) / f"device_{device}").mkdir(exist_ok=True)
    (Path(folder) / "host").mkdir(exist_ok=True)
    write_text(Path(folder) / f"device_{device}" / f"info.json.{device}", json.dumps(about) + "\n")
    with writing_text(output / f"msprof_{stamp}.json") as file:
        write_list(file, "[", map(json.dumps, _events(found)), "]")
    tables: list[tuple[str, Sequence[str], Iterable[Sequence[object]]]] = [
        ("op_summary", OP_SUMMARY, _kernels(found)),
        ("op_statistic", OP_STATISTIC, _types(found)),
        ("api_statistic", API_STATISTIC, _functions(found)),
        ("task_time", TASK_TIME, _times(found)),
        *([("msprof_tx", MSPROF_TX, _marks(found))] if found.marks else []),
    ]
    for name, columns, rows in tables:
        with writing_text(output / f"{name}_{stamp}.csv") as file:
            file.writelines(f"{csv_row(row)}\r\n" for row in (columns, *rows))


def _profiled(timeline: Timeline, device: int, spans: Sequence[tuple[int, int]]) -> _Profiled:
    def has(begin_ns: int, end_ns: int) -> bool:
        return any(begin <= begin_ns and end_ns <= end for begin, end in spans)

    rows = Rows.of(timeline)
    kinds = [rows.ops.kinds[kind] for kind in rows.ops.kind.tolist()]
    tasks = [
        _Task(op, 0, number, task_name(kind), _type_of(op, task_type(kind)), rows.ids[op.stream])
        for op, kind, number in zip(timeline.ops, kinds, rows.of_ops.tolist(), strict=True)
        if op.device == device and has(op.start_ns, op.end_ns)
    ]
    tasks.sort(key=lambda task: (task.op.start_ns, task.op.end_ns))
    calls = [
        (call, number)
        for call, number in zip(timeline.calls, rows.of_calls.tolist(), strict=True)
        if has(call.enter_ns, call.exit_ns)
    ]
    calls.sort(key=lambda call: (call[0].enter_ns, call[0].exit_ns))
    marks = [each for each in timeline.marks if has(each.begin_ns, each.end_ns)]
    numbered = [task._replace(number=number) for number, task in enumerate(tasks)]
    return _Profiled(device, numbered, calls, sorted(marks, key=attrgetter("begin_ns")))


def _type_of(op: Operation, usual: str) -> str:
    return usual if op.cores is None else accelerator(op.cores)


def _us(ns: float) -> str:
    return f"{ns / 1000:.3f}"


# --- tables


def _computing(found: _Profiled) -> list[_Task]:
    """The tasks that a table of operators has: kernels and parts of collectives."""
    return [task for task in found.tasks if task.op.kind in (_KERNEL, _COLLECTIVE)]


def _kernels(found: _Profiled) -> Iterator[list[object]]:
    before: dict[int, int] = {}
    for task in _computing(found):
        op = task.op
        waited = max(0, op.start_ns - before.get(task.stream, op.start_ns))
        before[task.stream] = op.end_ns
        busy = {} if op.cores is None else op.cores.busy_us
        yield [
            found.device, NO_MODEL, task.number, task.stream, task.name, task.name, "static", task.type,
            _us(op.start_ns), _us(op.end_ns - op.start_ns), _us(waited),
            op.blocks if op.cores is None else op.cores.blocks, 0, "NO", *["N/A"] * 7,
            *(f"{busy[name]:.3f}" if name in busy else "N/A" for name in _BUSY),
        ]  # fmt: skip


def _types(found: _Profiled) -> Iterator[list[object]]:
    groups = _grouped(_computing(found), lambda task: (task.name, task.type))
    lasted = {key: [task.op.end_ns - task.op.start_ns for task in tasks] for key, tasks in groups.items()}
    whole = sum(map(sum, lasted.values())) or 1
    for (name, kind), times in sorted(lasted.items(), key=lambda each: -sum(each[1])):
        yield [found.device, name, kind, len(times), _us(sum(times)), _us(min(times)), _us(sum(times) / len(times)),
               _us(max(times)), f"{100 * sum(times) / whole:.3f}"]  # fmt: skip


def _functions(found: _Profiled) -> Iterator[list[object]]:
    groups = _grouped(found.calls, lambda each: _level(each[0]))
    lasted = {key: [call.exit_ns - call.enter_ns for call, _ in calls] for key, calls in groups.items()}
    for (level, name), times in sorted(lasted.items(), key=lambda each: -sum(each[1])):
        variance = pvariance(time / 1000 for time in times)
        yield ["host", level, name, _us(sum(times)), len(times), _us(sum(times) / len(times)), _us(min(times)),
               _us(max(times)), f"{variance:.3f}"]  # fmt: skip


def _grouped(values: Iterable[Any], key: Callable[[Any], Any]) -> dict[Any, list[Any]]:
    groups: dict[Any, list[Any]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    return groups


def _level(call: Call) -> tuple[str, str]:
    """The level of a call, and its function."""
    return ("node", "launch") if call.name == "LaunchKernel" else ("acl", function_of(call.name))


def _times(found: _Profiled) -> Iterator[list[object]]:
    for task in found.tasks:
        start, end = task.op.start_ns, task.op.end_ns
        yield [found.device, task.name, task.type, task.stream, task.number, _us(end - start), _us(start), _us(end)]


def _marks(found: _Profiled) -> Iterator[list[object]]:
    """A row for each mark of the host, with the times of the stream that it was given, and one for each other mark of a
    stream.
    """
    streams = {task.op.stream for task in found.tasks}
    of_streams = [mark for mark in found.marks if mark.caller in streams]
    for mark in found.marks:
        if mark.caller in streams:
            continue
        own = next((each for each in of_streams if (each.name, each.site) == (mark.name, mark.site)), None)
        if own is not None:
            of_streams.remove(own)
        yield _tx_row(mark, own)
    for mark in of_streams:
        yield _tx_row(mark, mark)


def _tx_row(mark: Mark, own: Mark | None) -> list[object]:
    kind = "marker" if mark.begin_ns == mark.end_ns else "start/end"
    device = ["", ""] if own is None else [_us(own.begin_ns), _us(own.end_ns)]
    return [_HOST, mark.caller, "", kind, "", "", _us(mark.begin_ns), _us(mark.end_ns), "", mark.name, "", *device]


# --- the timeline


def _events(found: _Profiled) -> Iterator[dict[str, Any]]:
    pids = {name: _HOST << 10 | place << 5 | found.device for name, place, _ in (_CANN, _HARDWARE, _OVERLAP)}
    for name, place, label in (_CANN, _HARDWARE, _OVERLAP):
        yield _about(pids[name], 0, "process_name", name=name)
        yield _about(pids[name], 0, "process_labels", labels=label)
        yield _about(pids[name], 0, "process_sort_index", sort_index=place)
    lanes = {caller: lane for lane, caller in enumerate(dict.fromkeys(call.caller for call, _ in found.calls), 1)}
    for caller, lane in lanes.items():
        yield _about(pids["CANN"], lane, "thread_name", name=f"Thread {caller}")
    for stream in sorted({task.stream for task in found.tasks}):
        yield _about(pids["Ascend Hardware"], stream, "thread_name", name=f"Stream {stream}")
    for call, number in found.calls:
        yield from _call(call, number, pids["CANN"], lanes[call.caller])
    for task in found.tasks:
        yield from _task(task, pids["Ascend Hardware"])
    yield from _marked(found, pids, len(lanes))
    yield from _overlaps(found, pids["Overlap Analysis"])


def _about(pid: int, lane: int, what: str, **args: object) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": pid, "tid": lane, "args": args}


def _slice(name: str, pid: int, lane: int, begin_ns: int, end_ns: int, **args: object) -> dict[str, Any]:
    return {
        "name": name, "ph": "X", "pid": pid, "tid": lane, "ts": _us(begin_ns), "dur": (end_ns - begin_ns) / 1000,
        "args": args,
    }  # fmt: skip


def _arrow(phase: str, number: int, pid: int, lane: int, at_ns: int) -> dict[str, Any]:
    binds = {"bp": "e"} if phase == "f" else {}
    return {
        "name": f"HostToDevice{number}", "ph": phase, **binds, "id": str(number), "cat": "HostToDevice", "pid": pid,
        "tid": lane, "ts": _us(at_ns),
    }  # fmt: skip


def _call(call: Call, number: int, pid: int, lane: int) -> Iterator[dict[str, Any]]:
    level, function = _level(call)
    name = "Node@launch" if level == "node" else f"AscendCL@{function}"
    args = {"Thread Id": lane, "Mode": "ACL_RTS", "level": level, "id": function, "item_id": "0"}
    shared = {"connection_id": number} if number else {}
    yield _slice(name, pid, lane, call.enter_ns, call.exit_ns, **args, **shared, site=short_site(call.file, call.line))
    if number:
        yield _arrow("s", number, pid, lane, call.enter_ns)


def _task(task: _Task, pid: int) -> Iterator[dict[str, Any]]:
    op = task.op
    args = {"Model Id": NO_MODEL, "Task Type": task.type, "Physic Stream Id": task.stream, "Task Id": task.number,
            "Batch Id": 0, "Subtask Id": NO_MODEL, "connection_id": task.call, "site": op.site}  # fmt: skip
    yield _slice(task.name, pid, task.stream, op.start_ns, op.end_ns, **args)
    if task.call:
        yield _arrow("f", task.call, pid, task.stream, op.start_ns)


def _marked(found: _Profiled, pids: dict[str, int], callers: int) -> Iterator[dict[str, Any]]:
    """Marks of the host are in lanes of the process CANN, and those of streams in lanes of the hardware."""
    streams = {task.op.stream: task.stream for task in found.tasks}
    for process, is_of in (("CANN", lambda mark: mark.caller not in streams),
                           ("Ascend Hardware", lambda mark: mark.caller in streams)):  # fmt: skip
        marks = sorted(filter(is_of, found.marks), key=attrgetter("end_ns"))
        track = Track(pids[process], "MsTx", iter(range(_MARKED + callers + max(streams.values(), default=0), 1 << 30)))
        for mark in marks:
            yield _slice(mark.name, pids[process], track.place(mark.begin_ns, mark.end_ns), mark.begin_ns, mark.end_ns,
                         event_type="marker" if mark.begin_ns == mark.end_ns else "start/end", caller=mark.caller,
                         site=mark.site)  # fmt: skip
        for lane, name in track.names() if marks else ():
            yield _about(pids[process], lane, "thread_name", name=name)


def _overlaps(found: _Profiled, pid: int) -> Iterator[dict[str, Any]]:
    """When kernels ran, when collectives did, and when nothing of both did between the first task and the last."""
    if not found.tasks:
        return
    computing, communication, both = (
        _union([task.op for task in found.tasks if task.op.kind in kinds])
        for kinds in ((_KERNEL,), (_COLLECTIVE,), (_KERNEL, _COLLECTIVE))
    )
    whole = min(task.op.start_ns for task in found.tasks), max(task.op.end_ns for task in found.tasks)
    lanes = [
        ("Computing", 0, computing),
        *([("Communication", 1, communication)] if communication else []),
        *([("Communication(Not Overlapped)", 2, _without(communication, computing))] if communication else []),
        ("Free", 3, _without([whole], both)),
    ]
    for name, lane, spans in lanes:
        yield _about(pid, lane, "thread_name", name=name)
        for begin, end in spans:
            yield _slice(name, pid, lane, begin, end)


def _union(ops: Sequence[Operation]) -> list[tuple[int, int]]:

    starts, ends = (np.array([getattr(op, name) for op in ops], np.int64) for name in ("start_ns", "end_ns"))
    if not ops:
        return []
    begin, end = union(starts, ends)
    return list(zip(begin.tolist(), end.tolist(), strict=True))


def _without(these: Sequence[tuple[int, int]], those: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The parts of *these* spans that are in none of *those*; both are sorted."""
    left = []
    for begin, end in these:
        for start, stop in those:
            if begin < start < end:
                left.append((begin, start))
            if start < end and stop > begin:
                begin = max(begin, stop)
        if begin < end:
            left.append((begin, end))
    return left
