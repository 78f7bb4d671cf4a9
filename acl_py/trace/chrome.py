"""The Chrome trace: one JSON file that Perfetto and chrome://tracing open.

The host is a process with a lane of calls for each task or thread; slices inside a call show when its caller slept.
Marks of the program have lanes of their own, and strikes of fault rules are instants. Each device is a process with a
lane per engine and stream, with lanes for the records and waits of each stream, and with counters. If the trace has
instructions of core kernels, there is also a lane per core and pipe. Arrows lead from each call to the operations that
it queued, and from each record to the operation that waited for it.

In the arguments of an operation, `correlation` is its number, and `stream_id` that of its stream; in those of a call,
`correlation` is the number of the first operation that it queued.

Viewers enforce four rules without an error message:

* If two slices of one lane overlap without nesting, the later one is dropped (tracks.py).
* An arrow leads from the slice that has `flow_out` to all that have `flow_in` and the same `bind_id`, an integer. None
  of them may begin before the first.
* Times are floating-point microseconds. Counted from the start of the simulation they keep every nanosecond; counted
  from 1970 they would not.
* A lane that has the number of its process counts as the main thread. So lanes are numbered after the processes.

Events are written as they are made, so an export needs memory for a few numbers of each row. Their order is free.
"""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from operator import attrgetter
from pathlib import Path

import numpy as np
import numpy.typing as npt

from acl_py.trace.jsontext import Quoted, write_list
from acl_py.trace.pipes import PIPE_ORDER
from acl_py.trace.reading import (
    ENGINE_ORDER,
    as_timeline,
    correlations,
    site_of_call,
    step_spans,
    stream_ids,
    stream_order,
)  # fmt: skip
from acl_py.trace.recorder import Trace
from acl_py.trace.rows import Call, CoreInstruction, CoreRun, Extent, Mark, Operation, StreamStep, Strike, Timeline
from acl_py.trace.tracks import Track, host_tracks

_HOST = 1  # a process; some viewers treat 0 specially
_FIRST_DEVICE = 2
_QUEUED = 1 << 32  # arrows from a call to its work: Perfetto numbers other arrows itself, from 0, among the same ids
_Numbers = npt.NDArray[np.int64]
_BATCH = 50  # points of a counter that are formatted at once


def write(trace: Trace | Timeline, path: str | Path) -> None:
    """Write *trace* to the file *path*, one event per line."""
    timeline = as_timeline(trace)
    with Path(path).open("w", encoding="utf-8") as file:
        write_list(file, '{"displayTimeUnit": "ns", "traceEvents": [', _events(timeline), "]}")


def _events(timeline: Timeline) -> Iterator[str]:
    """Yield all events, those that belong together in one text: the names of processes and lanes first."""
    ops, calls, instructions = timeline.ops, timeline.calls, timeline.instructions
    memory = _memory_in_use(timeline)
    devices = sorted({op.device for op in ops} | memory.keys())
    numbers = count(_FIRST_DEVICE + max(devices, default=0) + 1)
    faults, marks = Track(_HOST, "faults", numbers), Track(_HOST, "marks", numbers)
    host, work = host_tracks(calls, _HOST, numbers), _work_tracks(ops, numbers)
    events, pipes = _event_tracks(timeline.steps, numbers), _pipe_tracks(ops, instructions, numbers)
    lanes = array("I", bytes(4 * len(ops)))
    of_ops, of_calls = correlations(ops, calls)
    quoted = Quoted()

    yield _process_name(_HOST, "host")
    for device in devices:
        yield _process_name(_FIRST_DEVICE + device, f"device {device}")
    yield from _calls(calls, ops, host, of_calls, quoted)
    yield from _marks(timeline.marks, marks, quoted)
    yield from _operations(ops, work, of_ops, lanes, quoted)
    yield from _steps(timeline, events, lanes, quoted)
    yield from _instructions(ops, instructions, pipes, quoted)
    for strike in timeline.strikes:
        yield _strike(strike, faults, quoted)
    for device in devices:
        own = [op for op in ops if op.device == device]
        yield from _counters(own, memory.get(device, ()), _FIRST_DEVICE + device)
    tracks = [*([faults] if timeline.strikes else []), *([marks] if timeline.marks else [])]
    tracks += [*dict.fromkeys(host.values()), *work.values(), *events.values(), *pipes.values()]
    tracks.sort(key=lambda track: track.pid)
    yield from _lane_names(tracks, quoted)


