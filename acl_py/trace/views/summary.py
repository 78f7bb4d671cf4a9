"""The report of a simulation as text: time, engines, streams, copies behind kernels, waits, leaks."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from acl_py.runtime.folds import Folds
from acl_py.trace.rows.overlaps import HiddenCopies, hidden_copies, overlap
from acl_py.trace.rows.reading import site_of_call
from acl_py.trace.rows.recorder import Trace
from acl_py.trace.rows.timeline import Call, CoreRun, Mark, Operation
from acl_py.trace.views.shown import shown
from device_model.compiled import CORE, IS_COMPILED

if TYPE_CHECKING:
    from acl_py.runtime.runtime import Runtime

SYNCHRONISATIONS = ("SynchronizeStream", "SynchronizeDevice", "SynchronizeEvent")
_LONGEST = 5  # the most places in the list of waits
_SHOWN = 20  # the most engines, streams or leaks in a list
_MOST_DEVICES = 4  # of which the report says how kernels hide their copies


def summarize(
    runtime: "Runtime",
    trace: Trace | None,
    findings: Iterable[object],
    leaks: Sequence[str],
    waits: tuple[str, ...] = SYNCHRONISATIONS,
    *,
    has_overlap: bool = False,
) -> str:
    """Return the report of a simulation as plain text. Calls whose names begin as one of *waits* synchronise.

    If it *has_overlap*, it says how much of the copies kernels have hidden.
    """
    now = runtime.host_ns
    lines = [f"{runtime.profile.name}, rules {runtime.rules.name}: {now / 1000:,.1f} us of simulated time"]
    if not runtime.values:
        lines.append("  values are off: no bytes have moved, and findings about bytes are off")
    lines += [f"  {line}" for line in runtime.state(Folds).lines]
    if trace is not None:
        ops, calls, card = trace.ops, trace.calls, (trace.device, trace.rules)
        lines += _use(ops, lambda op: f"{shown(op.engine, *card)} of device {op.device}", now)
        lines += _use(ops, lambda op: f"{_place(op.stream)} of device {op.device}", now)
        lines += _core_kernels(ops)
        if has_overlap:
            lines += [shown(line, *card) for line in _overlap(ops, trace.marks)]
        synchronising = [call for call in calls if call.name.startswith(waits)]
        lines += _waits(calls, synchronising)
        lines += _tasks(calls, synchronising)
    left = len(runtime.unfinished())
    if left:
        has = "has" if left == 1 else "have"
        lines.append(
            f"  {_count(left, 'operation')} {has} not ended: synchronise before the program ends, so that all work runs"
        )
    lines += [f"  finding: {mistake}" for mistake in findings]
    return "\n".join([*lines, *leak_lines(leaks), *([f"  core: {CORE}"] if IS_COMPILED else [])])


def leak_lines(leaks: Sequence[str]) -> Iterator[str]:
    """Yield a line for each of the first *leaks*, and one with the number of the others."""
    yield from (f"  leak: {leak}" for leak in leaks[:_SHOWN])
    if len(leaks) > _SHOWN:
        yield f"  and {len(leaks) - _SHOWN:,} more leaks"


def _use(ops: Sequence[Operation], user: Callable[[Operation], str], now: int) -> Iterator[str]:
    """Yield a line of totals for each engine or stream. Operations may overlap, so a share may exceed 100 %."""
    busy: dict[str, list[int]] = {}
    for op in ops:
        total = busy.setdefault(user(op), [0, 0, 0])
        total[0] += 1
        total[1] += op.end_ns - op.start_ns
        total[2] += op.bytes
    busiest = sorted(busy, key=lambda name: -busy[name][1])[:_SHOWN]
    for name in sorted(busiest, key=_in_order):
        count, time, nbytes = busy[name]
        share = f"{100 * time / now:.0f} %" if now else "-"
        yield f"  {name}: {_count(count, 'operation')}, {time / 1000:,.1f} us ({share} of the time), {nbytes:,} bytes"
    if len(busy) > _SHOWN:
        yield f"  and {len(busy) - _SHOWN:,} others that were less busy"


def _place(stream: str) -> str:
    """Return the name of the stream, or "outside the streams" for copies that are in no stream."""
    return stream.replace("no stream", "outside the streams") if stream.startswith("no stream") else stream


def _in_order(name: str) -> list[tuple[int, str]]:
    """Return a sort key that puts stream 2 before stream 10."""
    return [(int(word), "") if word.isdigit() else (-1, word) for word in name.split()]


def _waits(calls: Sequence[Call], waits: Sequence[Call]) -> Iterator[str]:
    """Yield how long the host synchronised, and the lines where it took longest."""
    total = sum(call.exit_ns - call.enter_ns for call in waits)
    yield f"  host: {_count(len(calls), 'call')}, {total / 1000:,.1f} us in {_count(len(waits), 'synchronisation')}"
    places: dict[str, list[int]] = {}
    for call in waits:
        entry = places.setdefault(f"{call.called}() at {site_of_call(call)}", [0, 0])
        entry[0] += 1
        entry[1] += call.exit_ns - call.enter_ns
    longest = sorted(places.items(), key=lambda entry: -entry[1][1])
    for place, (count, time) in longest[:_LONGEST]:
        yield f"    {place}: {'once' if count == 1 else f'{count:,} times'}, {time / 1000:,.1f} us"
    if len(longest) > _LONGEST:
        yield f"    and at {len(longest) - _LONGEST} other lines"


def _tasks(calls: Sequence[Call], waits: Sequence[Call]) -> Iterator[str]:
    """Yield a line for each task or thread that the program has named, those with the longest waits first."""
    named = Counter(call.caller for call in calls if call.caller.endswith(("'", '"')))
    synchronisations = Counter(call.caller for call in waits)
    waited: Counter[str] = Counter()
    for call in waits:
        waited[call.caller] += call.exit_ns - call.enter_ns
    for caller in sorted(named, key=lambda caller: -waited[caller])[:_SHOWN]:
        times = _count(synchronisations[caller], "synchronisation")
        yield f"  {caller}: {_count(named[caller], 'call')}, {waited[caller] / 1000:,.1f} us in {times}"
    if len(named) > _SHOWN:
        yield f"  and {len(named) - _SHOWN:,} other tasks and threads, which waited less"


def _core_kernels(ops: Sequence[Operation]) -> Iterator[str]:
    """Yield a line per core kernel: how busy the pipes of its cores were on average, by the profiler's names."""
    by_name: dict[str, list[tuple[Operation, CoreRun]]] = {}
    for op in ops:
        if op.cores is not None:
            by_name.setdefault(op.name, []).append((op, op.cores))
    for name, launches in by_name.items():
        total = sum(op.end_ns - op.start_ns for op, _ in launches) / 1000
        busy: dict[str, float] = {}
        for _, cores in launches:
            for what, us in cores.busy_us.items():
                busy[what] = busy.get(what, 0) + us
        shares = ", ".join(f"{what} {us:,.1f} us" for what, us in busy.items())
        left_out = sum(cores.left_out for _, cores in launches)
        note = f"; {left_out:,} instructions are not in the trace" if left_out else ""
        times = _count(len(launches), "launch", "launches")
        yield f"  kernel {name}: {times}, {total:,.1f} us: {shares}{note}"


