"""The Kineto trace: the JSON that PyTorch's profiler writes for a CUDA device, for analysers that read such files.

Calls have the names of CUDA's functions, as far as there are such functions. Copies, fills and kernels are in lanes
with the numbers of their streams. Kineto has no place for the reason of a wait; `why` in the arguments has it.

Analysers ask for more than the format says: stream numbers above 0, a rank, and names of copies that begin as CUPTI's
do. All devices are in one file, and each is a process.

A `cuda_sync` event stands for each wait of a stream for a record, and for each synchronising call that had to wait. In
the lane of a stream it is an instant, because analysers count its duration as computation. The others have the lane -1
of their device.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, count
from operator import attrgetter
from pathlib import Path

from acl_py.trace.jsontext import Quoted, write_list
from acl_py.trace.reading import as_timeline, correlations, site_of_call, stream_ids
from acl_py.trace.recorder import Trace
from acl_py.trace.rows import Call, Mark, Operation, Ref, StreamStep, Timeline
from acl_py.trace.synchronisations import Synchronisation, synchronisations
from acl_py.trace.tracks import Track, host_tracks, stream_tracks

_FUNCTIONS = {
    "Malloc": "cudaMalloc",
    "Free": "cudaFree",
    "MallocHost": "cudaMallocHost",
    "FreeHost": "cudaFreeHost",
    "MallocAsync": "cudaMallocAsync",
    "FreeAsync": "cudaFreeAsync",
    "HostRegister": "cudaHostRegister",
    "HostUnregister": "cudaHostUnregister",
    "Memcpy": "cudaMemcpy",
    "MemcpyAsync": "cudaMemcpyAsync",
    "Memcpy2d": "cudaMemcpy2D",
    "Memcpy2dAsync": "cudaMemcpy2DAsync",
    "Memset": "cudaMemset",
    "MemsetAsync": "cudaMemsetAsync",
    "LaunchKernel": "cudaLaunchKernel",
    "LaunchHostFunc": "cudaLaunchHostFunc",
    "CreateStream": "cudaStreamCreate",
    "DestroyStream": "cudaStreamDestroy",
    "StreamQuery": "cudaStreamQuery",
    "StreamWaitEvent": "cudaStreamWaitEvent",
    "CreateEvent": "cudaEventCreate",
    "DestroyEvent": "cudaEventDestroy",
    "RecordEvent": "cudaEventRecord",
    "EventQuery": "cudaEventQuery",
    "EventElapsedTime": "cudaEventElapsedTime",
    "SynchronizeStream": "cudaStreamSynchronize",
    "SynchronizeEvent": "cudaEventSynchronize",
    "SynchronizeDevice": "cudaDeviceSynchronize",
    "SetDevice": "cudaSetDevice",
}
_WORK = {  # by kind: category and name
    "h2d": ("gpu_memcpy", "Memcpy HtoD"),
    "d2h": ("gpu_memcpy", "Memcpy DtoH"),
    "d2d": ("gpu_memcpy", "Memcpy DtoD"),
    "p2p": ("gpu_memcpy", "Memcpy PtoP"),
    "fill": ("gpu_memset", "Memset (Device)"),
}
_SYNCS = {  # by call
    "StreamWaitEvent": "Stream Wait Event",
    "SynchronizeStream": "Stream Sync",
    "SynchronizeEvent": "Event Sync",
    "SynchronizeDevice": "Context Sync",
}


def write(trace: Trace | Timeline, path: str | Path) -> None:
    """Write *trace* to the file *path*, one event per line."""
    timeline = as_timeline(trace)
    devices = _devices(timeline)
    properties = ", ".join(f'{{"id": {device}, "name": "simulated device {device}"}}' for device in devices)
    begin = (
        '{"schemaVersion": 1, "displayTimeUnit": "ms", "baseTimeNanoseconds": 0,\n'
        f'"deviceProperties": [{properties}],\n'
        '"distributedInfo": {"backend": "none", "rank": 0, "world_size": 1},\n'
        '"traceEvents": ['
    )
    with Path(path).open("w", encoding="utf-8") as file:
        write_list(file, begin, _events(timeline), "]}")


def _devices(timeline: Timeline) -> list[int]:
    return sorted({op.device for op in timeline.ops} | {handle.device for handle in timeline.handles})


def _events(timeline: Timeline) -> Iterator[str]:
    ops, calls, devices = timeline.ops, timeline.calls, _devices(timeline)
    host = 1 + max(devices, default=0)  # a process; those of the devices have their numbers
    numbers = count(10_000)  # above those of streams and processes
    queued: list[Operation | StreamStep] = [*ops, *timeline.steps]
    tracks, streams = host_tracks(calls, host, numbers), stream_tracks(queued, lambda device: device, numbers)
    waits = {device: Track(device, "synchronisation", chain([-1], numbers)) for device in devices}
    of_ops, of_calls = correlations(ops, calls)
    syncs = synchronisations(timeline)
    _correlate(syncs, of_calls, len(ops))
    functions, marks = Track(host, "host functions", numbers), Track(host, "marks", numbers)
    ids, quoted = stream_ids(queued), Quoted()
    yield from _calls(calls, tracks, of_calls, len(ops), quoted)
    yield from _marks(timeline.marks, marks, quoted)
    yield from _operations(ops, streams, functions, of_ops, ids, quoted)
    yield from _synchronisations(timeline, syncs, streams, waits, of_calls, ids)
    yield from _process(host, "host", "CPU", [*tracks.values(), functions, marks], quoted)
    for device in devices:
        own = [track for key, track in streams.items() if key[0] == device]
        yield from _process(device, f"device {device}", f"GPU {device}", [*own, waits[device]], quoted)


def _correlate(syncs: Iterable[Synchronisation], of_calls: "array[int]", last: int) -> None:
    """Give the calls that synchronise, and the records that they wait for, numbers above *last*."""
    for sync in syncs:
        for call in (sync.call, sync.record):
            if call is not None and not of_calls[call]:
                last += 1
                of_calls[call] = last


def _calls(
    calls: Sequence[Call], tracks: Mapping[str, Track], numbers: Iterable[int], last: int, quoted: Quoted
) -> Iterator[str]:
    """Yield each call, and an arrow from it if its number is at most *last*: it has queued work."""
    for call, number in zip(calls, numbers, strict=True):
        track = tracks[call.caller]
        correlation = f'"External id":{number},"correlation":{number},' if number else ""
        lane = track.place(call.enter_ns, call.exit_ns)
        yield (
            f'{{"ph":"X","cat":"cuda_runtime","name":{quoted[_FUNCTIONS.get(call.name, call.name)]},"pid":{track.pid},'
            f'"tid":{lane},"ts":{call.enter_ns / 1000:.3f},"dur":{(call.exit_ns - call.enter_ns) / 1000:.3f},'
            f'"args":{{{correlation}"site":{quoted[site_of_call(call)]}}}}}'
        )
        if 0 < number <= last:
            yield _arrow("s", number, track.pid, lane, call.enter_ns)


def _marks(marks: Iterable[Mark], track: Track, quoted: Quoted) -> Iterator[str]:
    for mark in sorted(marks, key=attrgetter("end_ns")):
        yield (
            f'{{"ph":"X","cat":"user_annotation","name":{quoted[mark.name]},"pid":{track.pid},'
            f'"tid":{track.place(mark.begin_ns, mark.end_ns)},"ts":{mark.begin_ns / 1000:.3f},'
            f'"dur":{(mark.end_ns - mark.begin_ns) / 1000:.3f},"args":{{"site":{quoted[mark.site]}}}}}'
        )


def _operations(
    ops: Sequence[Operation],
    streams: Mapping[tuple[int, str], Track],
    host: Track,
    numbers: Iterable[int],
    ids: Mapping[str, int],
    quoted: Quoted,
) -> Iterator[str]:
    for index, (op, number) in enumerate(zip(ops, numbers, strict=True), start=1):
        start, end = op.start_ns, op.end_ns
        on_host = op.engine == "host"  # an event with a stream counts as work of the device
        track = host if on_host else streams[op.device, op.stream]
        stream = "" if on_host else f'"device":{op.device},"context":1,"stream":{ids[op.stream]},'
        correlation = number or index
        lane = track.place(start, end)
        yield (
            f'{{"ph":"X",{_what(op, quoted)},"pid":{track.pid},"tid":{lane},"ts":{start / 1000:.3f},'
            f'"dur":{(end - start) / 1000:.3f},"args":{{"External id":{correlation},"correlation":{correlation},'
            f'{stream}{_bytes(op)}"site":{quoted[op.site]},"why":"{op.why.name.lower()}"}}}}'
        )
        if number:
            yield _arrow("f", number, track.pid, lane, start)


def _synchronisations(
    timeline: Timeline,
    syncs: Iterable[Synchronisation],
    streams: Mapping[tuple[int, str], Track],
    waits: Mapping[int, Track],
    numbers: Sequence[int],
    ids: Mapping[str, int],
) -> Iterator[str]:
    for sync in syncs:
        name, record = _SYNCS[sync.name], ""
        if sync.record is not None:
            event, stream = (about.handle for about in timeline.calls[sync.record].about if isinstance(about, Ref))
            record = (
                f'"wait_on_stream":{ids[timeline.handles[stream].name]},"wait_on_cuda_event_id":{event},'
                f'"wait_on_cuda_event_record_corr_id":{numbers[sync.record]},'
            )
        if sync.stream:
            track = streams[sync.device, sync.stream]
            lane, number = track.lanes[0], ids[sync.stream]
        else:
            track = waits[sync.device]
            lane, number = track.place(sync.begin_ns, sync.end_ns), -1
        yield (
            f'{{"ph":"X","cat":"cuda_sync","name":"{name}","pid":{track.pid},"tid":{lane},'
            f'"ts":{sync.begin_ns / 1000:.3f},"dur":{(sync.end_ns - sync.begin_ns) / 1000:.3f},'
            f'"args":{{"cuda_sync_kind":"{name}",{record}"stream":{number},"correlation":{numbers[sync.call]},'
            f'"device":{sync.device},"context":1}}}}'
        )


def _what(op: Operation, quoted: Quoted) -> str:
    """Return the category and the name of *op*."""
    if op.kind in _WORK:
        category, name = _WORK[op.kind]
        return f'"cat":"{category}","name":"{name}"'
    category = "cpu_op" if op.engine == "host" else "kernel"
    return f'"cat":"{category}","name":{quoted[op.name]}'


def _bytes(op: Operation) -> str:
    if op.kind not in _WORK:
        return f'"grid":[{op.cores.blocks},1,1],' if op.cores is not None else ""
    lasts = op.end_ns - op.start_ns
    return f'"bytes":{op.bytes},"memory bandwidth (GB/s)":{op.bytes / lasts if lasts else 0:.3f},'


def _arrow(phase: str, number: int, pid: int, lane: int, at_ns: int) -> str:
    binds = '"bp":"e",' if phase == "f" else ""
    return (
        f'{{"ph":"{phase}",{binds}"id":{number},"cat":"ac2g","name":"ac2g","pid":{pid},"tid":{lane},'
        f'"ts":{at_ns / 1000:.3f}}}'
    )


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