# --- lanes


def _work_tracks(ops: Sequence[Operation], numbers: Iterator[int]) -> dict[tuple[int, str, str], Track]:
    """Return the track of each device, engine and stream."""
    order = stream_order(ops)
    keys = sorted(
        {(op.device, op.engine, op.stream) for op in ops},
        key=lambda key: (key[0], ENGINE_ORDER.index(key[1]), order[key[2]]),
    )
    return {key: Track(_FIRST_DEVICE + key[0], f"{key[1]} {key[2]}", numbers) for key in keys}


def _event_tracks(steps: Sequence[StreamStep], numbers: Iterator[int]) -> dict[tuple[int, str], Track]:
    """Return the track of each device and stream for entries that take no engine, such as records and waits."""
    order = stream_order(steps)
    keys = sorted({(step.device, step.stream) for step in steps}, key=lambda key: (key[0], order[key[1]]))
    return {key: Track(_FIRST_DEVICE + key[0], f"events {key[1]}", numbers) for key in keys}


def _pipe_tracks(
    ops: Sequence[Operation], rows: Sequence[CoreInstruction], numbers: Iterator[int]
) -> dict[tuple[int, str, str], Track]:
    """Return the track of each device, core and pipe."""
    keys = sorted(
        {(ops[row.operation].device, row.core, row.pipe) for row in rows},
        key=lambda key: (key[0], _core_order(key[1]), PIPE_ORDER.index(key[2])),
    )
    return {key: Track(_FIRST_DEVICE + key[0], f"{key[1]} {key[2]}", numbers) for key in keys}


def _core_order(core: str) -> tuple[str, int]:
    core_type, number = core.split()
    return core_type, int(number)


def _process_name(pid: int, name: str) -> str:
    return f'{{"ph":"M","name":"process_name","pid":{pid},"args":{{"name":"{name}"}}}}'


def _lane_names(tracks: Sequence[Track], quoted: Quoted) -> Iterator[str]:
    """Yield the names and the order of all lanes. Their number is known when all slices have been placed."""
    names = ((track.pid, *lane) for track in tracks for lane in track.names())
    for order, (pid, lane, name) in enumerate(names):
        place = f'"pid":{pid},"tid":{lane}'
        yield f'{{"ph":"M","name":"thread_name",{place},"args":{{"name":{quoted[name]}}}}}'
        yield f'{{"ph":"M","name":"thread_sort_index",{place},"args":{{"sort_index":{order}}}}}'


# --- slices


def _calls(
    calls: Sequence[Call],
    ops: Sequence[Operation],
    host: Mapping[str, Track],
    arrows: "array[int]",
    quoted: Quoted,
) -> Iterator[str]:
    """Yield each call, and in it the times in which the caller slept."""
    for call, arrow in zip(calls, arrows, strict=True):
        enter, exit_ = call.enter_ns, call.exit_ns
        site = f'"args":{{"site":{quoted[site_of_call(call)]}'
        lane = host[call.caller].place(enter, exit_)
        yield (
            f'{{"ph":"X","name":{quoted[call.name]},"cat":"call","pid":{_HOST},'
            f'"tid":{lane},"ts":{enter / 1000:.3f},"dur":{(exit_ - enter) / 1000:.3f},'
            + (
                f'"bind_id":{_QUEUED + arrow},"flow_out":true,{site},"correlation":{arrow}}}}}'
                if arrow
                else f"{site}}}}}"
            )
        )
        for sleep in call.sleeps:
            woken = "" if sleep.after is None else f'"waited_for":{quoted[_named(ops[sleep.after])]}'
            yield (
                f'{{"ph":"X","name":"asleep","cat":"sleep","pid":{_HOST},"tid":{lane},'
                f'"ts":{sleep.begin_ns / 1000:.3f},"dur":{(sleep.end_ns - sleep.begin_ns) / 1000:.3f},'
                f'"args":{{{woken}}}}}'
            )


