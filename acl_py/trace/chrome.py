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

from acl_py.trace.columns import Ints, Part, blocks, joined, line, merged, numbers, only, places, texts, us, whole
from acl_py.trace.jsontext import Quoted, write_list
from acl_py.trace.pipes import PIPE_ORDER
from acl_py.trace.reading import (
    ENGINE_ORDER,
    as_timeline,
    correlations,
    short_site,
    step_spans,
    stream_ids,
    stream_order,
)  # fmt: skip
from acl_py.trace.recorder import Trace
from acl_py.trace.rows import (
    Call,
    CoreInstruction,
    CoreRun,
    Extent,
    Mark,
    Operation,
    Sleep,
    StreamStep,
    Strike,
    Timeline,
)
from acl_py.trace.tracks import Track, host_tracks, place
from device_model.completions import Why

_HOST = 1  # a process; some viewers treat 0 specially
_FIRST_DEVICE = 2
_QUEUED = 1 << 32  # arrows from a call to its work: Perfetto numbers other arrows itself, from 0, among the same ids
_REASONS = [why.name.lower() for why in sorted(Why)]
_Kind = tuple[str, str, int, str, str, str]  # what many operations have in common: the fields of _WORK
_CALL = attrgetter("name", "file", "line", "caller")
_WORK = attrgetter("name", "kind", "device", "engine", "stream", "site")
_STEP = attrgetter("kind", "name", "device", "stream", "site")
_NAMED = attrgetter("name", "stream", "site")


def write(trace: Trace | Timeline, path: str | Path) -> None:
    """Write *trace* to the file *path*, one event per line."""
    timeline = as_timeline(trace)
    with Path(path).open("w", encoding="utf-8") as file:
        write_list(file, '{"displayTimeUnit": "ns", "traceEvents": [', _events(timeline), "]}")


def _events(timeline: Timeline) -> Iterator[str]:
    """Yield all events, those that belong together in one text: the names of processes and lanes first."""
    ops, calls, instructions = timeline.ops, timeline.calls, timeline.instructions
    memory, ids = _memory_in_use(timeline), stream_ids(ops)
    which, kinds = places(map(_WORK, ops), len(ops))
    devices = sorted({*(kind[2] for kind in kinds), *memory})
    free = count(_FIRST_DEVICE + max(devices, default=0) + 1)
    faults, marks = Track(_HOST, "faults", free), Track(_HOST, "marks", free)
    host, work = host_tracks(calls, _HOST, free), _work_tracks(kinds, ids, free)
    events, pipes = _event_tracks(timeline.steps, free), _pipe_tracks(ops, instructions, free)
    lanes = array("I", bytes(4 * len(ops)))
    of_ops, of_calls = correlations(ops, calls)
    quoted = Quoted()

    yield _process_name(_HOST, "host")
    for device in devices:
        yield _process_name(_FIRST_DEVICE + device, f"device {device}")
    yield from _calls(calls, ops, host, of_calls, quoted)
    yield from _marks(timeline.marks, marks, quoted)
    yield from _operations(ops, which, kinds, work, ids, of_ops, lanes, quoted)
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


def _work_tracks(
    kinds: Sequence[_Kind], ids: Mapping[str, int], numbers: Iterator[int]
) -> dict[tuple[int, str, str], Track]:
    """Return the track of each device, engine and stream; *ids* has the streams in their order."""
    order = list(ids)
    keys = sorted(
        {kind[2:5] for kind in kinds},
        key=lambda key: (key[0], ENGINE_ORDER.index(key[1]), order.index(key[2])),
    )
    return {key: Track(_FIRST_DEVICE + key[0], f"{key[1]} {key[2]}", numbers) for key in keys}


