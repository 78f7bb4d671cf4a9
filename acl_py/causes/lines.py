"""The critical path by line of the program, and as text."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from acl_py.causes.path import Cause, Part, critical_path, makespan_ns
from acl_py.causes.slack import slacks
from acl_py.trace.rows.columns import call_columns, op_columns
from acl_py.trace.rows.ranks import ranks_of
from acl_py.trace.rows.reading import as_timeline, short_site
from acl_py.trace.rows.timeline import Timeline
from acl_py.trace.rows.windows import Window, worked
from acl_py.trace.views.shown import shown

MOST_LINES = 12  # of the program in a report
_MOST_RANKS = 4  # that a line names

MEANING = {
    Cause.WORK: "operations ran",
    Cause.CALL: "the host was busy in calls",
    Cause.PROGRAM: "the host was between two calls",
    Cause.ASLEEP: "a call waited for something that is no operation",
    Cause.HOST: "operations were on their way from the host to their engine",
    Cause.ORDER: "operations waited for work ahead of them in their stream",
    Cause.EVENT: "operations waited for an event, a notify or a value",
    Cause.LEGACY: "operations waited because of the default-stream rule",
    Cause.ENGINE: "operations waited for a busy engine",
    Cause.GAP: "an engine paused between two operations",
    Cause.CORES: "operations waited for free cores",
    Cause.QUEUE: "operations waited behind work of another stream in a shared hardware queue",
    Cause.STAGING: "operations waited until the host had staged pageable memory",
    Cause.FAULT: "a fault rule delayed operations",
}


@dataclass(slots=True)
class Line:
    """What one line of the program has to do with the critical path.

    *ns* says how long the path is there, by cause. *names* counts the operations that the line queued, or if it queued
    none, its calls on the path. *slack_ns* is the smallest slack of the operations; None if it queued none. *ranks* are
    those of its operations on the path, if there are communicators. The time between calls has no line: its *site* is
    empty.
    """

    site: str
    ns: Counter[Cause] = field(default_factory=Counter)
    names: Counter[str] = field(default_factory=Counter)
    slack_ns: int | None = None
    ranks: set[int] = field(default_factory=set)

    @property
    def ranks_text(self) -> str:
        """The ranks, for people: "rank 3"."""
        if len(self.ranks) > _MOST_RANKS:
            return f"{len(self.ranks)} ranks"
        return f"rank{'s' * (len(self.ranks) > 1)} {', '.join(map(str, sorted(self.ranks)))}" if self.ranks else ""


class _Lines(dict[str, Line]):
    """Lines by their sites."""

    def __missing__(self, site: str) -> Line:
        line = self[site] = Line(site)
        return line


def by_line(timeline: Timeline, path: Sequence[Part]) -> list[Line]:
    """Return all lines that queued an operation or are on *path*, the critical path; those with the most time first."""
    timeline = as_timeline(timeline)
    ops, calls = op_columns(timeline.ops), call_columns(timeline.calls)
    lines = _Lines()
    least = np.full(len(ops.kinds), np.iinfo(np.int64).max)
    np.minimum.at(least, ops.kind, slacks(timeline, path))
    kinds, firsts, counts = np.unique(ops.kind, return_index=True, return_counts=True)
    for place in np.argsort(firsts):
        kind, slack = ops.kinds[kinds[place]], int(least[kinds[place]])
        line = lines[kind.site]
        line.names[kind.name] += int(counts[place])
        line.slack_ns = slack if line.slack_ns is None else min(line.slack_ns, slack)
    op_kinds, call_kinds = ops.kind.tolist(), calls.kind.tolist()
    ranks = ranks_of(timeline) if any(each.kind == "communicator" for each in timeline.handles) else {}
    for part in path:
        call = None if part.call is None else calls.kinds[call_kinds[part.call]]
        if part.op is not None:
            kind = ops.kinds[op_kinds[part.op]]
            line = lines[kind.site]
            if kind.device in ranks:
                line.ranks.add(ranks[kind.device])
        else:
            line = lines["" if call is None else short_site(call.file, call.line)]
        line.ns[part.cause] += part.ns
        if line.slack_ns is None and call is not None:
            line.names[call.called] += 1
    return sorted(lines.values(), key=lambda line: -line.ns.total())


def within(window: Window, path: Iterable[Part]) -> list[Part]:
    """Return the parts of *path* that are in *window*, cut where it begins and ends."""
    return [
        part._replace(begin_ns=begin, end_ns=end)
        for part in path
        for begin, end in window.within(part.begin_ns, part.end_ns)
    ]


def path_text(timeline: Timeline, window: Window | None = None, most: int = MOST_LINES) -> str:
    """Return the critical path as plain text: the total by cause, then by line, then the lines that have slack; no more
    than *most* lines of either. It is about *window*, by default from the first work to the last wait.
    """
    timeline = as_timeline(timeline)
    window = window or worked(timeline)
    path = within(window, critical_path(timeline))
    causes: Counter[Cause] = Counter()
    for part in path:
        causes[part.cause] += part.ns
    lines, whole_ns, makespan = by_line(timeline, path), makespan_ns(timeline), window.ns
    of = "" if makespan == whole_ns else f" of {us(whole_ns)}"
    text = [f"critical path: {us(makespan)}{of}, {window.what}"]
    names = {cause: shown(cause, timeline.device, timeline.rules) for cause in Cause}
    text += [
        f"  {_row(ns, makespan)}  {names[cause]:<8} {shown(MEANING[cause], timeline.device, timeline.rules)}"
        for cause, ns in causes.most_common()
    ]
    text += _on_path([line for line in lines if line.ns], names, makespan, most)
    text += _off_path([line for line in lines if not line.ns], most)
    return "\n".join(text)


def _on_path(lines: Sequence[Line], names: Mapping[Cause, str], makespan: int, most: int) -> Iterator[str]:
    if lines:
        yield "by line:"
    width = max((len(line.ranks_text) for line in lines[:most]), default=0)
    for line in lines[:most]:
        ranks = f"{line.ranks_text:<{width}}  " if width else ""
        causes = ", ".join(f"{names[cause]} {us(ns)}" for cause, ns in line.ns.most_common())
        what = ": ".join(part for part in (line.site, names_of(line)) if part) or "between calls"
        yield f"  {_row(line.ns.total(), makespan)}  {ranks}{what}: {causes}"
    if len(lines) > most:
        rest = sum(line.ns.total() for line in lines[most:])
        yield f"  {_row(rest, makespan)}  {len(lines) - most:,} more lines"


def _off_path(lines: Sequence[Line], most: int) -> Iterator[str]:
    if lines:
        yield "not on the path, with the time by which its operations could be longer:"
    for line in sorted(lines, key=lambda line: line.slack_ns or 0)[:most]:
        yield f"  {us(line.slack_ns or 0):>14}         {line.site}: {names_of(line)}"
    if len(lines) > most:
        yield f"  {len(lines) - most:,} more lines"


def names_of(line: Line) -> str:
    """Return what *line* did, for people: "layer, 3 h2d"."""
    return ", ".join(name if count == 1 else f"{count:,} {name}" for name, count in line.names.items())


def us(ns: int) -> str:
    """Return a time for people."""
    return f"{ns / 1000:,.1f} us"


def _row(ns: int, total: int) -> str:
    return f"{us(ns):>14} {100 * ns / total if total else 0:4.0f} %"
