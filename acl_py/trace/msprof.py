"""The folder of Ascend's profiler: a timeline and a table of kernels for each device.

Ascend's analysers find the folder of a device by its name, which ends in "_ascend_pt". It has what torch_npu's profiler
writes, as far as a simulation knows it: shapes of tensors, for example, are "N/A".

The format differs from a Chrome trace: the file is a bare list, times are text, and numbers of processes are made of
a place in the viewer and the number of the device.
"""

import csv
import json
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import count
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acl_py.trace.jsontext import Quoted, write_list
from acl_py.trace.reading import as_timeline, asking_calls, correlations, site_of_call, step_spans, stream_ids
from acl_py.trace.recorder import Trace
from acl_py.trace.rows import Call, Operation, StreamStep, Timeline
from acl_py.trace.tracks import Track, host_tracks, stream_tracks

_HOST_PID = 1
_LAYERS = {"CANN": (7, "CPU"), "Ascend Hardware": (13, "NPU"), "Overlap Analysis": (23, "NPU")}  # place, label
_COMPUTING, _FREE = 0, 3  # lanes of the overlap analysis
_NO_MODEL = 4294967295
_COPIES = {
    "h2d": ("PCIE_DMA_SQE", "host to device"),
    "d2h": ("PCIE_DMA_SQE", "device to host"),
    "d2d": ("SDMA_SQE", "device to device"),
    "p2p": ("SDMA_SQE", "device to device"),
}
_EVENT_TASKS = {"record": "EVENT_RECORD", "wait": "EVENT_WAIT"}  # by kind of step
KERNEL_COLUMNS = (
    *("Step Id", "Device_id", "Model ID", "Task ID", "Stream ID", "Name", "Type", "OP State", "Accelerator Core"),
    *("Start Time(us)", "Duration(us)", "Wait Time(us)", "Block Dim", "Mix Block Dim", "Input Shapes"),
    *("Input Data Types", "Input Formats", "Output Shapes", "Output Data Types", "Output Formats", "Context ID"),
    *("aicore_time(us)", "aic_mac_time(us)", "aic_mte1_time(us)", "aic_fixpipe_time(us)"),
    *("aiv_time(us)", "aiv_vec_time(us)", "aiv_scalar_time(us)", "aiv_mte2_time(us)", "aiv_mte3_time(us)"),
)
_BUSY = ("aic_time", "mac", "mte1", "fixpipe", "aiv_time", "vec", "scalar", "mte2", "mte3")  # of the last columns

_Times = npt.NDArray[np.int64]


def write(trace: Trace | Timeline, path: str | Path) -> None:
    """Make the folder *path*, with a folder for each device: "device_0_ascend_pt" and so on."""
    timeline = as_timeline(trace)
    for device in sorted({op.device for op in timeline.ops}) or [0]:
        folder = Path(path) / f"device_{device}_ascend_pt"
        output = folder / "ASCEND_PROFILER_OUTPUT"
        output.mkdir(parents=True, exist_ok=True)
        info = {"rank_id": device, "config": {"experimental_config": {"_profiler_level": "Level1"}}}
        (folder / f"profiler_info_{device}.json").write_text(json.dumps(info) + "\n", encoding="utf-8")
        with (output / "trace_view.json").open("w", encoding="utf-8") as file:
            write_list(file, "[", _events(timeline, device), "]")
        with (output / "kernel_details.csv").open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file)
            table.writerow(KERNEL_COLUMNS)
            table.writerows(_kernel_rows(timeline.ops, device))


def _events(timeline: Timeline, device: int) -> Iterator[str]:
    """Yield the events of the host and of one device."""
    pids = {name: _HOST_PID << 10 | place << 5 | device for name, (place, _) in _LAYERS.items()}
    calls = timeline.calls
    of_ops, of_calls = correlations(timeline.ops, calls)
    of_steps = _number_steps(timeline, of_calls)
    ops = [op for op in timeline.ops if op.device == device]
    queued: list[Operation | StreamStep] = [*timeline.ops, *timeline.steps]
    own = {number for number, row in zip((*of_ops, *of_steps), queued, strict=True) if row.device == device}
    numbers = count(10_000)
    host = host_tracks(calls, pids["CANN"], numbers)
    streams = stream_tracks([row for row in queued if row.device == device], lambda _: pids["Ascend Hardware"], numbers)
    ids, quoted = stream_ids(queued), Quoted()
    yield from _processes(pids)
    yield from _calls(calls, host, (number if number in own else 0 for number in of_calls), quoted)
    tasks = _tasks_of_work(timeline.ops, device, of_ops), _tasks_of_events(timeline, device, of_steps, len(ops))
    yield from _tasks(merge(*tasks, key=attrgetter("end_ns")), ids, streams, quoted)
    yield from _overlaps(ops, pids["Overlap Analysis"])
    lanes = [(track.pid, *lane) for track in dict.fromkeys(host.values()) for lane in track.names()]
    for track in streams.values():
        lanes += [(track.pid, lane, f"Stream {name.removeprefix('stream ')}") for lane, name in track.names()]
    lanes += [(pids["Overlap Analysis"], _COMPUTING, "Computing"), (pids["Overlap Analysis"], _FREE, "Free")]
    for order, (pid, lane, name) in enumerate(lanes):
        yield _about(pid, lane, "thread_name", "name", quoted[name])
        yield _about(pid, lane, "thread_sort_index", "sort_index", order)


