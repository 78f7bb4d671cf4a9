"""The Kineto trace: the JSON that PyTorch's profiler writes for a CUDA device, for analysers that read such files.

Calls have the names of CUDA's functions, as far as there are such functions. Copies, fills and kernels are in lanes
with the numbers of their streams. Kineto has no place for the reason of a wait; `why` in the arguments has it.

Analysers ask for more than the format says: stream numbers above 0, a rank, and names of copies that begin as CUPTI's
do. `write` puts all devices into one file, where each is a process; `write_ranks` makes a file for each rank.

A part of a collective has the name of NCCL's kernel, without the algorithm and the protocol: analysers count kernels
with "nccl" in their names as communication.

A `cuda_sync` event stands for each wait of a stream for a record, and for each synchronising call that had to wait. In
the lane of a stream it is an instant, because analysers count its duration as computation. The others have the lane -1
of their device.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, count
from operator import attrgetter
from pathlib import Path

import numpy as np

from acl_py.calls.acts import Act, Recorded
from acl_py.calls.table import all_verbs
from acl_py.trace.rows.columns import (
    CallColumns,
    Ints,
    OpColumns,
    OpKind,
    blocks,
    call_columns,
    op_columns,
    step_columns,
)
from acl_py.trace.rows.ranks import parts_of, ranks_of
from acl_py.trace.rows.reading import as_timeline, correlations, short_site, stream_ids
from acl_py.trace.rows.recorder import Trace
from acl_py.trace.rows.timeline import CoreRun, GraphLaunch, Handle, Joint, Mark, Ref, Thing, Timeline
from acl_py.trace.views.jsontext import Quoted, write_list
from acl_py.trace.views.lines import Part, joined, line, merged, only, rates, signed, texts, us, whole
from acl_py.trace.views.synchronisations import NAMES, Synchronisations, synchronisations
from acl_py.trace.views.tracks import Track, Tracks, host_tracks, place, stream_tracks
from acl_py.whole_files import writing_text
from device_model.collectives.calls import CollectiveKind
from device_model.completions import Why

_WORK = {  # by kind: category and name
    "h2d": ("gpu_memcpy", "Memcpy HtoD"),
    "d2h": ("gpu_memcpy", "Memcpy DtoH"),
    "prefetch_h2d": ("gpu_memcpy", "Unified Memory Memcpy HtoD"),
    "prefetch_d2h": ("gpu_memcpy", "Unified Memory Memcpy DtoH"),
    "d2d": ("gpu_memcpy", "Memcpy DtoD"),
    "p2p": ("gpu_memcpy", "Memcpy PtoP"),
    "h2h": ("gpu_memcpy", "Memcpy HtoH"),
    "fill": ("gpu_memset", "Memset (Device)"),
}
_NCCL = {  # by kind of collective; NCCL does all others with Sends and Recvs
    **{
        kind.value: kind.value
        for kind in (
            CollectiveKind.ALL_REDUCE,
            CollectiveKind.ALL_GATHER,
            CollectiveKind.REDUCE_SCATTER,
            CollectiveKind.BROADCAST,
            CollectiveKind.REDUCE,
        )
    },
    CollectiveKind.BARRIER.value: CollectiveKind.ALL_REDUCE.value,
}
_ELEMENTS = {"int": "i", "uint": "u", "float": "f", "bfloat": "bf"}
_REDUCTIONS = {"sum": "Sum", "prod": "Prod", "max": "MinMax", "min": "MinMax", "avg": "SumPostDiv"}
_ARROW = re.compile(r'{"ph":"[sf]",(?:"bp":"e",)?"id":([0-9]+),')
_PID = re.compile(r'"pid":([0-9]+),')
_SYNCS = {  # by call
    "StreamWaitEvent": "Stream Wait Event",
    "SynchronizeStream": "Stream Sync",
    "SynchronizeEvent": "Event Sync",
    "SynchronizeDevice": "Context Sync",
}


def write(trace: Trace | Timeline, path: str | Path) -> None:
    """Write *trace* to the file *path*, one event per line."""
    timeline = as_timeline(trace)
    with writing_text(path) as file:
        write_list(file, _begin(_devices(timeline), "none", 0, 1), _events(timeline), "]}")


def write_ranks(trace: Trace | Timeline, folder: str | Path) -> None:
    """Make *folder*, with a file for each rank of the largest communicator: "rank_0.json" and so on.

    A file has the operations of the rank's device, and all calls of the host. Devices without a rank come behind.
    """
    timeline = as_timeline(trace)
    ranks = ranks_of(timeline)
    Path(folder).mkdir(parents=True, exist_ok=True)
    for device, rank in ranks.items():
        with writing_text(Path(folder, f"rank_{rank}.json")) as file:
            write_list(file, _begin([device], "nccl", rank, len(ranks)), _events_of(timeline, device), "]}")


def _begin(devices: Sequence[int], backend: str, rank: int, ranks: int) -> str:
    properties = ", ".join(f'{{"id": {device}, "name": "simulated device {device}"}}' for device in devices)
    return (
        '{"schemaVersion": 1, "displayTimeUnit": "ms", "baseTimeNanoseconds": 0,\n'
        f'"deviceProperties": [{properties}],\n'
        f'"distributedInfo": {{"backend": "{backend}", "rank": {rank}, "world_size": {ranks}}},\n'
        '"traceEvents": ['
    )


def _events_of(timeline: Timeline, device: int) -> Iterator[str]:
    """Yield the events of the host and of one device; arrows only if they end there."""
    ops = op_columns(timeline.ops)
    is_of_device = np.array([kind.device == device for kind in ops.kinds], bool)[ops.kind]
    of_ops, _ = correlations(ops, call_columns(timeline.calls))
    numbers, others = set(of_ops[is_of_device].tolist()), {each for each in _devices(timeline) if each != device}
    for lines in _events(timeline):
        for event in lines.split(",\n"):
            arrow = _ARROW.match(event)
            is_own = int(arrow[1]) in numbers if arrow is not None else _pid(event) not in others
            if is_own:
                yield event


def _pid(event: str) -> int:
    process = _PID.search(event)
    assert process is not None, f"an event without a process: {event}"
    return int(process[1])


def _devices(timeline: Timeline) -> list[int]:
    return sorted(
        {kind.device for kind in op_columns(timeline.ops).kinds} | {handle.device for handle in timeline.handles}
    )


def _events(timeline: Timeline) -> Iterator[str]:
    ops, calls, steps = op_columns(timeline.ops), call_columns(timeline.calls), step_columns(timeline.steps)
    devices = _devices(timeline)
    host = 1 + max(devices, default=0)  # a process; those of the devices have their numbers
    numbers = count(10_000)  # above those of streams and processes
    tracks, streams = host_tracks(calls, host, numbers), stream_tracks((ops, steps), lambda device: device, numbers)
    waits = {device: Track(device, "synchronisation", chain([-1], numbers)) for device in devices}
    of_ops, of_calls = correlations(ops, calls)
    syncs = synchronisations(timeline)
    _correlate(syncs, of_calls, len(ops))
    functions, marks = Track(host, "host functions", numbers), Track(host, "marks", numbers)
    graphs = Track(host, "graphs", numbers)
    ids, quoted = stream_ids(ops, steps), Quoted()
    names = _names(timeline, ops)
    yield from _calls(calls, tracks, of_calls, len(ops), quoted)
    yield from _marks(timeline.marks, marks, quoted)
    yield from _marks(map(_as_mark, filter(_has_ended, timeline.launches)), graphs, quoted)
    yield from _operations(ops, names, streams, functions, of_ops, ids, quoted)
    yield from _synchronisations(calls, timeline.handles, syncs, streams, waits, of_calls, ids)
    yield from _process(host, "host", "CPU", [*tracks.tracks, functions, marks, graphs], quoted)
    for device in devices:
        own = [track for key, track in streams.items() if key[0] == device]
        yield from _process(device, f"device {device}", f"GPU {device}", [*own, waits[device]], quoted)


def _correlate(syncs: Synchronisations, of_calls: Ints, last: int) -> None:
    """Give the calls that synchronise, and the records that they wait for, numbers above *last*."""
    calls = np.stack((syncs.call, syncs.record), axis=1).ravel()
    calls = calls[calls >= 0]
    calls = calls[of_calls[calls] == 0]
    calls = calls[np.sort(np.unique(calls, return_index=True)[1])]
    of_calls[calls] = last + 1 + np.arange(len(calls))


def _calls(calls: CallColumns, host: Tracks, numbers: Ints, last: int, quoted: Quoted) -> Iterator[str]:
    """Yield each call, and an arrow from it if its number is at most *last*: it has queued work."""
    functions = [_function(kind.name, quoted) for kind in calls.kinds]
    pids = texts([f'"pid":{track.pid},"tid":' for track in host.tracks])
    heads = texts([f'{{"ph":"X",{function},' for function in functions])
    sites = texts([f'"site":{quoted[short_site(kind.file, kind.line)]}}}}}' for kind in calls.kinds])
    for block in blocks(len(calls)):
        kind, number, track = calls.kind[block], numbers[block], host.of[calls.caller[block]]
        enter, exit_ = calls.enter_ns[block], calls.exit_ns[block]
        at = line(pids[track], whole(place(host.tracks, track, enter, exit_)), ',"ts":', us(enter))
        correlated = line('"External id":', whole(number), ',"correlation":', whole(number), ",")
        lines = line(
            heads[kind], at, ',"dur":', us(exit_ - enter), ',"args":{', only(number > 0, correlated), sites[kind]
        )  # fmt: skip
        queues = np.flatnonzero((number > 0) & (number <= last))
        yield joined(merged(lines, _arrows("s", number[queues], at[queues]), queues), ",\n")


def _function(call: str, quoted: Quoted) -> str:
    """Return the category and the name of CUDA's function for *call*; its own name if CUDA has no such function."""
    known = all_verbs().get(call)
    name = call if known is None else known.cuda or call
    category = "cuda_driver" if re.match("cu[A-Z]", name) else "cuda_runtime"
    return f'"cat":"{category}","name":{quoted[name]}'