def _overlap(ops: Sequence[Operation], marks: Iterable[Mark]) -> Iterator[str]:
    """Yield for each device with copies and computation how much of the copies is hidden, by stream and stage, and two
    ratios of its computation, with what makes them differ. Of many devices, those come whose copies are least hidden.
    """
    by_device: dict[int, list[HiddenCopies]] = {}
    for row in hidden_copies(ops, marks):
        by_device.setdefault(row.device, []).append(row)
    bare = sorted(by_device, key=lambda device: by_device[device][0].hidden_ns - by_device[device][0].copy_ns)
    for device in sorted(bare[:_MOST_DEVICES]):
        whole, *rows = by_device[device]
        yield f"  copies of device {device} behind its cores: {_hidden(whole)} could be"
        if len(rows) > 1 or rows[0].stage:
            for row in rows[:_SHOWN]:
                stage = f" in {row.stage!r}" if row.stage else ""
                yield f"    {_place(row.stream)}{stage}: {_hidden(row)}"
        if len(rows) > _SHOWN:
            yield f"    and {len(rows) - _SHOWN:,} other streams and stages"
        first, between, last = map(_us, (whole.before_ns, whole.between_ns, whole.behind_ns))
        yield f"    not hidden: {first} before the first work of the cores, {between} between, {last} behind the last"
        shared = overlap([op for op in ops if op.device == device])
        compute, copy, computing, span = map(
            _us, (shared.compute_ns, shared.copy_ns, shared.computing_ns, shared.span_ns)
        )
        durations, clock = 100 * shared.pipeline_efficiency, 100 * shared.overlapped_efficiency
        yield f"    compute / (compute + transfer): {durations:.0f} %, {compute} / ({compute} + {copy})"
        yield f"    by the clock: {clock:.0f} %, the cores computed for {computing} of {span}"
        beside, idle = _us(shared.together_ns), _us(shared.idle_ns)
        yield f"      which is that sum less {beside} that ran beside other work, and {idle} more in which nothing ran"
    if len(bare) > _MOST_DEVICES:
        yield f"  and the copies of {len(bare) - _MOST_DEVICES:,} other devices, of which less is not hidden"


def _hidden(row: HiddenCopies) -> str:
    return (
        f"{_us(row.hidden_ns)} of {_us(row.copy_ns)} hidden ({100 * row.hidden:.0f} %), at most {_us(row.possible_ns)}"
    )


def _us(ns: int) -> str:
    return f"{ns / 1000:,.1f} us"


def _count(number: int, one: str, several: str = "") -> str:
    return f"{number:,} {one if number == 1 else several or one + 's'}"