def _processes(pids: Mapping[str, int]) -> Iterator[str]:
    for name, pid in pids.items():
        place, label = _LAYERS[name]
        yield _about(pid, 0, "process_name", "name", f'"{name}"')
        yield _about(pid, 0, "process_labels", "labels", f'"{label}"')
        yield _about(pid, 0, "process_sort_index", "sort_index", place)


def _about(pid: int, lane: int, what: str, key: str, value: object) -> str:
    return f'{{"name":"{what}","ph":"M","pid":{pid},"tid":{lane},"args":{{"{key}":{value}}}}}'


def _us(ns: int) -> str:
    """Return a time as these files have it: text, in microseconds."""
    return f'"{ns // 1000}.{ns % 1000:03}"'


def _calls(calls: Sequence[Call], tracks: Mapping[str, Track], numbers: Iterable[int], quoted: Quoted) -> Iterator[str]:
    for call, number in zip(calls, numbers, strict=True):
        track = tracks[call.caller]
        lane = track.place(call.enter_ns, call.exit_ns)
        connection = f'"connection_id":{number},' if number else ""
        # Launches are the calls of a layer above; the adviser looks for their name.
        name, level = ("Node@launch", "node") if call.name == "LaunchKernel" else (f"AscendCL@aclrt{call.name}", "acl")
        yield (
            f'{{"name":{quoted[name]},"ph":"X","pid":{track.pid},"tid":{lane},"ts":{_us(call.enter_ns)},'
            f'"dur":{(call.exit_ns - call.enter_ns) / 1000:.3f},"args":{{"Thread Id":{lane},"Mode":"ACL_RTS",'
            f'"level":"{level}","id":{quoted["aclrt" + call.name]},"item_id":"0",{connection}'
            f'"site":{quoted[site_of_call(call)]}}}}}'
        )
        if number:
            yield _arrow("s", number, track.pid, lane, call.enter_ns)


def _arrow(phase: str, number: int, pid: int, lane: int, at_ns: int) -> str:
    binds = ',"bp":"e"' if phase == "f" else ""
    return (
        f'{{"name":"HostToDevice{number}","ph":"{phase}"{binds},"id":"{number}","cat":"HostToDevice","pid":{pid},'
        f'"tid":{lane},"ts":{_us(at_ns)}}}'
    )


class _Task(NamedTuple):
    """A task of a stream: its place among those of its device, and the *number* of its call; *more* are further
    arguments.
    """

    place: int
    name: str
    kind: str
    stream: str
    device: int
    start_ns: int
    end_ns: int
    number: int
    site: str
    more: str = ""


def _number_steps(timeline: Timeline, of_calls: "array[int]") -> list[int]:
    """Return a number for each step, above those of the operations, and give it to its call; 0 if it has none."""
    of_steps = []
    asking = asking_calls(timeline.steps, timeline.calls)
    for number, call in enumerate(asking, start=len(timeline.ops) + 1):
        if call is not None:
            of_calls[call] = number
        of_steps.append(0 if call is None else number)
    return of_steps


def _tasks_of_work(ops: Iterable[Operation], device: int, numbers: Iterable[int]) -> Iterator[_Task]:
    own = ((op, number) for op, number in zip(ops, numbers, strict=True) if op.device == device)
    for place, (op, number) in enumerate(own):
        name = "MEMCPY_ASYNC" if op.kind in _COPIES else op.name
        times = op.start_ns, op.end_ns
        yield _Task(place, name, _task_type(op), op.stream, device, *times, number, op.site, _copied(op))


def _tasks_of_events(timeline: Timeline, device: int, numbers: Sequence[int], place: int) -> Iterator[_Task]:
    """Yield the records and the waits of streams for events, from *place* on; a wait takes as long as it holds its
    stream.
    """
    spans = step_spans(timeline)
    for end, begin, index in zip(*map(np.ndarray.tolist, spans[:3]), strict=True):
        step = timeline.steps[index]
        if step.device == device and step.kind in _EVENT_TASKS:
            name = _EVENT_TASKS[step.kind]
            yield _Task(place, name, f"{name}_SQE", step.stream, device, begin, end, numbers[index], step.site)
            place += 1


