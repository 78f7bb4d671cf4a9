"""Pairs of measured programs that differ by one edit, and how the makespan changes: on the card, and replayed.

The pairs are found by comparing the programs. Ids of steps do not count, names are replaced by what is declared for
them, and a declaration that no step uses is left out. An edit is one of these:

* one value of one field is replaced by one other value, in as many steps as it may be: the size of copies, the time of
  kernels, the memory behind a buffer, the flags of a stream, another stream, a synchronous call instead of one that is
  queued;
* one step is added.

Only programs of one file are compared, because files were measured on different days and hosts.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any

from tests.conformance.criteria import is_capture, measured, replayed

FILES = ("semantics", "timelines", "staging", "gaps")
HOST = "the host waits"  # where a call that is not queued has no stream
_DECLARED = {"stream": "streams", "event": "events", "start": "events", "end": "events"} | dict.fromkeys(
    ("dst", "src", "buf"), "buffers"
)
_DEFAULTS = {"streams": {"flags": "blocking", "priority": 0}, "events": {"timing": True, "blocking": False}}
_COUNTED = {"buffers": ("space",), "streams": ("flags", "priority"), "events": ("timing", "blocking")}

Step = dict[str, str]  # values by field, as text


@dataclass(frozen=True, slots=True)
class Change:
    """What one edit does to the makespan, in microseconds: `there_us` on the card, `here_us` replayed.

    `is_certain`: each run of one program on the card was faster than each run of the other.
    """

    before: str
    after: str
    field: str
    edit: str
    there_us: float
    here_us: float
    is_certain: bool

    @property
    def is_sign_right(self) -> bool:
        """Does the replay predict what the card did: longer, or shorter?"""
        return self.there_us * self.here_us > 0

    @property
    def error(self) -> float:
        """The error of the predicted change, in percent of the measured one."""
        return 100 * abs(self.here_us - self.there_us) / abs(self.there_us)


@cache
def changes(name: str) -> list[Change]:
    """Return the change of each pair of programs of one data file that differ by one edit."""
    documents = [document for document in measured(name) if not is_capture(document)]
    plain = {document["id"]: normalised(document) for document in documents}
    return [
        _change(name, before, after, *edit)
        for before, after in combinations(documents, 2)
        if (edit := edit_between(plain[before["id"]], plain[after["id"]])) is not None
    ]


def normalised(document: dict[str, Any]) -> list[Step]:
    """Return the steps of *document* without ids, in which each name says what was declared, and a number.

    The numbers follow the order of first use among names with the same declaration. A call that is queued and its
    synchronous form are the same operation in another stream.
    """
    names: dict[tuple[str, str], str] = {}
    counts: Counter[str] = Counter()

    def said(field: str, value: Any) -> str:
        if (room := _DECLARED.get(field)) is None:
            return str(value)
        if (room, value) not in names:
            what = _declaration(document, room, value)
            counts[what] += 1
            names[room, value] = f"{what} {counts[what]}"
        return names[room, value]

    return [
        {"stream": HOST}
        | {field: said(field, value) for field, value in step.items() if field != "id"}
        | {"op": step["op"].removesuffix("_async")}
        for step in document["steps"]
    ]


def edit_between(before: list[Step], after: list[Step]) -> tuple[str, str] | None:
    """Return the one edit that makes *after* of *before*, as its field and as text; None if there is no such edit."""
    if len(before) == len(after):
        replaced = list(dict.fromkeys(_replaced(before, after)))
        if len(replaced) != 1:
            return None
        field, old, new = replaced[0]
        return field, f"{field}: {new} instead of {old}"
    added = _added(before, after) or _added(after, before)
    if added is None:
        return None
    return "step", f"{'with' if len(after) > len(before) else 'without'} {added['op']} ({added['stream']})"


def _replaced(before: list[Step], after: list[Step]) -> Iterator[tuple[str, str | None, str | None]]:
    for old, new in zip(before, after, strict=True):
        for field in {**old, **new}:
            if old.get(field) != new.get(field):
                yield field, old.get(field), new.get(field)


def _added(fewer: list[Step], more: list[Step]) -> Step | None:
    """Return the step without which *more* is *fewer*, if there is one."""
    if len(more) != len(fewer) + 1:
        return None
    return next((step for at, step in enumerate(more) if more[:at] + more[at + 1 :] == fewer), None)


def _declaration(document: dict[str, Any], room: str, name: str) -> str:
    """Return what *document* declares for *name*; names that are not declared speak for themselves."""
    if name not in document[room]:
        return name
    declared = _DEFAULTS.get(room, {}) | document[room][name]
    return json.dumps({key: declared[key] for key in _COUNTED[room]})


def _change(name: str, before: dict[str, Any], after: dict[str, Any], field: str, edit: str) -> Change:
    old, new = before["observed"], after["observed"]
    return Change(
        before["id"],
        after["id"],
        field,
        edit,
        new["makespan_us"] - old["makespan_us"],
        replayed(name, after["id"]).makespan_us - replayed(name, before["id"]).makespan_us,
        old["makespan_max_us"] < new["makespan_min_us"] or new["makespan_max_us"] < old["makespan_min_us"],
    )
