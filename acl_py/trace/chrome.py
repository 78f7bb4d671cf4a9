"""The Chrome trace: one JSON file that Perfetto and chrome://tracing open.

The host is a process with a lane of calls for each task or thread. Each device is a process with a lane per engine and
stream. An arrow leads from each call to the operation that it queued. A strike of a fault rule is an instant in a lane
of the host. If the trace has instructions of core kernels, the device also has a lane per core and pipe.

Viewers enforce three rules without an error message:

* If two slices of one lane overlap without nesting, the later one is dropped. So a slice goes to the first free lane of
  its kind. A second lane of calls is needed only if two tasks of one name wait at the same time.
* Ids of flows are integers, and the end of a flow needs `"bp": "e"` to bind to the slice that begins there.
* Times are floating-point microseconds. Counted from the start of the simulation they keep every nanosecond; counted
  from 1970 they would not.
"""

import json
from collections.abc import Sequence
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

from acl_py.trace.instructions import CoreInstruction
from acl_py.trace.pipes import PIPE_ORDER
from acl_py.trace.reading import ENGINE_ORDER, host_rows, queuing_calls, site_of_call, stream_order
from acl_py.trace.recorder import Call, Operation, Strike, Trace

Event = dict[str, Any]
_Slot = tuple[int, int]  # process, lane

_HOST = 1  # a process; some viewers treat 0 specially
_FIRST_DEVICE = 2
_FAULTS: _Slot = (_HOST, 0)  # the lane of strikes of fault rules


def write(trace: Trace, path: str | Path) -> None:
    """Write *trace* to the file *path*, one event per line."""
    with Path(path).open("w", encoding="utf-8") as file:
        file.write('{"displayTimeUnit": "ns", "traceEvents": [\n')
        file.write(",\n".join(json.dumps(event) for event in events(trace)))
        file.write("\n]}\n")


def events(trace: Trace) -> list[Event]:
    """Return the events of *trace*: names of processes and lanes, then slices and flows in order of time."""
    ops, calls = trace.ops, trace.calls
    names: list[Event] = []
    call_slots = _call_slots(calls, names)
    op_slots = _op_slots(ops, names)
    timed: list[tuple[float, Event]] = _core_slices(ops, trace.instructions, op_slots, names)
    for call, slot in zip(calls, call_slots, strict=True):
        timed.append((call.enter_ns, _call_slice(call, slot)))
    for op, slot in zip(ops, op_slots, strict=True):
        before = None if op.after is None else ops[op.after]
        timed.append((op.start_ns, _op_slice(op, before, slot)))
    if trace.strikes:
        names.append(_name("thread_name", _FAULTS, "faults"))
        timed += [(strike.at_ns, _strike(strike)) for strike in trace.strikes]
    # After the slices. The sort is stable: at one instant a slice must precede the flow that binds to it.
    for flow, (op, slot, index) in enumerate(zip(ops, op_slots, queuing_calls(ops, calls), strict=True), start=1):
        if index is not None:
            timed.append((calls[index].enter_ns, _flow("s", flow, calls[index].enter_ns, call_slots[index])))
            timed.append((op.start_ns, _flow("f", flow, op.start_ns, slot) | {"bp": "e"}))
    timed.sort(key=lambda entry: entry[0])
    return names + [event for _, event in timed]


def _call_slots(calls: Sequence[Call], names: list[Event]) -> list[_Slot]:
    """Return the slot of each call, and append the names of lanes to *names*."""
    names.append(_name("process_name", (_HOST, 0), "host"))
    rows = host_rows(calls)
    slots = [(0, 0)] * len(calls)
    base = 1
    for row in rows:
        lanes = _lanes([(calls[index].enter_ns, calls[index].exit_ns) for index in row.calls])
        for index, lane in zip(row.calls, lanes, strict=True):
            slots[index] = _HOST, base + lane
        for lane in range(max(lanes) + 1):
            label = _numbered("calls" if len(rows) == 1 else row.label, lane)
            names += [_name("thread_name", (_HOST, base + lane), label), _sort_index((_HOST, base + lane))]
        base += max(lanes) + 1
    return slots


def _op_slots(ops: Sequence[Operation], names: list[Event]) -> list[_Slot]:
    """Return the slot of each operation, and append the names of lanes to *names*."""
    groups: dict[tuple[int, int, int, str], list[int]] = {}
    order = stream_order(ops)
    for index, op in enumerate(ops):
        key = op.device, ENGINE_ORDER.index(op.engine), order[op.stream], op.stream
        groups.setdefault(key, []).append(index)
    slots = [(0, 0)] * len(ops)
    last_lane: dict[int, int] = {}
    for (device, engine, _, stream), indices in sorted(groups.items()):
        pid = _FIRST_DEVICE + device
        if pid not in last_lane:
            last_lane[pid] = 0
            names.append(_name("process_name", (pid, 0), f"device {device}"))
        base = last_lane[pid] + 1
        lanes = _lanes([(ops[index].start_ns, ops[index].end_ns) for index in indices])
        for index, lane in zip(indices, lanes, strict=True):
            slots[index] = pid, base + lane
        for lane in sorted(set(lanes)):
            names.append(_name("thread_name", (pid, base + lane), _numbered(f"{ENGINE_ORDER[engine]} {stream}", lane)))
            names.append(_sort_index((pid, base + lane)))
            last_lane[pid] = base + lane
    return slots