def _marks(marks: Iterable[Mark], track: Track, quoted: Quoted) -> Iterator[str]:
    for mark in sorted(marks, key=attrgetter("end_ns")):
        what, args = f'"cat":"user_annotation","name":{quoted[mark.name]}', f'"args":{{"site":{quoted[mark.site]}}}'
        yield track.slice(what, mark.begin_ns, mark.end_ns, args)


def _has_ended(launch: GraphLaunch) -> bool:
    return launch.end_ns >= 0


def _as_mark(launch: GraphLaunch) -> Mark:
    """Return *launch* as an annotation: in a lane of a stream, analysers would count it as one more kernel."""
    return Mark(launch.label, launch.start_ns, launch.end_ns, launch.site, launch.caller)


def _operations(
    ops: OpColumns,
    names: Sequence[str],
    streams: Mapping[tuple[int, str], Track],
    functions: Track,
    numbers: Ints,
    ids: Mapping[str, int],
    quoted: Quoted,
) -> Iterator[str]:
    tracks, stream_of = [functions, *streams.values()], list(streams)
    track_of = np.zeros(len(ops.kinds), np.int64)
    in_streams = []
    for place_, each in enumerate(ops.kinds):
        in_stream = ""
        if each.engine != "host":  # an event with a stream counts as work of the device
            track_of[place_] = 1 + stream_of.index((each.device, each.stream))
            in_stream = f',"device":{each.device},"context":1,"stream":{ids[each.stream]}'
        in_streams.append(in_stream + ",")
    heads, in_stream_ = (
        texts([f'{{"ph":"X",{_what(kind, name, quoted)},' for kind, name in zip(ops.kinds, names, strict=True)]),
        texts(in_streams),
    )
    pids = texts([f'"pid":{track.pid},"tid":' for track in tracks])
    sites = texts([f'"site":{quoted[kind.site]},"why":"' for kind in ops.kinds])
    reasons = texts([f'{why.name.lower()}"}}}}' for why in sorted(Why)])
    has_bytes = np.array([kind.kind in _WORK for kind in ops.kinds], bool)
    for block in blocks(len(ops)):
        kind, number, start, end = ops.kind[block], numbers[block], ops.start_ns[block], ops.end_ns[block]
        track = track_of[kind]
        at = line(pids[track], whole(place(tracks, track, start, end)), ',"ts":', us(start))
        correlation = whole(np.where(number > 0, number, np.arange(block.start + 1, block.stop + 1)))
        moves, nbytes = has_bytes[kind], ops.bytes[block]
        rate = rates(nbytes, (end - start) * moves)
        lines = line(
            heads[kind], at, ',"dur":', us(end - start),
            ',"args":{"External id":', correlation, ',"correlation":', correlation, in_stream_[kind],
            only(moves, line('"bytes":', whole(nbytes), ',"memory bandwidth (GB/s)":', rate, ",")),
            _grids(ops.cores, block), sites[kind], reasons[ops.why[block]],
        )  # fmt: skip
        queued = np.flatnonzero(number)
        yield joined(merged(lines, _arrows("f", number[queued], at[queued]), queued), ",\n")


