"""The names that streams, events and memory of a recording have in its program.

What calls of the run have made has its name from there. Everything else exists before the first call of the program,
which declares it.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from acl_py.calls.acts import Began, Made
from acl_py.calls.fields import STREAMS, TAKING, device_of_primary, primary_of
from acl_py.trace.rows.columns import call_columns
from acl_py.trace.rows.timeline import Extent, Handle, Ref, Timeline

Fields = dict[str, Any]  # of a step, or of a buffer, a stream or an event

NUMBERED = re.compile(r"allocation [0-9]+")  # memory without a name: messages name the line that made it
_GIVEN = re.compile(r"""[^'"]+ (['"])([^\\]+)\1""")
PAGEABLE = "pageable memory"  # all memory of the host that no call has made: which arrays it was is not recorded
_RESERVED = (*STREAMS, PAGEABLE)  # names that mean something in a program, as those of primary contexts do
_DEFAULTS: Mapping[str, object] = {
    "flags": "blocking", "priority": 0, "timing": True, "blocking": False, "dst_off": 0, "src_off": 0, "value": 0,
    "unit": 1, "device": 0, "limit_s": 0, "mode": 0, "default": 0,
}  # fmt: skip


class Names:
    """The names of what the run in *timeline* is about; `used` has those that exist before the first call."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self._handles = unique([_plain(handle.name) for handle in timeline.handles])
        self._buffers = unique([_plain(memory.name) for memory in timeline.buffers])
        self._made = set(self._names_made())
        self._used: dict[str, dict[str, Fields]] = {"buffers": {}, "streams": {}, "events": {}}
        self._pageable = 0  # bytes of memory of the host that no call has made

    def _names_made(self) -> Iterator[str]:
        """Return the names of the handles and buffers that calls of the run have made."""
        for kind in call_columns(self.timeline.calls).kinds:
            match kind.act:
                case Made(None, Ref(handle)) if self.timeline.handles[handle].kind != "graph":
                    yield self._handles[handle]
                case Began(Extent(buffer)):
                    yield self._buffers[buffer]

    def used(self) -> dict[str, dict[str, Fields]]:
        """Return the buffers, streams and events that the program has before its first call."""
        buffers = dict(self._used["buffers"])
        if self._pageable:
            buffers[PAGEABLE] = {"space": "pageable", "bytes": self._pageable}
        return {"buffers": buffers, "streams": self._declared_streams(), "events": self._used["events"]}

    def _declared_streams(self) -> dict[str, Fields]:
        """Return the streams that exist before the first call in the order in which they were made.

        Those that were never used count, too: the place of a stream decides about its hardware queues.
        """
        numbers = {handle.number: name for handle, name in zip(self.timeline.handles, self._handles, strict=True)
                   if name in self._used["streams"]}  # fmt: skip
        last = max(numbers, default=0)
        names = [numbers.get(number, f"unused stream {number}") for number in range(1, last + 1)]
        return {name: self._used["streams"].get(name, {}) for name in names}

    def handle(self, place: int) -> str:
        """Return the name of a handle. If no call has made it, it exists before the first call."""
        handle, name = self.timeline.handles[place], self._handles[place]
        if handle.kind == "stream" and not handle.made:
            return "per_thread" if handle.name.startswith("per_thread") else "legacy"
        if handle.kind == "stream" and not handle.number:
            return TAKING
        if handle.kind == "context" and handle.name == "primary":
            return primary_of(handle.device)
        if name not in self._made and handle.kind in ("stream", "event"):
            self._used[f"{handle.kind}s"][name] = without_defaults({**made_with(handle), "device": handle.device})
        return name

    def buffer(self, place: int) -> str:
        """Return the name of memory. If no call has made it, it exists before the first call."""
        if place < 0:
            self.need_pageable(1)
            return PAGEABLE
        name, memory = self._buffers[place], self.timeline.buffers[place]
        if name not in self._made:
            self._used["buffers"][name] = without_defaults(
                {"space": memory.space, "bytes": memory.bytes, "device": max(0, memory.device)}
            )
        return name

    def extents(self, extents: Iterable[Extent]) -> list[list[Any]]:
        """Return *extents* as the format writes them: the name of the memory, and from where to where."""
        return [[self.buffer(buffer), start, stop] for buffer, start, stop in extents]

    def made_before(self, place: int) -> str | None:
        """Return the name of the memory at *place*, if a call of the run has made it."""
        return self._buffers[place] if place >= 0 and self._buffers[place] in self._made else None

    def need_pageable(self, nbytes: int) -> None:
        """Let the memory of the host that no call has made have at least *nbytes*."""
        self._pageable = max(self._pageable, nbytes)


def without_defaults(fields: Fields) -> Fields:
    """Return *fields* without those that have the value which the format takes for a missing one."""
    return {name: value for name, value in fields.items() if name not in _DEFAULTS or value != _DEFAULTS[name]}


def made_with(handle: Handle) -> Fields:
    """Return the fields that say how *handle*, a stream or an event, was made."""
    options = handle.options
    if handle.kind == "stream":
        flags = "nonblocking" if options.get("nonblocking") else "blocking"
        return {"flags": flags, "priority": options.get("priority", 0)}
    return {"timing": options.get("timing", True), "blocking": options.get("blocking", False)}


def unique(names: list[str]) -> list[str]:
    """Return *names*, with numbers behind those that are there more than once."""
    count = Counter(names)
    seen: defaultdict[str, int] = defaultdict(int)
    unique = []
    for name in names:
        seen[name] += 1
        unique.append(name if count[name] == 1 else f"{name} ({seen[name]})")
    return unique


def _plain(name: str) -> str:
    """Return the name that the program gave: of "stream 'copies'" the part in quotes, unless the format uses it."""
    given = _GIVEN.fullmatch(name)
    if (
        given is None
        or given[2] in _RESERVED
        or NUMBERED.fullmatch(given[2])
        or device_of_primary(given[2]) is not None
    ):
        return name
    return given[2]