def _event_tracks(steps: Sequence[StreamStep], numbers: Iterator[int]) -> dict[tuple[int, str], Track]:
    """Return the track of each device and stream for entries that take no engine, such as records and waits."""
    order = stream_order(steps)
    keys = sorted(set(map(attrgetter("device", "stream"), steps)), key=lambda key: (key[0], order[key[1]]))
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
    tracks = list(dict.fromkeys(host.values()))
    for block in blocks(len(calls)):
        rows = calls[block]
        which, kinds = places(map(_CALL, rows), len(rows))
        enter, exit_, arrow = numbers(rows, "enter_ns"), numbers(rows, "exit_ns"), np.array(arrows[block], np.int64)
        track = np.array([tracks.index(host[caller]) for _, _, _, caller in kinds])[which]
        lanes = place(tracks, track, enter, exit_)
        lines = line(
            texts([f'{{"ph":"X","name":{quoted[name]},"cat":"call","pid":{_HOST},"tid":' for name, *_ in kinds], which),
            whole(lanes), ',"ts":', us(enter), ',"dur":', us(exit_ - enter), ",",
            only(arrow > 0, line('"bind_id":', whole(_QUEUED + arrow), ',"flow_out":true,')),
            texts([f'"args":{{"site":{quoted[short_site(file, number)]}' for _, file, number, _ in kinds], which),
            only(arrow > 0, line(',"correlation":', whole(arrow))),
            "}}",
        )  # fmt: skip
        behind = [index for index, call in enumerate(rows) for _ in call.sleeps]
        if behind:
            sleeps = [sleep for call in rows for sleep in call.sleeps]
            lines = merged(lines, _asleep(sleeps, lanes[behind], ops, quoted), np.array(behind))
        yield joined(lines, ",\n")


def _asleep(sleeps: Sequence[Sleep], lanes: Ints, ops: Sequence[Operation], quoted: Quoted) -> Part:
    begin, end = numbers(sleeps, "begin_ns"), numbers(sleeps, "end_ns")
    woken = [
        "" if sleep.after is None else f'"waited_for":{quoted[_named(*_NAMED(ops[sleep.after]))]}' for sleep in sleeps
    ]
    return line(
        f'{{"ph":"X","name":"asleep","cat":"sleep","pid":{_HOST},"tid":', whole(lanes),
        ',"ts":', us(begin), ',"dur":', us(end - begin), ',"args":{', texts(woken), "}}",
    )  # fmt: skip


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
    which: Ints,
    kinds: Sequence[_Kind],
    work: Mapping[tuple[int, str, str], Track],
    ids: Mapping[str, int],
    arrows: "array[int]",
    lanes: "array[int]",
    quoted: Quoted,
) -> Iterator[str]:
    """Yield each operation, and store its lane in *lanes*. *which* has the place of its kind in *kinds*."""
    tracks = list(work.values())
    track_of = np.array([tracks.index(work[kind[2:5]]) for kind in kinds], np.int64)
    heads, streams, sites, named = [], [], [], []
    for name, kind, device, _, stream, site in kinds:
        heads.append(f'{{"ph":"X","name":{quoted[name]},"cat":"{kind}","pid":{_FIRST_DEVICE + device},"tid":')
        streams.append(f',"stream":{quoted[stream]},"stream_id":{ids[stream]},"bytes":')
        sites.append(f',"site":{quoted[site]},"waited_for":"')
        named.append(f": {quoted[_named(name, stream, site)][1:-1]}")
    named.append("")  # for an operation that waited for none
    tables = [texts(table) for table in (heads, streams, sites, named)]
    for block in blocks(len(ops)):
        rows, some = ops[block], which[block]
        start, end, arrow = numbers(rows, "start_ns"), numbers(rows, "end_ns"), np.array(arrows[block], np.int64)
        after = np.fromiter((-1 if op.after is None else op.after for op in rows), np.int64, len(rows))
        lane = place(tracks, track_of[some], start, end)
        lanes[block] = array("I", lane.tolist())
        head, in_stream, at_site = (table[some] for table in tables[:3])
        other = tables[3][np.where(after < 0, len(kinds), which[after])]
        lines = line(
            head, whole(lane), ',"ts":', us(start), ',"dur":', us(end - start), ",",
            only(arrow > 0, line('"bind_id":', whole(_QUEUED + arrow), ',"flow_in":true,')),
            '"args":{"correlation":', whole(np.arange(block.start + 1, block.stop + 1)),
            in_stream, whole(numbers(rows, "bytes")), ',"queued_us":', us(numbers(rows, "queued_ns")),
            at_site, texts(_REASONS, numbers(rows, "why")), other, '"',
            texts(["" if op.cores is None else _cores(op.cores, quoted) for op in rows]),
            "}}",
        )  # fmt: skip
        yield joined(lines, ",\n")


def _named(name: str, stream: str, site: str) -> str:
    return f"{name} of {stream} at {site}"