def _synchronisations(
    calls: CallColumns,
    handles: Sequence[Handle],
    syncs: Synchronisations,
    streams: Mapping[tuple[int, str], Track],
    waits: Mapping[int, Track],
    numbers: Ints,
    ids: Mapping[str, int],
) -> Iterator[str]:
    heads = texts([f'{{"ph":"X","cat":"cuda_sync","name":"{_SYNCS[name]}","pid":' for name in NAMES])
    args = texts([f',"args":{{"cuda_sync_kind":"{_SYNCS[name]}",' for name in NAMES])
    first_lanes = np.array([streams[stream].lanes[0] for stream in syncs.streams], np.int64)
    stream_ids = np.array([ids[stream] for _, stream in syncs.streams], np.int64)
    tracks, devices = list(waits.values()), list(waits)
    records = texts([*(_recorded(kind.act, handles, ids) for kind in calls.kinds), ""])
    for block in blocks(len(syncs)):
        name, device, stream, record = syncs.name[block], syncs.device[block], syncs.stream[block], syncs.record[block]
        begin, end = syncs.begin_ns[block], syncs.end_ns[block]
        in_device = stream < 0
        lane, number = np.zeros(len(stream), np.int64), np.full(len(stream), -1)
        lane[~in_device], number[~in_device] = first_lanes[stream[~in_device]], stream_ids[stream[~in_device]]
        track = np.searchsorted(devices, device[in_device])
        lane[in_device] = place(tracks, track, begin[in_device], end[in_device])
        of_record = records[np.where(record < 0, -1, calls.kind[record])]
        recorded = line(of_record, only(record >= 0, line(whole(numbers[record]), ",")))
        yield joined(
            line(
                heads[name], whole(device), ',"tid":', signed(lane), ',"ts":', us(begin), ',"dur":', us(end - begin),
                args[name], recorded, '"stream":', signed(number), ',"correlation":', whole(numbers[syncs.call[block]]),
                ',"device":', whole(device), ',"context":1}}',
            ),
            ",\n",
        )  # fmt: skip


