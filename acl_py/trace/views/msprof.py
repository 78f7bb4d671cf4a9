"""The folder of Ascend's profiler: a timeline and a table of kernels for each device.

Ascend's analysers find the folder of a device by its name, which ends in "_ascend_pt". It has what torch_npu's profiler
writes, as far as a simulation knows it: shapes of tensors, for example, are "N/A".

The format differs from a Chrome trace. The file is a bare list, times are text, and numbers of processes are made of
a place in the viewer and the number of the device.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from acl_py.calls.table import all_verbs
from acl_py.trace.rows.columns import (
    CallColumns,
    Ints,
    OpColumns,
    OpKind,
    StepColumns,
    StepKind,
    blocks,
    call_columns,
    merged_blocks,
    merged_order,
    op_columns,
    step_columns,
)  # fmt: skip
from acl_py.trace.rows.reading import (
    StepSpans,
    as_timeline,
    asking_calls,
    correlations,
    short_site,
    step_spans,
    stream_ids,
)  # fmt: skip
from acl_py.trace.rows.recorder import Trace
from acl_py.trace.rows.timeline import CoreRun, GraphLaunch, Timeline
from acl_py.trace.views.jsontext import Quoted, write_list
from acl_py.trace.views.lines import Part, joined, line, merged, only, rates, texts, us, whole
from acl_py.trace.views.table import csv_row
from acl_py.trace.views.tracks import Track, Tracks, host_tracks, place, stream_tracks
from acl_py.whole_files import write_text, writing_text

_HOST_PID = 1
_LAYERS = {"CANN": (7, "CPU"), "Ascend Hardware": (13, "NPU"), "Overlap Analysis": (23, "NPU")}  # place, label
_COMPUTING, _COMMUNICATION, _NOT_OVERLAPPED, _FREE = range(4)  # lanes of the overlap analysis
NO_MODEL = 4294967295
_COPIES = {
    "h2d": ("PCIE_DMA_SQE", "host to device"),
    "d2h": ("PCIE_DMA_SQE", "device to host"),
    "prefetch_h2d": ("PCIE_DMA_SQE", "host to device"),
    "prefetch_d2h": ("PCIE_DMA_SQE", "device to host"),
    "d2d": ("SDMA_SQE", "device to device"),
    "p2p": ("SDMA_SQE", "device to device"),
    "h2h": ("PCIE_DMA_SQE", "host to host"),
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

_ACCELERATORS = ("AI_CORE", "AI_VECTOR_CORE", "MIX_AIC")


def write(trace: Trace | Timeline, path: str | Path) -> None:
    """Make the folder *path*, with a folder for each device: "device_0_ascend_pt" and so on."""
    rows = Rows.of(as_timeline(trace))
    for device in sorted({kind.device for kind in rows.ops.kinds}) or [0]:
        folder = Path(path) / f"device_{device}_ascend_pt"
        output = folder / "ASCEND_PROFILER_OUTPUT"
        output.mkdir(parents=True, exist_ok=True)
        info = {"rank_id": device, "config": {"experimental_config": {"_profiler_level": "Level1"}}}
        write_text(folder / f"profiler_info_{device}.json", json.dumps(info) + "\n")
        with writing_text(output / "trace_view.json") as file:
            write_list(file, "[", _events(rows, device), "]")
        with writing_text(output / "kernel_details.csv") as file:
            file.write(csv_row(KERNEL_COLUMNS) + "\r\n")
            file.writelines(_kernel_rows(rows, device))


class Rows(NamedTuple):
    """The rows of a trace; *of_ops*, *of_steps* and *of_calls* are numbers that a call and what it queued share, *ids*
    the numbers of streams.
    """

    ops: OpColumns
    calls: CallColumns
    steps: StepColumns
    spans: StepSpans
    of_ops: Ints
    of_steps: Ints
    of_calls: Ints
    ids: Mapping[str, int]
    launches: Sequence[GraphLaunch]

    @classmethod
    def of(cls, timeline: Timeline) -> "Rows":
        """Return the rows of *timeline*."""
        ops, calls, steps = op_columns(timeline.ops), call_columns(timeline.calls), step_columns(timeline.steps)
        of_ops, of_calls = correlations(ops, calls)
        asking = asking_calls(steps, calls)
        of_steps = np.where(asking < 0, 0, len(ops) + 1 + np.arange(len(steps)))
        of_calls[asking[asking >= 0]] = of_steps[asking >= 0]
        return cls(ops, calls, steps, step_spans(timeline), of_ops, of_steps, of_calls, stream_ids(ops, steps),
                   timeline.launches)  # fmt: skip

    def work_of(self, device: int) -> Ints:
        """Return the operations of a device."""
        return np.flatnonzero(np.array([kind.device == device for kind in self.ops.kinds], bool)[self.ops.kind])

    def numbers_of(self, device: int) -> Ints:
        """Return the numbers of the calls, without those that have queued work of other devices only."""
        is_own = np.zeros(len(self.ops) + len(self.steps) + 1, bool)
        for columns, numbers in ((self.ops, self.of_ops), (self.steps, self.of_steps)):
            is_own[numbers[np.array([kind.device == device for kind in columns.kinds], bool)[columns.kind]]] = True
        return np.where(is_own[self.of_calls], self.of_calls, 0)


def _events(rows: Rows, device: int) -> Iterator[str]:
    """Yield the events of the host and of one device."""
    pids = {name: _HOST_PID << 10 | place << 5 | device for name, (place, _) in _LAYERS.items()}
    numbers = count(10_000)
    host = host_tracks(rows.calls, pids["CANN"], numbers)
    all_streams = stream_tracks((rows.ops, rows.steps), lambda _: pids["Ascend Hardware"], numbers)
    streams = {stream: track for (of, stream), track in all_streams.items() if of == device}
    quoted = Quoted()
    yield from _processes(pids)
    yield from _calls(rows.calls, host, rows.numbers_of(device), quoted)
    yield from _tasks(rows, device, streams, quoted)
    graphs = Track(pids["Ascend Hardware"], "graphs", numbers)
    yield from _models(rows, device, graphs, quoted)
    yield from _overlaps(rows, device, pids["Overlap Analysis"])
    lanes = [(track.pid, *lane) for track in host.tracks for lane in track.names()]
    for track in streams.values():
        lanes += [(track.pid, lane, f"Stream {name.removeprefix('stream ')}") for lane, name in track.names()]
    lanes += [(graphs.pid, *lane) for lane in graphs.names() if graphs.end >= 0]
    lanes += [(pids["Overlap Analysis"], lane, name) for lane, name in _lanes(rows, device)]
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


def _calls(calls: CallColumns, host: Tracks, numbers: Ints, quoted: Quoted) -> Iterator[str]:
    # Launches are the calls of a layer above; the adviser looks for their name.
    functions = [function_of(kind.name) for kind in calls.kinds]
    named = [
        ("Node@launch", "node") if kind.name == "LaunchKernel" else (f"AscendCL@{function}", "acl")
        for kind, function in zip(calls.kinds, functions, strict=True)
    ]
    heads = texts([f'{{"name":{quoted[name]},"ph":"X",' for name, _ in named])
    pids = texts([f'"pid":{track.pid},"tid":' for track in host.tracks])
    args = texts([
        f',"Mode":"ACL_RTS","level":"{level}","id":{quoted[function]},"item_id":"0",'
        for function, (_, level) in zip(functions, named, strict=True)
    ])  # fmt: skip
    sites = texts([f'"site":{quoted[short_site(kind.file, kind.line)]}}}}}' for kind in calls.kinds])
    for block in blocks(len(calls)):
        kind, track, number = calls.kind[block], host.of[calls.caller[block]], numbers[block]
        enter, exit_ = calls.enter_ns[block], calls.exit_ns[block]
        lane = whole(place(host.tracks, track, enter, exit_))
        at = line(pids[track], lane, ',"ts":"', us(enter), '"')
        lines = line(
            heads[kind], at, ',"dur":', us(exit_ - enter), ',"args":{"Thread Id":', lane, args[kind],
            only(number > 0, line('"connection_id":', whole(number), ",")), sites[kind],
        )  # fmt: skip
        queues = np.flatnonzero(number)
        yield joined(merged(lines, _arrows("s", number[queues], at[queues]), queues), ",\n")


def function_of(verb: str) -> str:
    """Return the function of the vendor that *verb* stands for."""
    known = all_verbs().get(verb)
    return (known is not None and known.acl) or f"aclrt{verb}"


def _arrows(phase: str, numbers: Ints, at: Part) -> Part:
    """Return an end of an arrow with each of *numbers*, at the process, the lane and the time *at*."""
    binds = ',"bp":"e"' if phase == "f" else ""
    number = whole(numbers)
    return line(
        '{"name":"HostToDevice', number, f'","ph":"{phase}"{binds},"id":"', number, '","cat":"HostToDevice",', at, "}"
    )  # fmt: skip


def _tasks(rows: Rows, device: int, streams: Mapping[str, Track], quoted: Quoted) -> Iterator[str]:
    """Yield the operations of a device, and the records and the waits of its streams for events, in the order of their
    ends. They have numbers: first the operations, then the others. A wait takes as long as it holds its stream.
    """
    ops, steps, spans = rows.ops, rows.steps, rows.spans
    tracks, order = list(streams.values()), list(streams)
    kinds: list[tuple[OpKind | StepKind, str, str]] = [
        *((kind, task_name(kind), task_type(kind)) for kind in ops.kinds),
        *((kind, name, f"{name}_SQE") for kind in steps.kinds for name in [_EVENT_TASKS.get(kind.kind, "")]),
    ]
    track_of = np.array([order.index(kind.stream) if kind.device == device else -1 for kind, _, _ in kinds], np.int64)
    heads = texts([f'{{"name":{quoted[name]},"ph":"X",' for _, name, _ in kinds])
    pids = texts([f'"pid":{track.pid},"tid":' for track in tracks])
    types = texts([*(type_ for _, _, type_ in kinds), *_ACCELERATORS])
    stream_ids = texts([f'","Physic Stream Id":{rows.ids[kind.stream]},"Task Id":' for kind, _, _ in kinds])
    sites = texts([f',"site":{quoted[kind.site]}}}}}' for kind, _, _ in kinds])
    copied = texts([f',"operation":"{_COPIES[kind.kind][1]}"' if kind.kind in _COPIES else "" for kind in ops.kinds])
    is_copy = np.array([kind.kind in _COPIES for kind in ops.kinds], bool)
    is_task = np.array([kind.device == device and kind.kind in _EVENT_TASKS for kind in steps.kinds], bool)
    work, events = rows.work_of(device), np.flatnonzero(is_task[steps.kind[spans.step]])
    for work_block, event_block, behind in merged_blocks(ops.end_ns[work], spans.end_ns[events]):
        op, event = work[work_block], events[event_block]
        step, together = spans.step[event], merged_order(len(op), behind)
        task = np.append(np.arange(len(work))[work_block], len(work) + np.arange(len(events))[event_block])[together]
        kind = np.append(ops.kind[op], len(ops.kinds) + steps.kind[step])[together]
        type_ = np.append(_types(ops, op, len(kinds)), len(ops.kinds) + steps.kind[step])[together]
        start = np.append(ops.start_ns[op], spans.begin_ns[event])[together]
        end = np.append(ops.end_ns[op], spans.end_ns[event])[together]
        number = np.append(rows.of_ops[op], rows.of_steps[step])[together]
        track = track_of[kind]
        at = line(pids[track], whole(place(tracks, track, start, end)), ',"ts":"', us(start), '"')
        nbytes, copies = ops.bytes[op], is_copy[ops.kind[op]]
        rate = rates(nbytes, (ops.end_ns[op] - ops.start_ns[op]) * copies)
        moved = only(copies, line(',"size(B)":', whole(nbytes), ',"bandwidth(GB/s)":', rate, copied[ops.kind[op]]))
        lines = line(
            heads[kind], at, ',"dur":', us(end - start), f',"args":{{"Model Id":{NO_MODEL},"Task Type":"',
            types[type_], stream_ids[kind], whole(task), f',"Batch Id":0,"Subtask Id":{NO_MODEL},"connection_id":',
            whole(number), merged(moved, texts([""] * len(step)), behind), sites[kind],
        )  # fmt: skip
        queued = np.flatnonzero(number)
        yield joined(merged(lines, _arrows("f", number[queued], at[queued]), queued), ",\n")


def _models(rows: Rows, device: int, track: Track, quoted: Quoted) -> Iterator[str]:
    """Yield the launches of graphs on a device, in the order of their ends."""
    own = [each for each in rows.launches if each.device == device and each.end_ns >= 0]
    for each in sorted(own, key=attrgetter("end_ns")):
        lane = track.place(each.start_ns, each.end_ns)
        yield (
            f'{{"name":{quoted[each.label]},"ph":"X","pid":{track.pid},"tid":{lane},"ts":"{each.start_ns / 1000:.3f}",'
            f'"dur":{(each.end_ns - each.start_ns) / 1000:.3f},"args":{{"Task Type":"MODEL_EXECUTE",'
            f'"Physic Stream Id":{rows.ids.get(each.stream, 0)},"site":{quoted[each.site]}}}}}'
        )


def _types(ops: OpColumns, which: Ints, accelerators: int) -> Ints:
    """Return the places of the types of some operations: of their kinds, or those of core kernels, behind
    *accelerators*.
    """
    types = ops.kind[which].astype(np.int64)
    for place_, index in enumerate(which.tolist() if ops.cores else ()):
        if index in ops.cores:
            types[place_] = accelerators + _ACCELERATORS.index(accelerator(ops.cores[index]))
    return types


def task_type(kind: OpKind) -> str:
    """Return the type of the tasks of a kind of operations, as Ascend's profiler names it."""
    if kind.kind in _COPIES:
        return _COPIES[kind.kind][0]
    others = {"fill": "SDMA_SQE", "host_function": "CALLBACK", "collective": "COMMUNICATION"}
    return others.get(kind.kind, accelerator(None))