def _steps(
    timeline: Timeline, tracks: Mapping[tuple[int, str], Track], lanes: "array[int]", quoted: Quoted
) -> Iterator[str]:
    """Yield records, waits and the like, and arrows from a record to the first operation behind each of its waits."""
    ops, steps, all_tracks = timeline.ops, timeline.steps, list(tracks.values())
    if not steps:
        return
    ends, begins, order, behind = step_spans(timeline)
    rank = np.argsort(order)
    record = np.fromiter((-1 if step.record is None else step.record for step in steps), np.int64, len(steps))[order]
    waits = np.flatnonzero((record >= 0) & (behind >= 0))  # an arrow each, in the order of the lines of their records
    records = rank[record[waits]]
    by_record = np.argsort(records, kind="stable")
    held, records = behind[waits][by_record], records[by_record]
    for block in blocks(len(steps)):
        rows = [steps[index] for index in order[block].tolist()]
        begin, end = begins[block], ends[block]
        which, kinds = places(map(_STEP, rows), len(rows))
        track = np.array([all_tracks.index(tracks[kind[2:4]]) for kind in kinds])[which]
        lane = place(all_tracks, track, begin, end)
        heads, pids, sites = [], [], []
        for kind, name, device, _, site in kinds:
            heads.append(f'{{"ph":"X","name":{quoted[f"{kind} {name}"]},"cat":"{kind}",')
            pids.append(f'"pid":{_FIRST_DEVICE + device},"tid":')
            sites.append(f',"site":{quoted[site]}')
        at = line(texts(pids, which), whole(lane), ',"ts":', us(begin))
        endless = numbers(rows, "end_ns") < 0
        lines = line(
            texts(heads, which), at, ',"dur":', us(end - begin),
            ',"args":{"queued_us":', us(numbers(rows, "queued_ns")), texts(sites, which),
            texts(["", ',"over":"never"'], endless.astype(np.int64)), "}}",
        )  # fmt: skip
        first, last = np.searchsorted(records, (block.start, block.stop)).tolist()
        if first < last:
            to, behind_line = held[first:last], records[first:last] - block.start
            numbered = whole(np.arange(len(ops) + 1 + first, len(ops) + 1 + last))
            heads_of_arrows = [ops[index] for index in to.tolist()]
            arrows = _arrows(at[behind_line], heads_of_arrows, np.array(lanes)[to], numbered)
            lines = merged(lines, arrows, behind_line)
        yield joined(lines, ",\n")


def _arrows(at: Part, ops: Sequence[Operation], lanes: Ints, numbered: Part) -> Part:
    """Return an arrow to each of *ops* from the place *at*, as two events in one line."""
    flow = line('"id":', numbered, ',"name":"waits for","cat":"waits for",')
    return line(
        '{"ph":"s",', flow, at, '},\n{"ph":"f","bp":"e",', flow,
        '"pid":', whole(_FIRST_DEVICE + numbers(ops, "device")), ',"tid":', whole(lanes),
        ',"ts":', us(numbers(ops, "start_ns")), "}",
    )  # fmt: skip


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
    times = np.concatenate((numbers(ops, "start_ns"), numbers(ops, "end_ns")))
    ones = np.ones(len(ops), np.int64)
    moved = np.fromiter((0 if op.engine == "cores" else op.bytes for op in ops), np.int64, len(ops))
    used_times, used = np.array(memory, np.int64).reshape(-1, 2).T
    yield from _counter("running", "operations", pid, times, np.concatenate((ones, -ones)))
    yield from _counter("in flight", "bytes", pid, times, np.concatenate((moved, -moved)))
    yield from _counter("memory", "bytes", pid, used_times, used)


def _counter(name: str, unit: str, pid: int, times: Ints, changes: Ints) -> Iterator[str]:
    """Yield the sum of all *changes* so far, whenever it changes."""
    order = np.argsort(times, kind="stable")
    times, totals = times[order], changes[order].cumsum()
    last = np.append(times[1:] != times[:-1], True)[: len(times)]  # of the changes at one time
    times, totals = times[last], totals[last]
    changed = totals != np.append(0, totals[:-1])
    times, totals = times[changed], totals[changed]
    for block in blocks(len(times)):
        lines = line(
            f'{{"ph":"C","name":"{name}","pid":{pid},"ts":', us(times[block]),
            f',"args":{{"{unit}":', whole(totals[block]), "}}",
        )  # fmt: skip
        yield joined(lines, ",\n")


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
