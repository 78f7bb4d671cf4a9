"""The fields of steps: which values each of them may have, in words and as a check."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from device_model.collectives.calls import CollectiveKind, ReduceOp
from device_model.scheduler import END_NS

REQUIRED = object()
LONGEST = 200  # characters of a name
TAKING = "nodes"  # the stream whose work becomes one node of a graph, in a capture without costs of its own
STREAMS = ("legacy", "per_thread", TAKING)  # that exist in each program
_PRIMARY = re.compile(r"primary(?: ([1-9][0-9]{0,8}))?")  # contexts that exist in each program, by their devices
A_NAME = f"a name of 1 to {LONGEST} characters without lone surrogates"


def primary_of(device: int) -> str:
    """Return the name of the primary context of *device*: "primary" for device 0, "primary 1" for device 1."""
    return f"primary {device}" if device else "primary"


def device_of_primary(name: str) -> int | None:
    """Return the device whose primary context programs call *name*, or None if that is no such name."""
    found = _PRIMARY.fullmatch(name)
    return None if found is None else int(found[1] or 0)


@dataclass(frozen=True, slots=True)
class Field:
    """The values that a field may have. *refers* is the kind of thing that it names, *makes* the kind it creates, and
    *space* where memory lies that it creates. A list of extents names a buffer in each, a list of objects what their
    *parts* name.
    """

    what: str
    fits: Callable[[Any], bool]
    default: Any = REQUIRED
    refers: str | None = None
    makes: str | None = None
    space: str = ""
    parts: "Mapping[str, Field] | None" = None

    def mentions(self, value: Any) -> Iterator[tuple[str, str]]:
        """Yield the kind and the name of each thing that *value* names."""
        if self.refers is not None:
            yield from ((self.refers, name) for name in self.names(value))
        if self.parts is not None:
            for each in value:
                for part, inner in each.items():
                    yield from self.parts[part].mentions(inner)

    def renamed(self, value: Any, names: Mapping[tuple[str, str], str]) -> Any:
        """Return *value* with other *names*, by kind and old name, of the things that it names."""
        parts = self.parts
        if parts is not None:
            return [{part: parts[part].renamed(inner, names) for part, inner in each.items()} for each in value]
        if self.refers is None or value is None:
            return value
        if isinstance(value, str):
            return names.get((self.refers, value), value)
        return [[names.get((self.refers, name), name), *rest] for name, *rest in value]

    def names(self, value: Any) -> Iterable[str]:
        """Return what *value* names."""
        if self.refers is None or value is None:
            return ()
        return (value,) if isinstance(value, str) else (first for first, *_ in value)


def is_whole(value: object, least: int, most: int = 2**63 - 1) -> bool:
    """Whether *value* is a whole number from *least* to *most*."""
    return type(value) is int and least <= value <= most


def is_amount(value: object) -> bool:
    """Whether *value* is a number of microseconds."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= END_NS / 1000


def is_text(value: object) -> bool:
    """Whether *value* can be a name."""
    return isinstance(value, str) and 1 <= len(value) <= LONGEST and not any("\ud800" <= c <= "\udfff" for c in value)


def are_extents(value: object) -> bool:
    """Whether *value* is a list of [buffer, first byte, end]."""
    return isinstance(value, list) and all(
        isinstance(each, list)
        and len(each) == 3
        and is_text(each[0])
        and is_whole(each[1], 0)
        and is_whole(each[2], each[1])
        for each in value
    )


def are_releases(value: object) -> bool:
    """Whether *value* is a list of [microseconds, cores]."""
    return isinstance(value, list) and all(
        isinstance(each, list) and len(each) == 2 and is_amount(each[0]) and is_whole(each[1], 1) for each in value
    )


def are_runs(value: object) -> bool:
    """Whether *value* is a list of [microseconds, releases]."""
    return isinstance(value, list) and all(
        isinstance(each, list) and len(each) == 2 and is_amount(each[0]) and are_releases(each[1]) for each in value
    )


def one_of(*values: str, default: Any = REQUIRED) -> Field:
    """Return a field that has one of *values*."""
    listed_ = ", ".join(f'"{value}"' for value in values[:-1])
    return Field(f'{listed_} or "{values[-1]}"', lambda value: value in values, default)


def named(kind: str, *, makes: bool = False) -> Field:
    """Return a field with the name of a thing of a *kind*, which is there already or which the step *makes*."""
    return Field(f"the name of a {kind}", is_text, refers=None if makes else kind, makes=kind if makes else None)