def task_name(kind: OpKind) -> str:
    """Return what Ascend's profiler calls the tasks of a kind of operations."""
    if kind.kind in _COPIES:
        return "MEMCPY_ASYNC"
    if kind.kind == "collective":  # of several Sends and Recvs the first
        name = kind.name.split()[0]
        return f"hcom_{name[0].lower()}{name[1:]}_"
    return kind.name


def accelerator(run: CoreRun | None) -> str:
    """Return which kind of cores a kernel runs on; ordinary kernels do not say."""
    used = [] if run is None else [core for core in ("aic", "aiv") if f"{core}_time" in run.busy_us]
    return {"aiv": "AI_VECTOR_CORE", "aic,aiv": "MIX_AIC"}.get(",".join(used), "AI_CORE")


# --- the overlap analysis


def _lanes(rows: Rows, device: int) -> list[tuple[int, str]]:
    """Return the lanes of the overlap analysis."""
    lanes = [(_COMPUTING, "Computing"), (_FREE, "Free")]
    if len(_times_of(rows, device, ("collective",))[0]):
        lanes[1:1] = [(_COMMUNICATION, "Communication"), (_NOT_OVERLAPPED, "Communication(Not Overlapped)")]
    return lanes


def _times_of(rows: Rows, device: int, kinds: tuple[str, ...]) -> tuple[Ints, Ints]:
    """Return when at least one operation of these *kinds* runs."""
    ops, work = rows.ops, rows.work_of(device)
    which = work[np.array([kind.kind in kinds for kind in ops.kinds], bool)[ops.kind[work]]]
    return union(ops.start_ns[which], ops.end_ns[which])


