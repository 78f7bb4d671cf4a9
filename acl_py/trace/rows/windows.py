"""Windows: the times of a run that a report is about.

By default that is from the first call that queues work to the last wait. What a program prepares before, and gives back
behind, is outside.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from acl_py.calls.acts import Synchronised
from acl_py.trace.rows.columns import call_columns, op_columns
from acl_py.trace.rows.reading import queuing
from acl_py.trace.rows.timeline import Timeline
from device_model.errors import listed, printable
from device_model.scheduler import END_NS

_NAMED = 8  # marks that a message lists


class WindowError(ValueError):
    """A window that a run does not have; the message says what there is."""


class Window(NamedTuple):
    """The times *spans*, in order and apart; *what* they are, in words."""

    spans: tuple[tuple[int, int], ...]
    what: str

    @property
    def ns(self) -> int:
        """How long the spans are together."""
        return sum(end - begin for begin, end in self.spans)

    def within(self, begin_ns: int, end_ns: int) -> Iterator[tuple[int, int]]:
        """Yield the parts of the time from *begin_ns* to *end_ns* that are in the window, if they last."""
        for begin, end in self.spans:
            if max(begin, begin_ns) < min(end, end_ns):
                yield max(begin, begin_ns), min(end, end_ns)

    def has(self, begin_ns: int, end_ns: int) -> bool:
        """Whether some of the time from *begin_ns* to *end_ns*, both included, is in the window."""
        return any(begin <= end_ns and begin_ns <= end for begin, end in self.spans)


def whole(timeline: Timeline) -> Window:
    """Return the window of all that *timeline* has: until the host and all operations were done."""
    return Window(((0, _end_ns(timeline)),), "the whole run")


def worked(timeline: Timeline, until_ns: int | None = None) -> Window:
    """Return the window from the first call that queues work to the last wait, or to the last work if that is later.

    It is the whole run if nothing was queued, and lasts until the end of a run that failed. Calls that ended after
    *until_ns* do not count.
    """
    ops, calls = op_columns(timeline.ops), call_columns(timeline.calls)
    if not len(ops):
        return whole(timeline)
    by = queuing(ops, calls)
    begins = np.where(by >= 0, calls.enter_ns[by] if len(calls) else 0, ops.queued_ns)
    end = int(ops.end_ns.max())
    synchronises = np.array([isinstance(kind.act, Synchronised) for kind in calls.kinds], bool)
    is_wait = (calls.enter_ns < end) | synchronises[calls.kind]
    waits = calls.exit_ns[is_wait & (calls.exit_ns <= (END_NS if until_ns is None else until_ns))]
    end = max(end, int(waits.max(initial=0)), timeline.end_ns if timeline.error else 0)
    return Window(((int(begins.min()), end),), "from the first call that queues work to the last wait")


def between(timeline: Timeline, since_us: float | None, until_us: float | None) -> Window:
    """Return the window from *since_us* to *until_us*, in microseconds; None is the begin, or the end.

    Raises:
        WindowError: It is empty.
    """
    end_ns = _end_ns(timeline)
    begin = 0 if since_us is None else round(since_us * 1000)
    end = end_ns if until_us is None else min(round(until_us * 1000), end_ns)
    if not begin < end:
        raise WindowError(
            f"nothing lies between {begin / 1000:,.1f} and {end / 1000:,.1f} us: the run lasts from 0 to "
            f"{end_ns / 1000:,.1f} us"
        )
    return Window(((begin, end),), f"from {begin / 1000:,.1f} to {end / 1000:,.1f} us")


def marked(timeline: Timeline, name: str) -> Window:
    """Return the window of all that the program has annotated as *name*.

    Raises:
        WindowError: It has annotated nothing so.
    """
    lasting = [mark for mark in timeline.marks if mark.end_ns > mark.begin_ns]
    spans = sorted((mark.begin_ns, mark.end_ns) for mark in lasting if mark.name == name)
    if not spans:
        names = [repr(printable(each)) for each in dict.fromkeys(mark.name for mark in lasting)]
        there = f"there are {listed(names, _NAMED, ', ...')}" if names else "it has none: acl_py.annotate() makes them"
        raise WindowError(f"the run has no range {printable(name)!r}; {there}")
    times = "" if len(spans) == 1 else f", {len(spans):,} times"
    return Window(tuple(_apart(spans)), f"in {printable(name)!r}{times}")


def _apart(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield what *spans*, in the order of their begins, cover, as spans that do not touch."""
    begin, end = -1, -1
    for each in spans:
        if each[0] > end:
            if begin >= 0:
                yield begin, end
            begin, end = each
        end = max(end, each[1])
    yield begin, end


def _end_ns(timeline: Timeline) -> int:
    return max(timeline.end_ns, int(op_columns(timeline.ops).end_ns.max(initial=0)))