def _marks(marks: Sequence[Mark], track: Track, quoted: Quoted) -> Iterator[str]:
    for mark in sorted(marks, key=attrgetter("end_ns")):
        yield (
            f'{{"ph":"X","name":{quoted[mark.name]},"cat":"mark","pid":{_HOST},'
            f'"tid":{track.place(mark.begin_ns, mark.end_ns)},"ts":{mark.begin_ns / 1000:.3f},'
            f'"dur":{(mark.end_ns - mark.begin_ns) / 1000:.3f},'
            f'"args":{{"site":{quoted[mark.site]},"caller":{quoted[mark.caller]}}}}}'
        )


def _operations(
    ops: Sequence[Operation],
    work: Mapping[tuple[int, str, str], Track],
    arrows: "array[int]",
    lanes: "array[int]",
    quoted: Quoted,
) -> Iterator[str]:
    """Yield each operation, and store its lane in *lanes*."""
    ids = stream_ids(ops)
    for number, (op, arrow) in enumerate(zip(ops, arrows, strict=True), start=1):
        start, end, stream = op.start_ns, op.end_ns, op.stream
        track = work[op.device, op.engine, stream]
        lane = lanes[number - 1] = track.place(start, end)
        flow = f'"bind_id":{_QUEUED + arrow},"flow_in":true,' if arrow else ""
        yield (
            f'{{"ph":"X","name":{quoted[op.name]},"cat":"{op.kind}","pid":{track.pid},"tid":{lane},'
            f'"ts":{start / 1000:.3f},"dur":{(end - start) / 1000:.3f},{flow}"args":{{"correlation":{number},'
            f'"stream":{quoted[stream]},"stream_id":{ids[stream]},"bytes":{op.bytes},'
            f'"queued_us":{op.queued_ns / 1000:.3f},"site":{quoted[op.site]},"waited_for":{quoted[_reason(op, ops)]}'
            + ("}}" if op.cores is None else f"{_cores(op.cores, quoted)}}}}}")
        )


def _reason(op: Operation, ops: Sequence[Operation]) -> str:
    why = op.why.name.lower()
    if op.after is None:
        return why
    return f"{why}: {_named(ops[op.after])}"


def _named(op: Operation) -> str:
    return f"{op.name} of {op.stream} at {op.site}"


def _steps(
    timeline: Timeline, tracks: Mapping[tuple[int, str], Track], lanes: "array[int]", quoted: Quoted
) -> Iterator[str]:
    """Yield records, waits and the like, and arrows from a record to the first operation behind each of its waits."""
    ops, steps = timeline.ops, timeline.steps
    if not steps:
        return
    spans = step_spans(timeline)
    waits: dict[int, list[int]] = {}  # the operations that waited for each record
    for span in spans:
        record = steps[span.step].record
        if record is not None and span.behind >= 0:
            waits.setdefault(record, []).append(span.behind)
    arrow = len(ops)
    for end, begin, index, _ in spans:
        step = steps[index]
        track = tracks[step.device, step.stream]
        place = f'"pid":{track.pid},"tid":{track.place(begin, end)},"ts":{begin / 1000:.3f}'
        over = "" if step.end_ns >= 0 else ',"over":"never"'
        yield (
            f'{{"ph":"X","name":{quoted[f"{step.kind} {step.name}"]},"cat":"{step.kind}",{place},'
            f'"dur":{(end - begin) / 1000:.3f},"args":{{"queued_us":{step.queued_ns / 1000:.3f},'
            f'"site":{quoted[step.site]}{over}}}}}'
        )
        for operation in waits.get(index, ()):
            arrow += 1
            op = ops[operation]
            flow = f'"id":{arrow},"name":"waits for","cat":"waits for"'
            yield f'{{"ph":"s",{flow},{place}}}'
            place_of_op = f'"pid":{_FIRST_DEVICE + op.device},"tid":{lanes[operation]},"ts":{op.start_ns / 1000:.3f}'
            yield f'{{"ph":"f","bp":"e",{flow},{place_of_op}}}'


def _cores(run: CoreRun, quoted: Quoted) -> str:
    """Return more arguments, for a core kernel."""
    args = [f'"blocks":{run.blocks}', *(f"{quoted[name + '_us']}:{round(us, 3)}" for name, us in run.busy_us.items())]
    if run.findings:
        args.append(f'"findings":[{",".join(map(quoted.__getitem__, run.findings))}]')
    if run.left_out:
        args.append(f'"instructions_left_out":{run.left_out}')
    return "," + ",".join(args)


