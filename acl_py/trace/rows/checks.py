"""Checks of the rows of a trace from a file: what is true of each row of a recording, so that readers may rely on it.

files.py has checked the types of all values, and that the places of other rows exist.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from acl_py.trace.rows.hosts import Handover, Host
from acl_py.trace.rows.timeline import (
    ENGINES,
    PIPE_ORDER,
    Access,
    Call,
    CoreInstruction,
    Export,
    Extent,
    GraphLaunch,
    Handle,
    Mark,
    Memory,
    Migration,
    Operation,
    Ref,
    Sleep,
    StreamStep,
)  # fmt: skip

_DEVICES = 4096  # the most that a host has: `acl-py run --devices`


def wrong_row(lists: Mapping[str, Sequence[Any]]) -> tuple[str, int] | None:
    """Return the list and the number of the first row that no recording has; None if there is none."""
    for name, is_right in _CHECKS.items():
        for number, row in enumerate(lists[name]):
            if not is_right(row):
                return name, number
    kinds = [handle.kind for handle in lists["handles"]]
    for number, call in enumerate(lists["calls"]):
        if not all(_is_of_kind(getattr(call.act, field, None), kind, kinds) for field, kind in _NAMED.items()):
            return "calls", number
    for name, before in _BEFORE.items():
        place = _in_circle(lists[name], before)
        if place is not None:
            return name, place
    return None


def _is_of_kind(thing: object, kind: str, kinds: Sequence[str]) -> bool:
    """Return whether *thing*, of an act, is a handle of this *kind* if it is a handle."""
    return not isinstance(thing, Ref) or thing.handle < 0 or kinds[thing.handle] == kind


def _in_circle(rows: Sequence[Any], before: Callable[[Any], int | None]) -> int | None:
    """Return the number of a row that comes before itself, in which a reader would go round without end."""
    seen_from = [-1] * len(rows)  # the row from which the way has led to each
    for number in range(len(rows)):
        at: int | None = number
        while at is not None and at >= 0 and seen_from[at] < 0:
            seen_from[at] = number
            at = before(rows[at])
        if at is not None and at >= 0 and seen_from[at] == number:
            return at
    return None


def _operation(op: Operation) -> bool:
    return (
        0 <= op.queued_ns <= op.start_ns <= op.end_ns
        and op.engine == ENGINES.get(op.kind)
        and 0 <= op.device < _DEVICES
        and min(op.bytes, op.blocks, op.block_ns, op.by) >= 0
        and min(op.called_ns, op.ready_ns) >= -1
        and _extents(op.reads)
        and _extents(op.writes)
        and (op.cores is None or _finite(op.cores.busy_us.values()))
    )


def _finite(values: Iterable[float]) -> bool:
    return all(0 <= value < math.inf for value in values)


def _extents(extents: Iterable[Extent]) -> bool:
    return all(0 <= each.start <= each.stop for each in extents)


def _call(call: Call) -> bool:
    return (
        bool(call.caller.split())
        and 0 <= call.enter_ns <= call.exit_ns
        and min(call.waited_ns, call.line, call.by) >= 0
        and all(_sleep(sleep, call.enter_ns, call.exit_ns) for sleep in call.sleeps)
    )


def _sleep(sleep: Sleep, since_ns: int, until_ns: int) -> bool:
    return since_ns <= sleep.begin_ns <= sleep.end_ns <= until_ns and all(
        wait.waits is None and _sleep(wait, sleep.begin_ns, sleep.end_ns) for wait in sleep.waits or ()
    )


def _step(step: StreamStep) -> bool:
    return step.queued_ns >= 0 and 0 <= step.device < _DEVICES and (step.end_ns == -1 or step.end_ns >= step.queued_ns)


def _mark(mark: Mark) -> bool:
    return 0 <= mark.begin_ns <= mark.end_ns


def _memory(memory: Memory) -> bool:
    return (
        -1 <= memory.device < _DEVICES
        and memory.bytes >= 0
        and min(memory.begin_ns, memory.end_ns, memory.viewed_ns) >= -1
    )


def _handle(handle: Handle) -> bool:
    return -1 <= handle.device < _DEVICES


def _instruction(row: CoreInstruction) -> bool:
    kind, _, number = row.core.partition(" ")
    return (
        0 <= row.start_ns <= row.end_ns < math.inf
        and row.operation >= 0
        and row.bytes >= 0
        and row.pipe in PIPE_ORDER
        and bool(kind)
        and number.isascii()
        and number.isdigit()
    )


def _launch(launch: GraphLaunch) -> bool:
    times = launch.start_ns, launch.end_ns
    return launch.queued_ns >= 0 and 0 <= launch.device < _DEVICES and (times == (-1, -1) or 0 <= times[0] <= times[1])


def _migration(migration: Migration) -> bool:
    amounts = migration.to_device, migration.to_host, migration.mapped, migration.remote
    is_there = -1 <= migration.device < _DEVICES
    return is_there and 0 <= migration.begin_ns <= migration.end_ns and min(amounts) >= 0


def _access(access: Access) -> bool:
    return access.at_ns >= 0 and access.line >= 0 and _extents(access.extents)


def _export(export: Export) -> bool:
    return min(export.at_ns, export.line, export.by) >= 0 and _extents(export.extents)


def _host(host: Host) -> bool:
    return all(each.by >= 0 for each in host.callers)


def _handover(handover: Handover) -> bool:
    return 0 <= handover.given_ns <= handover.at_ns and handover.taker >= 0


_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    "ops": _operation,
    "calls": _call,
    "steps": _step,
    "marks": _mark,
    "buffers": _memory,
    "handles": _handle,
    "instructions": _instruction,
    "launches": _launch,
    "migrations": _migration,
    "accesses": _access,
    "exports": _export,
    "hosts": _host,
    "handovers": _handover,
}
# The kinds of handles that fields of acts have.
_NAMED = {"stream": "stream", "event": "event", "graph": "graph", "executable": "executable"}
# The row of the same list that was before each one, if there was one.
_BEFORE: Mapping[str, Callable[[Any], int | None]] = {"ops": attrgetter("after"), "steps": attrgetter("record")}