def _core_slices(
    ops: Sequence[Operation], rows: Sequence[CoreInstruction], op_slots: Sequence[_Slot], names: list[Event]
) -> list[tuple[float, Event]]:
    """Yield the instructions of core kernels with their times, in lanes below those of the device's engines."""
    groups: dict[tuple[int, tuple[str, int], int], list[int]] = {}
    for index, row in enumerate(rows):
        core_type, core = row.core.split()
        key = ops[row.operation].device, (core_type, int(core)), PIPE_ORDER.index(row.pipe)
        groups.setdefault(key, []).append(index)
    last_lane: dict[int, int] = {}
    for pid, lane in op_slots:
        last_lane[pid] = max(lane, last_lane.get(pid, 0))
    slices: list[tuple[float, Event]] = []
    for (device, (core_type, number), pipe), indices in sorted(groups.items()):
        pid = _FIRST_DEVICE + device
        base = last_lane[pid] + 1
        lanes = _lanes([(rows[index].start_ns, rows[index].end_ns) for index in indices])
        for index, lane in zip(indices, lanes, strict=True):
            slices.append((rows[index].start_ns, _instruction_slice(rows, index, (pid, base + lane))))
        for lane in sorted(set(lanes)):
            label = _numbered(f"{core_type} {number} {PIPE_ORDER[pipe]}", lane)
            names.append(_name("thread_name", (pid, base + lane), label))
            names.append(_sort_index((pid, base + lane)))
            last_lane[pid] = base + lane
    return slices


def _lanes(spans: Sequence[tuple[float, float]]) -> list[int]:
    """Return the first free lane for each span (beginning, end), so that no two spans of a lane overlap."""
    lanes = [0] * len(spans)
    busy: list[tuple[float, int]] = []  # a heap of (end, lane)
    free: list[int] = []
    for index in sorted(range(len(spans)), key=spans.__getitem__):
        begin, end = spans[index]
        while busy and busy[0][0] <= begin:
            heappush(free, heappop(busy)[1])
        lane = heappop(free) if free else len(busy)
        lanes[index] = lane
        heappush(busy, (end, lane))
    return lanes


def _numbered(name: str, lane: int) -> str:
    return f"{name} ({lane + 1})" if lane else name


def _us(ns: float) -> float:
    return ns / 1000


def _name(what: str, slot: _Slot, name: str) -> Event:
    return {"ph": "M", "name": what, "pid": slot[0], "tid": slot[1], "args": {"name": name}}


def _sort_index(slot: _Slot) -> Event:
    return {"ph": "M", "name": "thread_sort_index", "pid": slot[0], "tid": slot[1], "args": {"sort_index": slot[1]}}


def _slice(name: str, category: str, begin: float, end: float, slot: _Slot, args: Event) -> Event:
    pid, tid = slot
    span = {"ts": _us(begin), "dur": _us(end - begin)}
    return {"ph": "X", "name": name, "cat": category, "pid": pid, "tid": tid, **span, "args": args}


def _call_slice(call: Call, slot: _Slot) -> Event:
    return _slice(call.name, "call", call.enter_ns, call.exit_ns, slot, {"site": site_of_call(call)})


def _op_slice(op: Operation, before: Operation | None, slot: _Slot) -> Event:
    args: Event = {"bytes": op.bytes, "stream": op.stream, "queued_us": _us(op.queued_ns), "site": op.site}
    why = op.why.name.lower()
    args["waited_for"] = why if before is None else f"{why}: {before.name} of {before.stream} at {before.site}"
    if op.cores is not None:
        args |= {"blocks": op.cores.blocks} | {f"{name}_us": round(us, 3) for name, us in op.cores.busy_us.items()}
        if op.cores.findings:
            args["findings"] = list(op.cores.findings)
        if op.cores.left_out:
            args["instructions_left_out"] = op.cores.left_out
    return _slice(op.name, op.kind, op.start_ns, op.end_ns, slot, args)


def _instruction_slice(rows: Sequence[CoreInstruction], index: int, slot: _Slot) -> Event:
    row = rows[index]
    args: Event = {"block": row.block, "site": row.site}
    if row.bytes:
        args["bytes"] = row.bytes
    if row.waited_for is not None:
        setter = rows[row.waited_for]
        args["waited_for"] = f"{setter.name} of {setter.core} at {setter.site}"
    return _slice(row.name, f"pipe {row.kind}", row.start_ns, row.end_ns, slot, args)


def _strike(strike: Strike) -> Event:
    pid, tid = _FAULTS
    args = {"struck": strike.name, "site": strike.site, "made": strike.made}
    return {"ph": "i", "s": "p", "name": strike.rule, "cat": "fault", "pid": pid, "tid": tid, "ts": _us(strike.at_ns),
            "args": args}  # fmt: skip


def _flow(phase: str, flow: int, at: int, slot: _Slot) -> Event:
    return {"ph": phase, "id": flow, "name": "queues", "cat": "queues", "pid": slot[0], "tid": slot[1], "ts": _us(at)}
