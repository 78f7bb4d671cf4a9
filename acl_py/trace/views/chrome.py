"""The Chrome trace: one JSON file that Perfetto and chrome://tracing open.

The host is a process with a lane of calls for each task or thread; slices inside a call show when its caller slept.
Marks of the program have lanes of their own, and strikes of fault rules are instants. Each device is a process with a
lane per engine and stream, with lanes for launches of graphs and for the records and waits of each stream, and with
counters. If the trace has
instructions of core kernels, there is also a lane per core and pipe. Arrows lead from each call to the operations that
it queued, and from each record to the operation that waited for it.

In the arguments of an operation, `correlation` is its number, and `stream_id` that of its stream. In those of a call,
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

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from operator import attrgetter
from pathlib import Path

import numpy as np

from acl_py.trace.rows.columns import (
    Bools,
    CallColumns,
    Ints,
    OpColumns,
    OpKind,
    StepColumns,
    blocks,
    call_columns,
    op_columns,
    step_columns,
)  # fmt: skip
from acl_py.trace.rows.reading import (
    ENGINE_ORDER,
    as_timeline,
    correlations,
    launching,
    short_site,
    step_spans,
    stream_ids,
    stream_order,
)  # fmt: skip
from acl_py.trace.rows.recorder import Trace
from acl_py.trace.rows.timeline import PIPE_ORDER, CoreInstruction, CoreRun, Mark, Memory, Migration, Strike, Timeline
from acl_py.trace.views.jsontext import Quoted, write_list
from acl_py.trace.views.lines import Part, joined, line, merged, only, texts, us, whole
from acl_py.trace.views.shown import shown
from acl_py.trace.views.tracks import Track, Tracks, host_tracks, place
from acl_py.whole_files import writing_text
from device_model.completions import Why

_HOST = 1  # a process; some viewers treat 0 specially
_FIRST_DEVICE = 2
_QUEUED = 1 << 32  # arrows from a call to its work: Perfetto numbers other arrows itself, from 0, among the same ids
_Changes = tuple[Ints, Ints]  # times in their order, and what changes at each
_REASONS = [why.name.lower() for why in sorted(Why)]


def write(trace: Trace | Timeline, path: str | Path) -> None:
    """Write *trace* to the file *path*, one event per line."""
    timeline = as_timeline(trace)
    with writing_text(path) as file:
        write_list(file, '{"displayTimeUnit": "ns", "traceEvents": [', _events(timeline), "]}")


def _events(timeline: Timeline) -> Iterator[str]:
    """Yield all events, those that belong together in one text: the names of processes and lanes first."""
    ops, calls, steps = op_columns(timeline.ops), call_columns(timeline.calls), step_columns(timeline.steps)
    memory, ids = _memory_in_use(timeline.buffers), stream_ids(ops)
    devices = sorted({*(kind.device for kind in ops.kinds), *memory, *(each.device for each in timeline.launches)})
    free = count(_FIRST_DEVICE + max(devices, default=0) + 1)
    faults, marks = Track(_HOST, "faults", free), Track(_HOST, "marks", free)
    pages = Track(_HOST, "pages of managed memory", free)
    graphs = {device: Track(_FIRST_DEVICE + device, "graphs", free) for device in devices}
    host, work = host_tracks(calls, _HOST, free), _work_tracks(ops.kinds, ids, timeline, free)
    events = _event_tracks(steps, free)
    pipes = _pipe_tracks(ops, timeline.instructions, free)
    lanes = np.zeros(len(ops), np.int32)
    of_ops, of_calls = correlations(ops, calls)
    quoted = Quoted()

    yield _process_name(_HOST, "host")
    for device in devices:
        yield _process_name(_FIRST_DEVICE + device, f"device {device}")
    yield from _calls(calls, ops, host, of_calls, quoted)
    yield from _marks(timeline.marks, marks, quoted)
    yield from _migrations(timeline.migrations, pages, quoted)
    yield from _launches(timeline, of_calls[launching(ops, calls)], graphs, quoted)
    yield from _operations(ops, work, ids, of_ops, lanes, quoted)
    yield from _steps(timeline, steps, ops, events, lanes, quoted)
    yield from _instructions(ops, timeline.instructions, pipes, quoted)
    for strike in timeline.strikes:
        yield _strike(strike, faults, quoted)
    for device in devices:
        yield from _counters(ops, device, memory.get(device, ()))
    tracks = [*([faults] if timeline.strikes else []), *([marks] if timeline.marks else [])]
    tracks += [pages] if timeline.migrations else []
    tracks += [track for track in graphs.values() if track.end >= 0]
    tracks += [*host.tracks, *work.tracks, *events.tracks, *pipes.values()]
    tracks.sort(key=lambda track: track.pid)
    yield from _lane_names(tracks, quoted)


# --- lanes


def _work_tracks(kinds: Sequence[OpKind], ids: Mapping[str, int], timeline: Timeline, numbers: Iterator[int]) -> Tracks:
    """Return the track of each device, engine and stream; *ids* has the streams in their order."""
    order = list(ids)
    keys = sorted(
        {(kind.device, kind.engine, kind.stream) for kind in kinds},
        key=lambda key: (key[0], ENGINE_ORDER.index(key[1]), order.index(key[2])),
    )
    labels = {engine: shown(engine, timeline.device, timeline.rules) for engine in ENGINE_ORDER}
    tracks = [Track(_FIRST_DEVICE + key[0], f"{labels[key[1]]} {key[2]}", numbers) for key in keys]
    return Tracks(tracks, np.array([keys.index((kind.device, kind.engine, kind.stream)) for kind in kinds], np.int64))


def _event_tracks(steps: StepColumns, numbers: Iterator[int]) -> Tracks:
    """Return the track of each device and stream for entries that take no engine, such as records and waits."""
    order = stream_order(steps)
    keys = sorted({(kind.device, kind.stream) for kind in steps.kinds}, key=lambda key: (key[0], order[key[1]]))
    tracks = [Track(_FIRST_DEVICE + key[0], f"events {key[1]}", numbers) for key in keys]
    return Tracks(tracks, np.array([keys.index((kind.device, kind.stream)) for kind in steps.kinds], np.int64))


def _pipe_tracks(
    ops: OpColumns, rows: Sequence[CoreInstruction], numbers: Iterator[int]
) -> dict[tuple[int, str, str], Track]:
    """Return the track of each device, core and pipe."""
    keys = sorted(
        {(ops.kinds[ops.kind[row.operation]].device, row.core, row.pipe) for row in rows},
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


def _calls(calls: CallColumns, ops: OpColumns, host: Tracks, arrows: Ints, quoted: Quoted) -> Iterator[str]:
    """Yield each call, and in it the times in which the caller slept."""
    heads = [f'{{"ph":"X","name":{quoted[kind.called]},"cat":"call","pid":{_HOST},"tid":' for kind in calls.kinds]
    sites = [f'"args":{{"site":{quoted[short_site(kind.file, kind.line)]}' for kind in calls.kinds]
    head, at_site = texts(heads), texts(sites)
    woken_by = texts([*(f'"waited_for":{quoted[_named(kind)]}' for kind in ops.kinds), ""])
    sleeps = calls.sleeps
    for block in blocks(len(calls)):
        kind, arrow = calls.kind[block], arrows[block].astype(np.int64)
        enter, exit_ = calls.enter_ns[block], calls.exit_ns[block]
        lanes = place(host.tracks, host.of[calls.caller[block]], enter, exit_)
        lines = line(
            head[kind], whole(lanes), ',"ts":', us(enter), ',"dur":', us(exit_ - enter), ",",
            only(arrow > 0, line('"bind_id":', whole(_QUEUED + arrow), ',"flow_out":true,')),
            at_site[kind],
            only(arrow > 0, line(',"correlation":', whole(arrow))),
            "}}",
        )  # fmt: skip
        first, last = np.searchsorted(sleeps.call, (block.start, block.stop)).tolist()
        if first < last:
            begin, end, after = sleeps.begin_ns[first:last], sleeps.end_ns[first:last], sleeps.after[first:last]
            behind = sleeps.call[first:last] - block.start
            asleep = line(
                f'{{"ph":"X","name":"asleep","cat":"sleep","pid":{_HOST},"tid":', whole(lanes[behind]),
                ',"ts":', us(begin), ',"dur":', us(end - begin),
                ',"args":{', woken_by[ops.kind_at(after)], "}}",
            )  # fmt: skip
            lines = merged(lines, asleep, behind)
        yield joined(lines, ",\n")


def _migrations(migrations: Sequence[Migration], track: Track, quoted: Quoted) -> Iterator[str]:
    for each in sorted(migrations, key=attrgetter("end_ns")):
        yield track.slice(
            f'"name":{quoted[f"pages for {each.name}"]},"cat":"pages"', each.begin_ns, each.end_ns,
            f'"args":{{"site":{quoted[each.site]},"to device":{each.to_device},"to host":{each.to_host},'
            f'"mapped":{each.mapped},"remote":{each.remote}}}',
        )  # fmt: skip


def _launches(timeline: Timeline, arrows: Ints, tracks: Mapping[int, Track], quoted: Quoted) -> Iterator[str]:
    """Yield the launches of graphs that have ended; *arrows* has the number of each that has operations."""
    ended = [(each, index) for index, each in enumerate(timeline.launches) if each.end_ns >= 0]
    for each, index in sorted(ended, key=lambda launch: launch[0].end_ns):
        arrow = int(arrows[index]) if index < len(arrows) else 0
        bound = f'"bind_id":{_QUEUED + arrow},"flow_in":true,' if arrow else ""
        bodies = f',"bodies that ran":{sum(each.taken)}' if each.taken else ""
        yield tracks[each.device].slice(
            f'"name":{quoted[each.label]},"cat":"graph"', each.start_ns, each.end_ns,
            f'{bound}"args":{{"correlation":{arrow},"stream":{quoted[each.stream]},'
            f'"queued_us":{each.queued_ns / 1000:.3f},"site":{quoted[each.site]}{bodies}}}',
        )  # fmt: skip


def _marks(marks: Sequence[Mark], track: Track, quoted: Quoted) -> Iterator[str]:
    for mark in sorted(marks, key=attrgetter("end_ns")):
        args = f'"args":{{"site":{quoted[mark.site]},"caller":{quoted[mark.caller]}}}'
        yield track.slice(f'"name":{quoted[mark.name]},"cat":"mark"', mark.begin_ns, mark.end_ns, args)


def _operations(
    ops: OpColumns, work: Tracks, ids: Mapping[str, int], arrows: Ints, lanes: Ints, quoted: Quoted
) -> Iterator[str]:
    """Yield each operation, and store its lane in *lanes*."""
    heads, streams, sites, named = [], [], [], []
    for each in ops.kinds:
        pid = _FIRST_DEVICE + each.device
        heads.append(f'{{"ph":"X","name":{quoted[each.name]},"cat":"{each.kind}","pid":{pid},"tid":')
        streams.append(f',"stream":{quoted[each.stream]},"stream_id":{ids[each.stream]},"bytes":')
        sites.append(f',"site":{quoted[each.site]},"waited_for":"')
        named.append(f": {quoted[_named(each)][1:-1]}")
    head, in_stream, at_site, other, reason = map(texts, (heads, streams, sites, [*named, ""], _REASONS))
    for block in blocks(len(ops)):
        kind, arrow, after = ops.kind[block], arrows[block].astype(np.int64), ops.after[block]
        start, end = ops.start_ns[block], ops.end_ns[block]
        lanes[block] = lane = place(work.tracks, work.of[kind], start, end)
        lines = line(
            head[kind], whole(lane), ',"ts":', us(start), ',"dur":', us(end - start), ",",
            only(arrow > 0, line('"bind_id":', whole(_QUEUED + arrow), ',"flow_in":true,')),
            '"args":{"correlation":', whole(np.arange(block.start + 1, block.stop + 1)),
            in_stream[kind], whole(ops.bytes[block]), ',"queued_us":', us(ops.queued_ns[block]),
            at_site[kind], reason[ops.why[block]], other[ops.kind_at(after)], '"',
            _all_cores(ops.cores, block, quoted),
            "}}",
        )  # fmt: skip
        yield joined(lines, ",\n")


def _named(kind: OpKind) -> str:
    return f"{kind.name} of {kind.stream} at {kind.site}"


def _steps(
    timeline: Timeline, steps: StepColumns, ops: OpColumns, events: Tracks, lanes: Ints, quoted: Quoted
) -> Iterator[str]:
    """Yield records, waits and the like, and arrows from a record to the first operation behind each of its waits."""
    ends, begins, order, behind = step_spans(timeline)
    rank = np.argsort(order)
    record = steps.record[order]
    waits = np.flatnonzero((record >= 0) & (behind >= 0))  # an arrow each, in the order of the lines of their records
    records = rank[record[waits]]
    by_record = np.argsort(records, kind="stable")
    held, records = behind[waits][by_record], records[by_record]
    heads, pids, sites = [], [], []
    for kind in steps.kinds:
        heads.append(f'{{"ph":"X","name":{quoted[f"{kind.kind} {kind.name}"]},"cat":"{kind.kind}",')
        pids.append(f'"pid":{_FIRST_DEVICE + kind.device},"tid":')
        sites.append(f',"site":{quoted[kind.site]}')
    head, pid, at_site, over = map(texts, (heads, pids, sites, ("", ',"over":"never"')))
    for block in blocks(len(steps)):
        rows, begin, end = order[block], begins[block], ends[block]
        which = steps.kind[rows]
        at = line(pid[which], whole(place(events.tracks, events.of[which], begin, end)), ',"ts":', us(begin))
        lines = line(
            head[which], at, ',"dur":', us(end - begin),
            ',"args":{"queued_us":', us(steps.queued_ns[rows]), at_site[which],
            over[(steps.end_ns[rows] < 0).astype(np.int64)], "}}",
        )  # fmt: skip
        first, last = np.searchsorted(records, (block.start, block.stop)).tolist()
        if first < last:
            to, behind_line = held[first:last], records[first:last] - block.start
            numbered = whole(np.arange(len(ops) + 1 + first, len(ops) + 1 + last))
            lines = merged(lines, _arrows(at[behind_line], ops, to, lanes[to], numbered), behind_line)
        yield joined(lines, ",\n")


def _arrows(at: Part, ops: OpColumns, to: Ints, lanes: Ints, numbered: Part) -> Part:
    """Return an arrow to each of the operations *to* from the place *at*, as two events in one line."""
    flow = line('"id":', numbered, ',"name":"waits for","cat":"waits for",')
    device = np.array([kind.device for kind in ops.kinds], np.int64)[ops.kind[to]]
    return line(
        '{"ph":"s",', flow, at, '},\n{"ph":"f","bp":"e",', flow,
        '"pid":', whole(_FIRST_DEVICE + device), ',"tid":', whole(lanes), ',"ts":', us(ops.start_ns[to]), "}",
    )  # fmt: skip


def _all_cores(cores: Mapping[int, CoreRun], block: slice, quoted: Quoted) -> str | Part:
    """Return more arguments of the core kernels among the operations *block*."""
    if not cores:
        return ""
    rows = map(cores.get, range(block.start, block.stop))
    return texts(["" if run is None else _cores(run, quoted) for run in rows])


def _cores(run: CoreRun, quoted: Quoted) -> str:
    """Return more arguments, for a core kernel."""
    args = [f'"blocks":{run.blocks}', *(f"{quoted[name + '_us']}:{round(us, 3)}" for name, us in run.busy_us.items())]
    if run.findings:
        args.append(f'"findings":[{",".join(map(quoted.__getitem__, run.findings))}]')
    if run.left_out:
        args.append(f'"instructions_left_out":{run.left_out}')
    return "," + ",".join(args)


def _instructions(
    ops: OpColumns,
    rows: Sequence[CoreInstruction],
    pipes: Mapping[tuple[int, str, str], Track],
    quoted: Quoted,
) -> Iterator[str]:
    for row in sorted(rows, key=attrgetter("end_ns")):
        track = pipes[ops.kinds[ops.kind[row.operation]].device, row.core, row.pipe]
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


def _counters(ops: OpColumns, device: int, memory: Sequence[tuple[int, int]]) -> Iterator[str]:
    """Yield how many operations run on a device, how many bytes its copies move, and how many of its *memory* are in
    use, whenever that changes.
    """
    pid = _FIRST_DEVICE + device
    is_own = np.array([kind.device == device for kind in ops.kinds], bool)
    moves = np.array([kind.engine != "cores" for kind in ops.kinds], bool)
    yield from _counter("running", "operations", pid, _running(ops, is_own, lambda own: np.ones(len(own), np.int64)))
    yield from _counter(
        "in flight", "bytes", pid, _running(ops, is_own, lambda own: ops.bytes[own] * moves[ops.kind[own]])
    )
    yield from _counter("memory", "bytes", pid, [_in_order(*np.array(memory, np.int64).reshape(-1, 2).T)])


def _running(ops: OpColumns, is_own: Bools, amount: Callable[[Ints], Ints]) -> Iterator[_Changes]:
    """Yield when the sum of the *amount* of all operations that run changes, and by how much; kinds that are not
    *is_own* do not count. No time is in two blocks.
    """
    early: list[_Changes] = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]  # in the time of a block before their own
    for times, changes, is_early in _blocks_of_changes(ops, is_own, amount):
        early.append((times[is_early], changes[is_early]))
    early_times, early_changes = _in_order(*map(np.concatenate, zip(*early, strict=True)))
    at = 0
    for times, changes, is_early in _blocks_of_changes(ops, is_own, amount):
        last = times.max(initial=-1)  # the last end, if any operation of the block counts
        until = max(at, int(np.searchsorted(early_times, last, side="right")))
        yield _in_order(
            np.append(times[~is_early], early_times[at:until]), np.append(changes[~is_early], early_changes[at:until])
        )
        at = until


def _blocks_of_changes(
    ops: OpColumns, is_own: Bools, amount: Callable[[Ints], Ints]
) -> Iterator[tuple[Ints, Ints, Bools]]:
    """Yield the changes of each block, and which of them are not behind the last end of the blocks before it.

    Operations are in the order of their ends, so few are, and the changes of a block are not before them.
    """
    last = -1
    for block in blocks(len(ops)):
        own = block.start + np.flatnonzero(is_own[ops.kind[block]])
        if len(own):
            times, amounts = np.append(ops.start_ns[own], ops.end_ns[own]), amount(own)
            yield times, np.append(amounts, -amounts), times <= last
            last = times.max()


def _in_order(times: Ints, changes: Ints) -> _Changes:
    order = np.argsort(times, kind="stable")
    return times[order], changes[order]


def _counter(name: str, unit: str, pid: int, changes: Iterable[_Changes]) -> Iterator[str]:
    """Yield the sum of all *changes* so far, whenever it changes. They are in the order of their times."""
    total = 0
    for times, more in changes:
        totals = total + more.cumsum()
        last = np.append(times[1:] != times[:-1], True)[: len(times)]  # of the changes at one time
        times, totals = times[last], totals[last]
        changed = totals != np.append(total, totals[:-1])[: len(totals)]
        total = int(totals[-1]) if len(totals) else total
        times, totals = times[changed], totals[changed]
        if len(times):
            yield joined(
                line(
                    f'{{"ph":"C","name":"{name}","pid":{pid},"ts":', us(times),
                    f',"args":{{"{unit}":', whole(totals), "}}",
                ),
                ",\n",
            )  # fmt: skip


def _memory_in_use(buffers: Sequence[Memory]) -> dict[int, list[tuple[int, int]]]:
    """Return for each device when its memory in use changes, and by how many bytes."""
    changes: dict[int, list[tuple[int, int]]] = {}
    for memory in buffers:
        if memory.space == "device" and memory.begin_ns >= 0:
            own = changes.setdefault(memory.device, [])
            own.append((memory.begin_ns, memory.bytes))
            if memory.end_ns >= 0:
                own.append((max(memory.begin_ns, memory.end_ns), -memory.bytes))
    return changes
