"""Differences of two recordings: what moved on the critical path, line by line, and why.

The path of each recording adds up to its makespan. So the differences of all lines add up to the difference of the
makespans, and each has its causes. Lines are aligned in their order by file and by the names of what they did, because
an edit moves the lines behind it.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from acl_py.causes.lines import Line, by_line, names_of, us, within
from acl_py.causes.path import Cause, critical_path, makespan_ns
from acl_py.recorded import not_known, notes_of
from acl_py.trace.rows.timeline import Timeline
from acl_py.trace.rows.windows import Window, worked
from acl_py.trace.views.shown import shown

MOST_CHANGES = 20  # lines of the program


@dataclass(frozen=True, slots=True)
class Change:
    """What changed in one line: *before* or *after* is "" if only the other recording has it.

    *ns* is how much longer the critical path is there, by cause; negative where it is shorter. *card* is the device and
    the rules of the later recording.
    """

    before: str
    after: str
    names: str
    ns: Counter[Cause]
    card: tuple[str, str] = ("", "")

    @property
    def text(self) -> str:
        """The change as plain text."""
        where = self.before or self.after or "between calls"
        if self.before and self.after and self.before != self.after:
            where = f"{self.before}, now {self.after}"
        only = "" if self.before == self.after else "" if self.before and self.after else self._only
        causes = ", ".join(f"{shown(cause, *self.card)} {signed(ns)}" for cause, ns in _by_size(self.ns))
        names = f": {self.names}" if self.names else ""
        return f"{signed(sum(self.ns.values())):>14}  {where}{only}{names}: {causes}"

    @property
    def _only(self) -> str:
        return " (only before)" if self.before else " (only after)"


class Difference:
    """The difference of two recordings, in the *windows* of both; by default from the first work to the last wait."""

    def __init__(self, before: Timeline, after: Timeline, old: Window | None = None, new: Window | None = None) -> None:
        self._runs = (before, old or worked(before)), (after, new or worked(after))
        self._has_windows = old is not None or new is not None
        self.before_ns, self.after_ns = (window.ns for _, window in self._runs)
        self.changes = self._changes()

    @property
    def ns(self) -> int:
        """How much longer the later run takes; negative if it is shorter."""
        return self.after_ns - self.before_ns

    def _changes(self) -> list[Change]:
        """Return what changed, the largest changes first. They add up to the difference."""
        (before, window), (after, later) = self._runs
        old, new = _lines(before, window), _lines(after, later)
        pairs: list[tuple[Line | None, Line | None]] = []
        matcher = SequenceMatcher(None, [_label(line) for line in old], [_label(line) for line in new], autojunk=False)
        for tag, a, b, c, d in matcher.get_opcodes():
            if tag == "equal":
                pairs += zip(old[a:b], new[c:d], strict=True)
            else:
                pairs += [(line, None) for line in old[a:b]] + [(None, line) for line in new[c:d]]
        found = [_change(*pair, (after.device, after.rules)) for pair in pairs]
        return sorted((change for change in found if any(change.ns.values())), key=_size)

    def text(self, most: int = MOST_CHANGES) -> str:
        """Return the difference as plain text, with *most* lines of the program."""
        verdict = f"{us(abs(self.ns))} {'less' if self.ns < 0 else 'more'}" if self.ns else "no difference"
        text = [f"{us(self.before_ns)} before, {us(self.after_ns)} after: {verdict}", *self._whole()]
        if self.changes:
            text.append("by line of the critical path, with causes:")
        text += [f"  {change.text}" for change in self.changes[:most]]
        if len(self.changes) > most:
            rest = sum(sum(change.ns.values()) for change in self.changes[most:])
            text.append(f"  {signed(rest):>14}  {len(self.changes) - most:,} more lines")
        return "\n".join([*text, *not_known(self._notes())])

    def _whole(self) -> Iterator[str]:
        """Say how long the runs took as a whole, if the time outside of the work has changed by 1 % or more."""
        if self._has_windows:
            return
        old, new = (makespan_ns(run) for run, _ in self._runs)
        outside = new - old - self.ns
        if outside and abs(outside) * 100 >= max(old, new):
            yield f"the whole runs: {us(old)} before, {us(new)} after: {signed(outside)} outside of that"

    def data(self, most: int = MOST_CHANGES) -> dict[str, Any]:
        """Return the difference for JSON (fields: docs/traces/explanations.md)."""
        return {
            "form": "acl_py diff",
            "version": 1,
            "before_us": self.before_ns / 1000,
            "after_us": self.after_ns / 1000,
            "more_us": self.ns / 1000,
            "whole_us": [makespan_ns(run) / 1000 for run, _ in self._runs],
            "windows": [window.what for _, window in self._runs],
            "lines": [
                {
                    "before": change.before,
                    "after": change.after,
                    "names": change.names,
                    "more_us": sum(change.ns.values()) / 1000,
                    "causes": {str(cause): ns / 1000 for cause, ns in _by_size(change.ns)},
                }
                for change in self.changes[:most]
            ],
            "notes": [*self._notes()],
        }

    def _notes(self) -> Iterator[str]:
        return _notes(*(run for run, _ in self._runs))


def diff_text(before: Timeline, after: Timeline) -> str:
    """Return the differences as plain text."""
    return Difference(before, after).text()


def _notes(before: Timeline, after: Timeline) -> Iterator[str]:
    """Yield the notes of both recordings; those of one alone say of which."""
    old, new = notes_of(before), notes_of(after)
    for note in dict.fromkeys((*old, *new)):
        yield note if note in old and note in new else f"{note} ({'only before' if note in old else 'only after'})"


def _lines(timeline: Timeline, window: Window) -> list[Line]:
    """Return the lines of *timeline* in the order of the program; the time between calls is the first."""
    path = within(window, critical_path(timeline))
    return sorted(by_line(timeline, path), key=lambda line: _place(line.site))


def _place(site: str) -> tuple[str, int]:
    file, _, line = site.rpartition(":")
    return file, int(line) if line.isdecimal() else 0


def _label(line: Line) -> tuple[str, tuple[str, ...]]:
    return _place(line.site)[0], tuple(line.names)


def _change(before: Line | None, after: Line | None, card: tuple[str, str]) -> Change:
    ns: Counter[Cause] = Counter()
    if after is not None:
        ns.update(after.ns)
    if before is not None:
        ns.subtract(before.ns)
    line = before or after
    assert line is not None, "a change is of a line"
    sites = ("" if before is None else before.site, "" if after is None else after.site)
    return Change(*sites, names_of(line), Counter({cause: each for cause, each in ns.items() if each}), card)


def _size(change: Change) -> int:
    return -abs(sum(change.ns.values()))


def _by_size(ns: Counter[Cause]) -> Sequence[tuple[Cause, int]]:
    return sorted(ns.items(), key=lambda each: -abs(each[1]))


def signed(ns: int) -> str:
    """Return a difference of times for people."""
    return f"{'+' if ns > 0 else ''}{us(ns)}"