def _overlaps(rows: Rows, device: int, pid: int) -> Iterator[str]:
    """Yield when kernels ran, when collectives did, with and without kernels, and when nothing of both did, from the
    first operation to the last.
    """
    ops, work = rows.ops, rows.work_of(device)
    computing = _times_of(rows, device, ("kernel",))
    communication = _times_of(rows, device, ("collective",))
    yield from _spans("Computing", pid, _COMPUTING, *computing)
    yield from _spans("Communication", pid, _COMMUNICATION, *communication)
    yield from _spans("Communication(Not Overlapped)", pid, _NOT_OVERLAPPED, *_without(communication, computing))
    if len(work):
        whole_ = np.array([ops.start_ns[work].min()]), np.array([ops.end_ns[work].max()])
        yield from _spans("Free", pid, _FREE, *_without(whole_, _times_of(rows, device, ("kernel", "collective"))))


def _without(these: tuple[Ints, Ints], those: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """Return when one of *these* spans lasts and none of *those*; neither overlap among themselves."""
    points = np.unique(np.concatenate((*these, *those)))
    begin, end = points[:-1], points[1:]
    is_in = [
        np.searchsorted(start, begin, "right") > np.searchsorted(stop, begin, "right") for start, stop in (these, those)
    ]
    kept = is_in[0] & ~is_in[1]
    return union(begin[kept], end[kept])


def union(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Return the beginnings and ends of the times in which at least one of several operations runs."""
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    first = np.append(True, start[1:] > end[:-1])[: len(start)]
    return start[first], end[np.append(first[1:], True)[: len(start)]]


def _spans(name: str, pid: int, lane: int, start: Ints, end: Ints) -> Iterator[str]:
    for block in blocks(len(start)):
        begin = start[block]
        yield joined(
            line(
                f'{{"name":"{name}","ph":"X","pid":{pid},"tid":{lane},"ts":"', us(begin), '","dur":',
                us(end[block] - begin), ',"args":{}}',
            ),
            ",\n",
        )  # fmt: skip


# --- the table of kernels


def _kernel_rows(rows: Rows, device: int) -> Iterator[str]:
    ops, work = rows.ops, rows.work_of(device)
    is_kernel = np.array([kind.kind == "kernel" for kind in ops.kinds], bool)
    of_streams = texts([csv_row(["", rows.ids[kind.stream], kind.name, kind.name, "static", ""]) for kind in ops.kinds])
    stream_of = np.array([rows.ids[kind.stream] for kind in ops.kinds], np.int64)
    types = texts([*([accelerator(None)] * len(ops.kinds)), *_ACCELERATORS])
    before = np.full(max(rows.ids.values(), default=0) + 1, -1)  # the end of the last kernel of each stream
    kernels = np.flatnonzero(is_kernel[ops.kind[work]])
    for block in blocks(len(kernels)):
        index = kernels[block]
        op = work[index]
        kind, start, end = ops.kind[op], ops.start_ns[op], ops.end_ns[op]
        waited = _waited(stream_of[kind], start, end, before)
        yield joined(
            line(
                csv_row(["", device, NO_MODEL, ""]), whole(index), of_streams[kind],
                types[_types(ops, op, len(ops.kinds))],
                ",", us(start), ",", us(end - start), ",", us(waited), _busy(ops.cores, op),
            ),
            "\r\n",
        ) + "\r\n"  # fmt: skip


def _waited(stream: Ints, start: Ints, end: Ints, before: Ints) -> Ints:
    """Return how long after the kernel before it in its stream each kernel started. *before* has the ends of those
    *before* all these, by stream, or -1; then those of the last of these.
    """
    order = np.argsort(stream, kind="stable")
    in_order = stream[order]
    last = np.append(0, end[order][:-1])
    is_first = np.append(True, in_order[1:] != in_order[:-1])
    last[is_first] = before[in_order[is_first]]
    waited = np.zeros(len(stream), np.int64)
    waited[order] = np.where(last < 0, 0, np.maximum(start[order] - last, 0))
    before[stream] = end  # of several of one stream the last one stays
    return waited


def _busy(cores: Mapping[int, CoreRun], ops: Ints) -> str | Part:
    """Return the last columns, of each operation with an index in *ops*."""
    if not cores:
        return _last_columns(None)
    return texts([_last_columns(cores.get(index)) for index in ops.tolist()])


def _last_columns(run: CoreRun | None) -> str:
    blocks, busy = (0, {}) if run is None else (run.blocks, run.busy_us)
    return csv_row(
        ["", blocks, 0, *["N/A"] * 7, *(f"{busy[name]:.3f}" if name in busy else "N/A" for name in _BUSY)]
    )  # fmt: skip
