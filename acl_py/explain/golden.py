"""Golden recordings: a run is compared with one that was saved and looked at.

The device, the rules, the operations of each stream and their order must be the same. Times may differ by a share of
the whole run. Lines of the program, and streams that do nothing, are not compared.
"""

from dataclasses import replace
from pathlib import Path

from acl_py.causes.path import makespan_ns
from acl_py.explain.diff import diff_text
from acl_py.trace.rows.files import TraceFileError, read_trace, save
from acl_py.trace.rows.timeline import Operation, Timeline

_UPDATE = "look at what changed, and then run pytest with --acl-update-golden"

__tracebackhide__ = True  # pytest shows the line of the test


def assert_like(timeline: Timeline, path: Path, tolerance: float = 0.0) -> None:
    """Assert that *timeline* is like the recording in the file *path*.

    Starts and ends of operations, and the end of the run, may differ by *tolerance*, a share of the saved run: 0.02 is
    2 %. With 0 they are the same to the nanosecond.

    Raises:
        AssertionError: It is not, or there is no such recording; the message has the first difference, and what moved
            on the critical path.
        ValueError: *tolerance* is negative or not a number.
    """
    if not tolerance >= 0:
        raise ValueError(f"tolerance must be a share, 0 or more, not {tolerance!r}")
    if not path.exists():
        raise AssertionError(f"there is no golden recording {path}: run pytest with --acl-update-golden to write it")
    try:
        golden = read_trace(path)
    except TraceFileError as error:
        raise AssertionError(f"{error}; {_UPDATE} to write it again") from error
    difference = _difference(golden, timeline, tolerance)
    if difference:
        raise AssertionError(
            f"the run is not like {path.name}: {difference}\n{diff_text(golden, timeline)}\n"
            f"if it should be so: {_UPDATE}"
        )


def save_golden(timeline: Timeline, path: Path) -> None:
    """Save *timeline* to the file *path*, as what other runs are compared with: without the folders that the program's
    files are in, and without their text. So it is the same wherever it is made.

    Raises:
        OSError: The file, or its folder, cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    calls = [call._replace(file=Path(call.file).name) for call in timeline.calls]
    accesses = [each._replace(file=Path(each.file).name) for each in timeline.accesses]
    exports = [each._replace(file=Path(each.file).name) for each in timeline.exports]
    save(replace(timeline, calls=calls, accesses=accesses, exports=exports, source=()), path)


def _difference(golden: Timeline, now: Timeline, tolerance: float) -> str:
    """Return the first difference in words; "" if there is none."""
    for what in ("device", "rules"):
        if getattr(golden, what) != getattr(now, what):
            return f"the {what} was {getattr(golden, what)} and is {getattr(now, what)}"
    old, new = _by_stream(golden), _by_stream(now)
    for stream in dict.fromkeys((*old, *new)):
        before, after = old.get(stream, []), new.get(stream, [])
        for number, (one, other) in enumerate(zip(before, after, strict=False), 1):
            if _what(one) != _what(other):
                return f"operation {number} of {stream} was {_said(one)} and is {_said(other)}"
        if len(before) != len(after):
            return f"{stream} had {len(before):,} operations and has {len(after):,}"
    return _moved(golden, now, tolerance)


def _moved(golden: Timeline, now: Timeline, tolerance: float) -> str:
    """Return which time differs by more than *tolerance*, of recordings of the same operations."""
    whole, makespan = makespan_ns(golden), makespan_ns(now)
    allowed = tolerance * whole
    old, new = _by_stream(golden), _by_stream(now)
    pairs = [pair for stream in old for pair in zip(old[stream], new[stream], strict=True)]
    for one, other in sorted(pairs, key=lambda pair: pair[0].start_ns):
        for what, before, after in (("started", one.start_ns, other.start_ns), ("ended", one.end_ns, other.end_ns)):
            if abs(after - before) > allowed:
                return f"{one.name} of {one.stream} {what} at {before / 1000:,.3f} us and does at {after / 1000:,.3f}"
    if abs(makespan - whole) > allowed:
        return f"it took {whole / 1000:,.3f} us and takes {makespan / 1000:,.3f}"
    return ""


def _by_stream(timeline: Timeline) -> dict[str, list[Operation]]:
    """Return the operations of each stream, as they were queued."""
    streams: dict[str, list[Operation]] = {}
    for op in sorted(timeline.ops, key=lambda op: op.queued_ns):
        streams.setdefault(op.stream, []).append(op)
    return streams


def _what(op: Operation) -> tuple[str, str, int]:
    return op.name, op.kind, op.bytes


def _said(op: Operation) -> str:
    return f"{op.name} of {op.bytes:,} bytes" if op.bytes else op.name
