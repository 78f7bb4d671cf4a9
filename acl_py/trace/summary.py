"""A summary of a simulation for people: time, engines, streams, waits, leaks."""

from collections.abc import Sequence

from acl_py.runtime import Runtime
from acl_py.trace.recorder import Trace

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
        waits = [call.exit_ns - call.enter_ns for call in trace.calls if call.name in _WAITS]
        lines.append(f"  host: {len(trace.calls)} calls, {sum(waits) / 1000:,.1f} us in {len(waits)} synchronisations")
    left = len(runtime.unfinished())
    if left:
        lines.append(f"  {left} operations were queued and have not ended: synchronise before the end to see them run")
    lines += [f"  leak: {leak}" for leak in leaks]
    return "\n".join(lines)
