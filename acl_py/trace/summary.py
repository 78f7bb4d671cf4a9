"""A summary of a simulation for people: time, engines, streams, waits, leaks."""

from collections.abc import Iterator, Sequence

from acl_py.runtime import Runtime
from acl_py.trace.recorder import CoreRun, Operation, Trace

_WAITS = ("SynchronizeStream", "SynchronizeDevice", "SynchronizeEvent")


def summarize(runtime: Runtime, trace: Trace | None, leaks: Sequence[str]) -> str:
    """The report of a simulation as plain text."""
    now = runtime.host_ns
    lines = [f"{runtime.profile.name}, rules {runtime.rules.name}: {now / 1000:,.1f} us of simulated time"]
    if trace is not None:
        busy: dict[str, list[int]] = {}
        for op in trace.ops:
            total = busy.setdefault(f"{op.engine} of device {op.device}", [0, 0, 0])
            total[0] += 1
            total[1] += op.end_ns - op.start_ns
            total[2] += op.bytes
        for engine, (count, time, nbytes) in sorted(busy.items()):
            share = f"{100 * time / now:.0f} %" if now else "-"
            lines.append(
                f"  {engine}: {count} operations, {time / 1000:,.1f} us ({share} of the time), {nbytes:,} bytes"
            )
        lines += _core_kernels(trace.ops)
        waits = [call.exit_ns - call.enter_ns for call in trace.calls if call.name in _WAITS]
        lines.append(f"  host: {len(trace.calls)} calls, {sum(waits) / 1000:,.1f} us in {len(waits)} synchronisations")
    left = len(runtime.unfinished())
    if left:
        lines.append(f"  {left} operations were queued and have not ended: synchronise before the end to see them run")
    lines += [f"  finding: {mistake}" for mistake in runtime.speaker.mistakes.values()]
    lines += [f"  leak: {leak}" for leak in leaks]
    return "\n".join(lines)


def _core_kernels(ops: Sequence[Operation]) -> Iterator[str]:
    """A line per core kernel: how busy the pipes of its cores were, on average, by the names of the profiler."""
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
        times = "1 launch" if len(launches) == 1 else f"{len(launches)} launches"
        yield f"  core kernel {name}: {times}, {total:,.1f} us: {shares}{note}"