def _tasks(
    tasks: Iterable[_Task], ids: Mapping[str, int], tracks: Mapping[tuple[int, str], Track], quoted: Quoted
) -> Iterator[str]:
    for task in tasks:
        track = tracks[task.device, task.stream]
        start, end, number = task.start_ns, task.end_ns, task.number
        lane = track.place(start, end)
        yield (
            f'{{"name":{quoted[task.name]},"ph":"X","pid":{track.pid},"tid":{lane},"ts":{_us(start)},'
            f'"dur":{(end - start) / 1000:.3f},"args":{{"Model Id":{_NO_MODEL},'
            f'"Task Type":"{task.kind}","Physic Stream Id":{ids[task.stream]},"Task Id":{task.place},"Batch Id":0,'
            f'"Subtask Id":{_NO_MODEL},"connection_id":{number}{task.more},"site":{quoted[task.site]}}}}}'
        )
        if number:
            yield _arrow("f", number, track.pid, lane, start)


def _task_type(op: Operation) -> str:
    if op.kind in _COPIES:
        return _COPIES[op.kind][0]
    if op.kind == "fill":
        return "SDMA_SQE"
    if op.kind == "host_function":
        return "CALLBACK"
    return _accelerator(op)


def _accelerator(op: Operation) -> str:
    """Return which kind of cores a kernel runs on; ordinary kernels do not say."""
    used = [] if op.cores is None else [core for core in ("aic", "aiv") if f"{core}_time" in op.cores.busy_us]
    return {"aiv": "AI_VECTOR_CORE", "aic,aiv": "MIX_AIC"}.get(",".join(used), "AI_CORE")


def _copied(op: Operation) -> str:
    if op.kind not in _COPIES:
        return ""
    lasts = op.end_ns - op.start_ns
    return (
        f',"size(B)":{op.bytes},"bandwidth(GB/s)":{op.bytes / lasts if lasts else 0:.3f},'
        f'"operation":"{_COPIES[op.kind][1]}"'
    )


# --- the overlap analysis


def _overlaps(ops: Sequence[Operation], pid: int) -> Iterator[str]:
    """Yield when kernels ran, and when they did not, from the first operation to the last."""
    kernels = [op for op in ops if op.kind == "kernel"]
    start, end = union(kernels)
    yield from _spans("Computing", pid, _COMPUTING, start, end)
    if ops:
        first, last = min(op.start_ns for op in ops), max(op.end_ns for op in ops)
        free_start, free_end = np.append(first, end), np.append(start, last)
        lasts = free_start < free_end
        yield from _spans("Free", pid, _FREE, free_start[lasts], free_end[lasts])


def union(ops: Sequence[Operation]) -> tuple[_Times, _Times]:
    """Return the beginnings and ends of the times in which at least one of *ops* runs."""
    start, end = (np.array([getattr(op, name) for op in ops], np.int64) for name in ("start_ns", "end_ns"))
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    first = np.append(True, start[1:] > end[:-1])[: len(start)]
    return start[first], end[np.append(first[1:], True)[: len(start)]]


def _spans(name: str, pid: int, lane: int, start: _Times, end: _Times) -> Iterator[str]:
    for begin, until in zip(start.tolist(), end.tolist(), strict=True):
        yield (
            f'{{"name":"{name}","ph":"X","pid":{pid},"tid":{lane},"ts":{_us(begin)},'
            f'"dur":{(until - begin) / 1000:.3f},"args":{{}}}}'
        )


# --- the table of kernels


def _kernel_rows(ops: Sequence[Operation], device: int) -> Iterator[tuple[object, ...]]:
    ids = stream_ids(ops)
    before: dict[str, int] = {}  # the end of the last kernel of each stream
    index = -1
    for op in ops:
        index += op.device == device
        if op.device != device or op.kind != "kernel":
            continue
        waited = max(0, op.start_ns - before.get(op.stream, op.start_ns))
        before[op.stream] = op.end_ns
        blocks, busy = (0, {}) if op.cores is None else (op.cores.blocks, op.cores.busy_us)
        times = op.start_ns, op.end_ns - op.start_ns, waited
        yield (
            *("", device, _NO_MODEL, index, ids[op.stream], op.name, op.name, "static", _accelerator(op)),
            *(f"{ns / 1000:.3f}" for ns in times),
            *(blocks, 0),
            *["N/A"] * 7,
            *(f"{busy[name]:.3f}" if name in busy else "N/A" for name in _BUSY),
        )