def _recorded(act: Act[Thing], handles: Sequence[Handle], ids: Mapping[str, int]) -> str:
    """Return arguments about the record that a call has made, if it has made one."""
    match act:
        case Recorded(Ref(event), Ref(stream)) if handles[stream].name in ids:
            pass
        case _:
            return ""
    return (
        f'"wait_on_stream":{ids[handles[stream].name]},"wait_on_cuda_event_id":{event},'
        '"wait_on_cuda_event_record_corr_id":'
    )


def _names(timeline: Timeline, ops: OpColumns) -> list[str]:
    """Return the names of the kinds of operations: those of collectives as NCCL's kernels."""
    asked: dict[int, set[str]] = {}
    for part in parts_of(timeline):
        asked.setdefault(int(ops.kind[part.op]), set()).add(_nccl_name(part.joints))
    names = []
    for place_, kind in enumerate(ops.kinds):
        if kind.kind == "collective":
            [name, *others] = sorted(asked.get(place_, {f"ncclDevKernel_{kind.name}"}))
            names.append(name if not others else "_".join(name.split("_")[:2]))  # of several types
        else:
            names.append(kind.name)
    return names


def _nccl_name(joints: Sequence[Joint]) -> str:
    """Return the name of NCCL's kernel, as far as a trace knows it: "ncclDevKernel_AllReduce_Sum_f32"."""
    joint = joints[0]
    name = f"ncclDevKernel_{_NCCL.get(joint.kind, 'SendRecv')}"
    if not joint.reduction:
        return name
    letters = joint.type.rstrip("0123456789")
    return f"{name}_{_REDUCTIONS[joint.reduction]}_{_ELEMENTS[letters]}{joint.type[len(letters) :]}"


def _what(op: OpKind, name: str, quoted: Quoted) -> str:
    """Return the category and the *name* of *op*, or of what CUDA calls a copy or a fill."""
    if op.kind in _WORK:
        category, copied = _WORK[op.kind]
        return f'"cat":"{category}","name":"{copied}"'
    category = "cpu_op" if op.engine == "host" else "kernel"
    return f'"cat":"{category}","name":{quoted[name]}'


def _grids(cores: Mapping[int, CoreRun], block: slice) -> str | Part:
    """Return a further argument of the core kernels among the operations *block*."""
    if not cores:
        return ""
    runs = map(cores.get, range(block.start, block.stop))
    return texts(["" if run is None else f'"grid":[{run.blocks},1,1],' for run in runs])


def _arrows(phase: str, numbers: Ints, at: Part) -> Part:
    """Return an end of an arrow with each of *numbers*, at the process, the lane and the time *at*."""
    binds = '"bp":"e",' if phase == "f" else ""
    return line(f'{{"ph":"{phase}",{binds}"id":', whole(numbers), ',"cat":"ac2g","name":"ac2g",', at, "}")


def _process(pid: int, name: str, label: str, tracks: Iterable[Track], quoted: Quoted) -> Iterator[str]:
    """Yield the names of a process and of its lanes."""
    for what, key, value in (
        ("process_name", "name", quoted[name]),
        ("process_labels", "labels", quoted[label]),
        ("process_sort_index", "sort_index", str(pid)),
    ):
        yield f'{{"ph":"M","name":"{what}","pid":{pid},"tid":0,"args":{{"{key}":{value}}}}}'
    for track in dict.fromkeys(tracks):
        for lane, lane_name in track.names():
            yield f'{{"ph":"M","name":"thread_name","pid":{pid},"tid":{lane},"args":{{"name":{quoted[lane_name]}}}}}'