STREAM, EVENT, MEMORY = named("stream"), named("event"), named("buffer")
BYTES = Field("a number of bytes, 1 to 2**63 - 1", lambda value: is_whole(value, 1))
COUNT = Field("a number of bytes, 0 to 2**63 - 1", lambda value: is_whole(value, 0))
OFFSET = Field("a number of bytes, 0 to 2**63 - 1", lambda value: is_whole(value, 0), 0)
ADDRESS = Field("an address: a whole number, 0 to 2**64 - 1", lambda value: is_whole(value, 0, 2**64 - 1))
US = Field("microseconds: a number from 0 to 4.6e15, all of simulated time", is_amount)
INT = Field("a whole number of 64 bits", lambda value: is_whole(value, -(2**63)))
INT32 = Field("a whole number of 32 bits", lambda value: is_whole(value, -(2**31), 2**31 - 1))
FLAGS = one_of("blocking", "nonblocking", default="blocking")
ZERO = replace(INT, default=0)
COUNTED = replace(INT32, default=1)
TIMING = Field("true or false", lambda value: isinstance(value, bool), True)
BLOCKING = replace(TIMING, default=False)
NOTIFY, CONTEXT = named("notify"), named("context")
LABEL = Field(A_NAME, is_text, None)
EXTENTS = Field(
    "a list of [buffer, start, stop], whole numbers with start at most stop", are_extents, (), refers="buffer"
)
KIND = one_of("h2h", "h2d", "d2h", "d2d", "default", default="default")
AGAIN = Field(A_NAME, is_text, None, refers="buffer")
DEVICE = Field("the number of a device, 0 to 2**31 - 1", lambda value: is_whole(value, 0, 2**31 - 1), 0)
LIMIT = Field("milliseconds: a whole number, 1 to 2**31 - 1", lambda value: is_whole(value, 1, 2**31 - 1), None)
SECONDS = Field("seconds: a whole number, 0 (no limit) to 2**32 - 1", lambda value: is_whole(value, 0, 2**32 - 1), 0)
COMPARE = one_of("geq", "eq", "and", "nor", default="geq")
CLASS = one_of("default", "flag", "snapshot", default="default")
WORD = Field("a whole number, 0 to 2**64 - 1", lambda value: is_whole(value, 0, 2**64 - 1))
NO_STREAM = Field("the name of a stream", is_text, None, refers="stream")  # ignored: calls that wait have no stream
GRAPH, EXECUTABLE = named("graph"), named("executable")
NEW_GRAPH, NEW_EVENT = named("graph", makes=True), named("event", makes=True)
AFTER = Field("a list of names of nodes", lambda value: isinstance(value, list) and all(map(is_text, value)), ())
BEHIND = Field(
    "a list of the places of nodes in the graph, from 0",
    lambda value: isinstance(value, list) and all(is_whole(each, 0, 2**31 - 1) for each in value),
    (),
)
NODE = replace(named("node", makes=True), default=None)
BODIES = Field(
    "a list of names for graphs", lambda value: isinstance(value, list) and all(map(is_text, value)), (), makes="graph"
)
COMMUNICATORS = Field(
    "a list of names, one for each rank",
    lambda value: isinstance(value, list) and len(value) > 0 and all(map(is_text, value)),
    makes="communicator",
)
DEVICES = Field(
    "a list of numbers of devices, one for each rank",
    lambda value: isinstance(value, list) and len(value) > 0 and all(is_whole(each, 0, 2**31 - 1) for each in value),
)
RANK = Field("a whole number, 0 to 2**31 - 1", lambda value: is_whole(value, 0, 2**31 - 1))
_JOINS = {  # what a rank calls; all but the first three may be left out
    "kind": one_of(*(kind.value for kind in CollectiveKind)),
    "comm": named("communicator"),
    "stream": STREAM,
    "count": COUNT,
    "type": one_of("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16",
                   "float32", "float64"),
    "reduction": one_of(*(reduction.value for reduction in ReduceOp)),
    "root": RANK,
    "peer": RANK,
    "reads": EXTENTS,
    "writes": EXTENTS,
}  # fmt: skip


def are_calls(value: object) -> bool:
    """Whether *value* is a list of what ranks call."""
    return (
        isinstance(value, list)
        and len(value) > 0
        and all(
            isinstance(each, dict)
            and {"kind", "comm", "stream"} <= each.keys() <= _JOINS.keys()
            and all(_JOINS[name].fits(part) for name, part in each.items())
            for each in value
        )
    )


CALLS = Field(
    "a list of objects with kind, comm and stream, and with count, type, reduction, root, peer, reads and writes",
    are_calls,
    parts=_JOINS,
)
BLOCKS = Field("a number of blocks, 1 to 2**63 - 1", lambda value: is_whole(value, 1), 1)
TOUCHED = {"name": LABEL, "reads": EXTENTS, "writes": EXTENTS}
SQUARE = {
    "dst": MEMORY, "src": MEMORY, "dpitch": COUNT, "spitch": COUNT, "width": COUNT, "height": COUNT,
}  # fmt: skip
COPY = {"dst": MEMORY, "src": MEMORY, "bytes": COUNT, "dst_off": OFFSET, "src_off": OFFSET}
REPEATED = {"until": BLOCKING, "work_us": replace(US, default=0), "sleep_us": replace(US, default=0)}
UNIT = Field("1, 2 or 4 bytes", lambda value: value in (1, 2, 4) and not isinstance(value, bool), 1)
FILL = {"dst": MEMORY, "bytes": COUNT, "value": ZERO, "dst_off": OFFSET, "unit": UNIT}
IN_ROWS = {"dst_off": OFFSET, "src_off": OFFSET, "kind": KIND}
WHERE = Field(
    '"host", "device" (device 0) or the number of a device',
    lambda value: value in ("host", "device") or is_whole(value, 0, 2**31 - 1),
)
SUBJECTS = ("ReadMostly", "PreferredLocation", "AccessedBy")
ADVICE = tuple(f"{verb}{subject}" for subject in SUBJECTS for verb in ("Set", "Unset"))
ATTRIBUTES = (*SUBJECTS, "LastPrefetchLocation")


def allocate(space: str) -> dict[str, Field]:
    """Return the fields of a step that makes memory in *space*."""
    return {"name": replace(named("buffer", makes=True), space=space), "bytes": BYTES}