def _instructions(
    ops: Sequence[Operation],
    rows: Sequence[CoreInstruction],
    pipes: Mapping[tuple[int, str, str], Track],
    quoted: Quoted,
) -> Iterator[str]:
    for row in sorted(rows, key=attrgetter("end_ns")):
        track = pipes[ops[row.operation].device, row.core, row.pipe]
        args = f'"block":{row.block},"site":{quoted[row.site]}'
        if row.bytes:
            args += f',"bytes":{row.bytes}'
        if row.waited_for is not None:
            setter = rows[row.waited_for]
            args += f',"waited_for":{quoted[f"{setter.name} of {setter.core} at {setter.site}"]}'
        yield (
            f'{{"ph":"X","name":{quoted[row.name]},"cat":"pipe {row.kind}","pid":{track.pid},'
            f'"tid":{track.place(row.start_ns, row.end_ns)},"ts":{row.start_ns / 1000},'
            f'"dur":{(row.end_ns - row.start_ns) / 1000},"args":{{{args}}}}}'
        )


def _strike(strike: Strike, track: Track, quoted: Quoted) -> str:
    args = f'"struck":{quoted[strike.name]},"site":{quoted[strike.site]},"made":{quoted[strike.made]}'
    return (
        f'{{"ph":"i","s":"p","name":{quoted[strike.rule]},"cat":"fault","pid":{track.pid},"tid":{track.lanes[0]},'
        f'"ts":{strike.at_ns / 1000:.3f},"args":{{{args}}}}}'
    )


# --- counters


def _counters(ops: Sequence[Operation], memory: Sequence[tuple[int, int]], pid: int) -> Iterator[str]:
    """Yield how many operations run on a device, how many bytes its copies move, and how many of its *memory* are in
    use, whenever that changes.
    """
    starts = np.fromiter(map(attrgetter("start_ns"), ops), np.int64, len(ops))
    ends = np.fromiter(map(attrgetter("end_ns"), ops), np.int64, len(ops))
    times = np.concatenate((starts, ends))
    ones = np.ones(len(ops), np.int64)
    moved = np.fromiter((0 if op.engine == "cores" else op.bytes for op in ops), np.int64, len(ops))
    used_times, used = np.array(memory, np.int64).reshape(-1, 2).T
    yield from _counter("running", "operations", pid, times, np.concatenate((ones, -ones)))
    yield from _counter("in flight", "bytes", pid, times, np.concatenate((moved, -moved)))
    yield from _counter("memory", "bytes", pid, used_times, used)


def _counter(name: str, unit: str, pid: int, times: _Numbers, changes: _Numbers) -> Iterator[str]:
    """Yield the sum of all *changes* so far, whenever it changes."""
    form = f'{{"ph":"C","name":"{name}","pid":{pid},"ts":%.3f,"args":{{"{unit}":%d}}}}'
    order = np.argsort(times, kind="stable")
    times, totals = times[order], changes[order].cumsum()
    last = np.append(times[1:] != times[:-1], True)[: len(times)]  # of the changes at one time
    times, totals = times[last], totals[last]
    changed = np.append(totals[:1] != 0, totals[1:] != totals[:-1])
    times, totals = times[changed], totals[changed]
    for some in range(0, len(times), _BATCH):
        both = np.stack((times[some : some + _BATCH] / 1000, totals[some : some + _BATCH]), axis=1)
        yield ",\n".join([form] * len(both)) % tuple(both.ravel().tolist())


def _memory_in_use(timeline: Timeline) -> dict[int, list[tuple[int, int]]]:
    """Return for each device when its memory in use changes, and by how many bytes.

    Memory is in use from the end of the call that allocates it, or from the beginning if no call does, to the end of
    the call that frees it. FreeAsync frees it when it is called, although the work ahead may still use it.
    """
    made: dict[int, int] = {}
    freed: dict[int, int] = {}
    for call in timeline.calls:
        if call.name.startswith(("Malloc", "Free")) and call.about and isinstance(call.about[0], Extent):
            (freed if call.name.startswith("Free") else made)[call.about[0].buffer] = call.exit_ns
    changes: dict[int, list[tuple[int, int]]] = {}
    for index, memory in enumerate(timeline.buffers):
        if memory.space != "device":
            continue
        own = changes.setdefault(memory.device, [])
        own.append((made.get(index, 0), memory.bytes))
        if memory.freed and index in freed:
            own.append((freed[index], -memory.bytes))
    return changes
