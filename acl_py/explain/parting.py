"""Where two runs of one program part, on the model and on a card: the calls and operations whose times differ most.

They are grouped by name and source line. Of a call only the time counts in which the host was busy, because its wait is
a consequence of the rest. The time between calls is the program's own, that of the verbs, and on a card also
that of the recording.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from acl_py.calls.acts import Synchronised
from acl_py.causes.lines import us
from acl_py.causes.path import makespan_ns
from acl_py.explain.diff import signed
from acl_py.trace.rows.reading import short_site
from acl_py.trace.rows.timeline import Call, Timeline

_SHOWN = 10
_BETWEEN = "between calls"


class Difference(NamedTuple):
    """What a line did so many times on each, and the times of all in nanoseconds."""

    what: str
    counts: tuple[int, int]
    model_ns: int
    card_ns: int

    @property
    def ns(self) -> int:
        """How much longer the card took."""
        return self.card_ns - self.model_ns

    @property
    def text(self) -> str:
        """The difference as plain text."""
        there, here = self.counts
        times = f"{here:,} times" if there == here else f"{there:,} times on the model, {here:,} on the card"
        each = f", each {us(self.model_ns // there)} and {us(self.card_ns // here)}" if there and here else ""
        return f"{signed(self.ns):>14}  {self.what}, {times}{each}"


def differences(model: Timeline, card: Timeline) -> list[Difference]:
    """Return the differences of calls and operations, the largest first."""
    counts, times = zip(*map(_sums, (model, card)), strict=True)
    found = [
        Difference(what, (counts[0][what], counts[1][what]), times[0][what], times[1][what])
        for what in dict.fromkeys((*times[0], *times[1]))
        if what != _BETWEEN
    ]
    return sorted((each for each in found if each.ns), key=lambda each: -abs(each.ns))


def parting_text(model: Timeline, card: Timeline) -> str:
    """Return both makespans, and where the runs part, as plain text."""
    there, here = makespan_ns(model), makespan_ns(card)
    part = f", {100 * (there - here) / here:+.1f} %" if here else ""
    text = [f"{us(there)} on the model ({model.device}), {us(here)} on the card ({card.device}){part}"]
    found = differences(model, card)
    if found:
        text.append("where they part, by the time that calls and operations take on the card and not on the model:")
    text += [f"  {each.text}" for each in found[:_SHOWN]]
    if len(found) > _SHOWN:
        text.append(f"  {signed(sum(each.ns for each in found[_SHOWN:])):>14}  {len(found) - _SHOWN:,} others")
    between = [_sums(each)[1][_BETWEEN] for each in (model, card)]
    text.append(f"  {signed(between[1] - between[0]):>14}  between calls: the program, the verbs and the recording")
    return "\n".join(text)


def _sums(timeline: Timeline) -> tuple[Counter[str], Counter[str]]:
    """Return how often each thing was done, and in what time."""
    counts: Counter[str] = Counter()
    times: Counter[str] = Counter()
    for what, ns in _things(timeline):
        counts[what] += 1
        times[what] += ns
    return counts, times


def _things(timeline: Timeline) -> Iterator[tuple[str, int]]:
    ends: dict[tuple[str, int], int] = {}
    ops_ns = sorted(op.end_ns for op in timeline.ops)
    for call in timeline.calls:
        caller = call.caller, call.by
        yield _BETWEEN, max(0, call.enter_ns - ends.get(caller, 0))
        ends[caller] = call.exit_ns
        yield f"{call.called} in {short_site(call.file, call.line)}", _busy_ns(call, ops_ns)
    for op in timeline.ops:
        yield f"{op.name} on {op.engine}, from {op.site}", op.end_ns - op.start_ns


def _busy_ns(call: Call, ops_ns: Sequence[int]) -> int:
    """Return how long the host was busy in *call*: of a synchronisation, the time since the last operation ended."""
    if not isinstance(call.act, Synchronised):
        return call.exit_ns - call.enter_ns - call.waited_ns
    place = bisect_right(ops_ns, call.exit_ns)
    return call.exit_ns - max(call.enter_ns, ops_ns[place - 1] if place else 0)
