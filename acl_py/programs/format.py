"""Stream programs: JSON files of buffers, streams, events and the calls that one host thread makes.

Measured programs are stored in this form. A bug can be reported in it, and a schedule tried without writing code.
`load` reads a file and checks every program in it; an error names the program, the step and the field. `replay.py` runs
programs. docs/programs.md describes the format, and `OPS` below is the same as a table.

A step is an act on names: each row of the table says what the step does, with the names of its fields in place of
things. So `Step.act` gives the act of a step, and `written` the fields of the step that does an act.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from acl_py.calls.acts import (
    Act,
    Asked,
    Awaited,
    Began,
    CallbackBegan,
    CaptureBegan,
    CaptureEnded,
    Cleared,
    Completed,
    Destroyed,
    Ended,
    GraphLaunched,
    GraphUpdated,
    HandedOver,
    Made,
    NodeAdded,
    Plain,
    Queued,
    Recorded,
    Set,
    Slept,
    Synchronised,
    Waited,
    leaves,
)  # fmt: skip
from acl_py.programs.documents import DocumentError, Odd, read, short
from device_model.errors import listed, printable
from device_model.scheduler import END_NS

_REQUIRED = object()
STEP = "step:"  # how the lines of programs begin that were not recorded
_LINE = re.compile(r".+:[0-9]{1,9}")  # such as "file.py:12"
_LONGEST = 200  # characters of a name
_A_NAME = f"a name of 1 to {_LONGEST} characters without lone surrogates"


class ProgramError(ValueError):
    """A program that cannot be run. The message names the program, the place in it, and the problem."""


class Name(NamedTuple):
    """What an act of a step is on: a thing of a *kind* ("stream", "event" ...) by its *name* in the program. Work has
    no name, and its kind is "copy", "fill", "kernel", "function" or "prefetch".
    """

    kind: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One call: its place, its op, the id of the operation that it queues, its fields with the defaults filled in, and
    the name of the host thread that makes it (None: the main one). *task* is the task that the step belongs to (None:
    the main one), and *after* the index of a step that must have ended before. *site* is the line of a recorded program
    that made the call, as "file.py:12".
    """

    index: int
    op: str
    id: str | None
    fields: Mapping[str, Any]
    thread: str | None = None
    task: str | None = None
    after: int | None = None
    site: str = ""

    @property
    def line(self) -> str:
        """Its line as "file.py:12"; that of a program which was not recorded is "step:12"."""
        return self.site if _LINE.fullmatch(self.site) else f"{STEP}{self.index}"

    @property
    def act(self) -> Act[Any]:
        """What it does, on names."""
        return _ROWS[self.op].act(self.fields)

    @property
    def work(self) -> str:
        """The kind of the work that it queues, or lets the host make; empty if there is none."""
        act = self.act
        return act.work.kind if isinstance(act, Queued | Completed) and isinstance(act.work, Name) else ""

    @property
    def is_kernel(self) -> bool:
        """Whether it launches a kernel whose time and bytes it says."""
        return "blocks" in self.fields

    @property
    def makes_in(self) -> str:
        """Where the memory lies that it makes; empty if it makes none."""
        return OPS[self.op].get("name", _LABEL).space

    @property
    def is_query(self) -> bool:
        """Whether the code that it returns is an answer, and not a failure of its own."""
        act = self.act
        return isinstance(act, Asked) and act.answer is not None

    @property
    def gives_way(self) -> bool:
        """Whether its task lets others go on behind it."""
        return self.op == "give_way"


@dataclass(frozen=True, slots=True)
class Program:
    """A checked program. The `buffers`, `streams` and `events` exist before its first call. The host takes `gap_ns`
    between two calls; None: as the profile says. `notes` say what a recorded program could not keep of the run.
    """

    id: str
    buffers: Mapping[str, Mapping[str, Any]]
    streams: Mapping[str, Mapping[str, Any]]
    events: Mapping[str, Mapping[str, Any]]
    steps: tuple[Step, ...]
    gap_ns: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def is_recorded(self) -> bool:
        """Whether it was made from a run: its steps have the lines of that run."""
        return any(not step.line.startswith(STEP) for step in self.steps)

    def buffers_in(self, *spaces: str) -> set[str]:
        """Return the names of all memory in *spaces*: what is there before the first call, and what calls make."""
        made = {step.fields["name"] for step in self.steps if step.makes_in in spaces}
        return made | {name for name, options in self.buffers.items() if options["space"] in spaces}

    def devices(self) -> list[int]:
        """Return for each step the device of the stream that it names, or the current one of its task."""
        current: dict[str | None, int] = {}
        contexts = {"primary": 0}
        streams = {name: options["device"] for name, options in self.streams.items()}
        devices = []
        for step in self.steps:
            here = step.fields.get("device", current.get(step.task, 0))
            match step.act:
                case Made(_, Name("context", context)):
                    contexts[context] = here
                case Plain((Name("context", context),)):
                    here = contexts.get(context, here)
                case Made(_, Name("stream", stream)):
                    streams[stream] = here
            current[step.task] = here
            devices.append(streams.get(str(step.fields.get("stream")), here))
        return devices


@dataclass(frozen=True, slots=True)
class _Field:
    """The values that a field may have. *refers* is the kind of thing that it names, *makes* the kind it creates, and
    *space* where memory lies that it creates. A list of extents names a buffer in each.
    """

    what: str
    fits: Callable[[Any], bool]
    default: Any = _REQUIRED
    refers: str | None = None
    makes: str | None = None
    space: str = ""

    def names(self, value: Any) -> Iterable[str]:
        """Return what *value* names."""
        if self.refers is None or value is None:
            return ()
        return (value,) if isinstance(value, str) else (first for first, *_ in value)


class _Row:
    """A row of the format: the *fields* of a step, and its act: what makes it, and its *parts* in their order.

    A part is the name of a field; "-" if the act has none; else a kind of work, or of what the host asks about.
    """

    def __init__(self, kind: Callable[..., Act[Any]], parts: str = "", /, **fields: _Field) -> None:
        self.fields: Mapping[str, _Field] = fields
        self.parts = parts.split()
        self._kind = kind

    def act(self, values: Mapping[str, Any]) -> Act[Any]:
        """Return the act of a step with these *values* of its fields."""
        return self._kind(*(None if part == "-" else self._part(part, values) for part in self.parts))

    def _part(self, part: str, values: Mapping[str, Any]) -> object:
        if part not in self.fields:
            return Name(part)
        field, value = self.fields[part], values[part]
        kind = field.refers or field.makes
        return value if kind is None or not isinstance(value, str) else Name(kind, value)


def _made(thing: Name) -> Made[Name]:
    return Made(None, thing)


def _plain(*about: Any) -> Plain[Any]:
    return Plain(about)


def _whole(value: object, least: int, most: int = 2**63 - 1) -> bool:
    return type(value) is int and least <= value <= most


def _amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= END_NS / 1000


def _text(value: object) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= _LONGEST and not any("\ud800" <= c <= "\udfff" for c in value)


def _extents(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, list) and len(each) == 3 and _text(each[0]) and _whole(each[1], 0) and _whole(each[2], each[1])
        for each in value
    )


def _releases(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, list) and len(each) == 2 and _amount(each[0]) and _whole(each[1], 1) for each in value
    )


def _runs(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, list) and len(each) == 2 and _amount(each[0]) and _releases(each[1]) for each in value
    )


def _one_of(*values: str, default: Any = _REQUIRED) -> _Field:
    listed_ = ", ".join(f'"{value}"' for value in values[:-1])
    return _Field(f'{listed_} or "{values[-1]}"', lambda value: value in values, default)


def _name(kind: str, *, makes: bool = False) -> _Field:
    return _Field(f"the name of a {kind}", _text, refers=None if makes else kind, makes=kind if makes else None)


_STREAM, _EVENT, _MEMORY = _name("stream"), _name("event"), _name("buffer")
_BYTES = _Field("a number of bytes, 1 to 2**63 - 1", lambda value: _whole(value, 1))
_COUNT = _Field("a number of bytes, 0 to 2**63 - 1", lambda value: _whole(value, 0))
_OFFSET = _Field("a number of bytes, 0 to 2**63 - 1", lambda value: _whole(value, 0), 0)
_ADDRESS = _Field("an address: a whole number, 0 to 2**64 - 1", lambda value: _whole(value, 0, 2**64 - 1))
_US = _Field("microseconds: a number from 0 to 4.6e15, all of simulated time", _amount)
_INT = _Field("a whole number of 64 bits", lambda value: _whole(value, -(2**63)))
_INT32 = _Field("a whole number of 32 bits", lambda value: _whole(value, -(2**31), 2**31 - 1))
_FLAGS = _one_of("blocking", "nonblocking", default="blocking")
_ZERO = replace(_INT, default=0)
_COUNTED = replace(_INT32, default=1)
_TIMING = _Field("true or false", lambda value: isinstance(value, bool), True)
_BLOCKING = replace(_TIMING, default=False)
_NOTIFY, _CONTEXT = _name("notify"), _name("context")
_LABEL = _Field(_A_NAME, _text, None)
_EXTENTS = _Field(
    "a list of [buffer, start, stop], whole numbers with start at most stop", _extents, (), refers="buffer"
)
_KIND = _one_of("h2h", "h2d", "d2h", "d2d", "default", default="default")
_DEVICE = _Field("the number of a device, 0 to 2**31 - 1", lambda value: _whole(value, 0, 2**31 - 1), 0)
_LIMIT = _Field("milliseconds: a whole number, 1 to 2**31 - 1", lambda value: _whole(value, 1, 2**31 - 1), None)
_SECONDS = _Field("seconds: a whole number, 0 (no limit) to 2**32 - 1", lambda value: _whole(value, 0, 2**32 - 1), 0)
_COMPARE = _one_of("geq", "eq", "and", "nor", default="geq")
_CLASS = _one_of("default", "flag", "snapshot", default="default")
_WORD = _Field("a whole number, 0 to 2**64 - 1", lambda value: _whole(value, 0, 2**64 - 1))
_NO_STREAM = _Field("the name of a stream", _text, None, refers="stream")  # ignored: calls that wait have no stream
_GRAPH, _EXECUTABLE = _name("graph"), _name("executable")
_NEW_GRAPH, _NEW_EVENT = _name("graph", makes=True), _name("event", makes=True)
_AFTER = _Field("a list of names of nodes", lambda value: isinstance(value, list) and all(map(_text, value)), ())
_BEHIND = _Field(
    "a list of the places of nodes in the graph, from 0",
    lambda value: isinstance(value, list) and all(_whole(each, 0, 2**31 - 1) for each in value),
    (),
)
_NODE = replace(_name("node", makes=True), default=None)
_BODIES = _Field(
    "a list of names for graphs", lambda value: isinstance(value, list) and all(map(_text, value)), (), makes="graph"
)
_BLOCKS = _Field("a number of blocks, 1 to 2**63 - 1", lambda value: _whole(value, 1), 1)
_TOUCHED = {"name": _LABEL, "reads": _EXTENTS, "writes": _EXTENTS}
_SQUARE = {
    "dst": _MEMORY, "src": _MEMORY, "dpitch": _COUNT, "spitch": _COUNT, "width": _COUNT, "height": _COUNT,
}  # fmt: skip
_COPY = {"dst": _MEMORY, "src": _MEMORY, "bytes": _COUNT, "dst_off": _OFFSET, "src_off": _OFFSET}
_REPEATED = {"until": _BLOCKING, "work_us": replace(_US, default=0), "sleep_us": replace(_US, default=0)}
_FILL = {"dst": _MEMORY, "bytes": _COUNT, "value": _ZERO, "dst_off": _OFFSET}
_IN_ROWS = {"dst_off": _OFFSET, "src_off": _OFFSET, "kind": _KIND}
_WHERE = _Field(
    '"host", "device" (device 0) or the number of a device',
    lambda value: value in ("host", "device") or _whole(value, 0, 2**31 - 1),
)
_SUBJECTS = ("ReadMostly", "PreferredLocation", "AccessedBy")
_ADVICE = tuple(f"{verb}{subject}" for subject in _SUBJECTS for verb in ("Set", "Unset"))
_ATTRIBUTES = (*_SUBJECTS, "LastPrefetchLocation")


def _allocate(space: str) -> dict[str, _Field]:
    return {"name": replace(_name("buffer", makes=True), space=space), "bytes": _BYTES}


_ROWS: Mapping[str, _Row] = {
    "launch": _Row(Queued, "kernel stream", stream=_STREAM, us=_US, blocks=_BLOCKS, exclusive=_BLOCKING, **_TOUCHED),
    "launch_cores": _Row(
        Queued,
        "kernel stream",
        stream=_STREAM,
        us=_US,
        cores=_Field("a number of AI cores, 1 to 2**31 - 1", lambda value: _whole(value, 1, 2**31 - 1)),
        blocks=_BLOCKS,
        released=_Field("a list of [microseconds, cores]", _releases, ()),
        more=_Field("a list of [microseconds, list of [microseconds, cores]]", _runs, ()),
        **_TOUCHED,
    ),
    "memcpy_async": _Row(Queued, "copy stream", **_COPY, stream=_STREAM, kind=_KIND),
    "memcpy": _Row(Completed, "copy", **_COPY, stream=_NO_STREAM),
    "memcpy2d_async": _Row(Queued, "copy stream", **_SQUARE, stream=_STREAM, **_IN_ROWS),
    "memcpy2d": _Row(Completed, "copy", **_SQUARE, **_IN_ROWS),
    "memcpy_peer_async": _Row(Queued, "copy stream", **_COPY, stream=_STREAM),
    "memcpy_peer": _Row(Completed, "copy", **_COPY),
    "memset_async": _Row(Queued, "fill stream", **_FILL, stream=_STREAM),
    "memset": _Row(Completed, "fill", **_FILL, stream=_NO_STREAM),
    "record": _Row(Recorded, "event stream external", event=_EVENT, stream=_STREAM, external=_BLOCKING),
    "wait": _Row(Waited, "event stream external", event=_EVENT, stream=_STREAM, external=_BLOCKING),
    "reset": _Row(Cleared, "event stream", event=_EVENT, stream=_STREAM),
    "sync_stream": _Row(Synchronised, "stream limit_ms", stream=_STREAM, limit_ms=_LIMIT, name=_LABEL),
    "sync_event": _Row(Synchronised, "event limit_ms", event=_EVENT, limit_ms=_LIMIT),
    "sync_device": _Row(Synchronised, "device limit_ms", limit_ms=_LIMIT),
    "sync_op": _Row(Synchronised, "of", of=_name("operation")),
    "query_stream": _Row(Asked, "stream until", stream=_STREAM, **_REPEATED),
    "query_event": _Row(Asked, "event until", event=_EVENT, **_REPEATED),
    "query_waits": _Row(Asked, "event until", event=_EVENT, **_REPEATED),
    "elapsed": _Row(_plain, "start end", start=_EVENT, end=_EVENT),
    "timestamp": _Row(_plain, "event", event=_EVENT),
    "host_work": _Row(Slept, "", us=_US, name=_LABEL),
    "sleep": _Row(Slept, "", us=_US),
    "resume": _Row(_plain),
    "give_way": _Row(_plain),
    "malloc": _Row(Began, "name", **_allocate("device")),
    "malloc_host": _Row(Began, "name", **_allocate("pinned")),
    "host_register": _Row(Began, "name", **_allocate("pageable"), fill=_TIMING),
    "malloc_async": _Row(Began, "name stream", **_allocate("device"), stream=_STREAM),
    "free": _Row(Ended, "name", name=_MEMORY, sync=_BLOCKING),
    "free_host": _Row(Ended, "name", name=_MEMORY, sync=_BLOCKING),
    "host_unregister": _Row(Ended, "name", name=_MEMORY),
    "free_async": _Row(Ended, "name stream", name=_MEMORY, stream=_STREAM),
    "pool_threshold": _Row(_plain, "bytes", bytes=_COUNT),
    "create_stream": _Row(_made, "name", name=_name("stream", makes=True), flags=_FLAGS, priority=_ZERO),
    "destroy_stream": _Row(Destroyed, "name", name=_STREAM),
    "get_priority": _Row(Asked, "stream", stream=_STREAM),
    "priority_range": _Row(_plain),
    "create_event": _Row(_made, "event", event=_NEW_EVENT, timing=_TIMING, blocking=_BLOCKING, kind=_CLASS),
    "destroy_event": _Row(Destroyed, "event", event=_EVENT),
    "create_notify": _Row(_made, "notify", notify=_name("notify", makes=True)),
    "destroy_notify": _Row(Destroyed, "notify", notify=_NOTIFY),
    "record_notify": _Row(Set, "notify - stream", notify=_NOTIFY, stream=_STREAM),
    "wait_notify": _Row(Awaited, "notify - - stream limit_s", notify=_NOTIFY, stream=_STREAM, limit_s=_SECONDS),
    "reset_notify": _Row(_plain, "notify", notify=_NOTIFY),
    "value_write": _Row(Set, "buf value stream", buf=_MEMORY, value=_WORD, stream=_STREAM, off=_OFFSET),
    "value_wait": _Row(
        Awaited, "buf value compare stream", buf=_MEMORY, value=_WORD, stream=_STREAM, off=_OFFSET, compare=_COMPARE
    ),
    "subscribe": _Row(_plain, "stream", stream=_STREAM),
    "unsubscribe": _Row(_plain, "stream", stream=_STREAM),
    "launch_callback": _Row(HandedOver, "stream block", stream=_STREAM, block=_TIMING, name=_LABEL),
    "process_report": _Row(CallbackBegan, "limit_ms", limit_ms=_LIMIT),
    "end_report": _Row(_plain),
    "create_context": _Row(_made, "context", context=_name("context", makes=True), device=_DEVICE),
    "set_context": _Row(_plain, "context", context=_CONTEXT),
    "destroy_context": _Row(Destroyed, "context", context=_CONTEXT),
    "set_device": _Row(_plain, "device", device=_DEVICE),
    "mem_get_info": _Row(_plain),
    "host_write": _Row(_plain, "buf", buf=_MEMORY, value=_INT32),
    "host_read": _Row(_plain, "buf", buf=_MEMORY),
    "host_access": _Row(_plain, "access", reads=_EXTENTS, writes=_EXTENTS),
    "host_touch": _Row(_plain, "buf", buf=_MEMORY, bytes=_COUNT),
    "host_func": _Row(
        Queued, "function stream", stream=_STREAM, us=_US, buf=replace(_MEMORY, default=None), by=_COUNTED, **_TOUCHED
    ),
    "add_callback": _Row(Queued, "function stream", stream=_STREAM, us=_US),
    "inc": _Row(Queued, "kernel stream", buf=_MEMORY, by=_COUNTED, stream=_STREAM),
    "touch": _Row(Queued, "kernel stream", buf=_MEMORY, bytes=_COUNT, write=_TIMING, stream=_STREAM),
    "malloc_managed": _Row(Began, "name", **_allocate("managed")),
    "prefetch": _Row(Queued, "prefetch stream", buf=_MEMORY, bytes=_COUNT, to=_WHERE, stream=_STREAM, off=_OFFSET),
    "advise": _Row(
        _plain,
        "buf",
        buf=_MEMORY,
        bytes=_COUNT,
        advice=_one_of(*_ADVICE),
        to=replace(_WHERE, default="host"),
        off=_OFFSET,
    ),
    "attach": _Row(_plain, "buf stream", buf=_MEMORY, stream=_STREAM, to=_one_of("global", "host", "single")),
    "pointer_attributes": _Row(_plain, "buf", buf=_MEMORY),
    "range_attribute": _Row(_plain, "buf", buf=_MEMORY, bytes=_COUNT, attribute=_one_of(*_ATTRIBUTES)),
    "get_last_error": _Row(Asked, "error code"),
    "peek_error": _Row(Asked, "error code"),
    "memcpy_async_bad": _Row(
        _plain, "stream", dst_addr=_ADDRESS, src_addr=_ADDRESS, bytes=_COUNT, kind=_INT, stream=_STREAM
    ),
    "poke": _Row(Queued, "kernel stream", addr=_ADDRESS, stream=_STREAM),
}
_GRAPH_ROWS: Mapping[str, _Row] = {
    "begin_capture": _Row(
        CaptureBegan, "stream mode graph -", stream=_STREAM, mode=_ZERO, graph=replace(_NEW_GRAPH, default=None)
    ),
    "begin_capture_to": _Row(
        CaptureBegan, "stream mode graph behind", stream=_STREAM, graph=_GRAPH, mode=_ZERO, behind=_BEHIND
    ),
    "end_capture": _Row(CaptureEnded, "stream graph", stream=_STREAM, graph=_NEW_GRAPH),
    "is_capturing": _Row(Asked, "stream", stream=_STREAM),
    "capture_info": _Row(Asked, "stream", stream=_STREAM),
    "exchange_mode": _Row(_plain, "mode", mode=_ZERO),
    "group_begin": _Row(_plain, "stream", stream=_STREAM),
    "group_end": _Row(_plain, "stream group", stream=_STREAM, group=_name("task group", makes=True)),
    "update_begin": _Row(_plain, "stream group", stream=_STREAM, group=_name("task group")),
    "update_end": _Row(_plain, "stream", stream=_STREAM),
    "graph_create": _Row(_made, "graph", graph=_NEW_GRAPH),
    "graph_destroy": _Row(Destroyed, "graph", graph=_GRAPH),
    "add_empty": _Row(NodeAdded, "graph - - - behind", graph=_GRAPH, node=_NODE, after=_AFTER, behind=_BEHIND),
    "add_child": _Row(
        NodeAdded,
        "graph child - bodies behind",
        graph=_GRAPH,
        child=_GRAPH,
        node=_NODE,
        after=_AFTER,
        behind=_BEHIND,
        bodies=_BODIES,
    ),
    "add_if": _Row(
        NodeAdded, "graph - default bodies behind", graph=_GRAPH, default=_ZERO, behind=_BEHIND, bodies=_BODIES
    ),
    "begin_capture_body": _Row(CaptureBegan, "stream - - -", stream=_STREAM),
    "end_capture_body": _Row(CaptureEnded, "stream -", stream=_STREAM),
    "clone": _Row(Made, "graph to bodies", graph=_GRAPH, to=_NEW_GRAPH, bodies=_BODIES),
    "nodes": _Row(_plain, "graph", graph=_GRAPH),
    "instantiate": _Row(Made, "graph exec", graph=_GRAPH, exec=_name("executable", makes=True), flags=_ZERO),
    "upload": _Row(_plain, "exec stream", exec=_EXECUTABLE, stream=_STREAM),
    "graph_launch": _Row(
        GraphLaunched,
        "exec stream",
        exec=_EXECUTABLE,
        stream=_STREAM,
        taken=_Field(
            "a list of true and false",
            lambda value: isinstance(value, list) and all(isinstance(each, bool) for each in value),
            None,
        ),
    ),
    "exec_update": _Row(GraphUpdated, "exec graph", exec=_EXECUTABLE, graph=_GRAPH, always=_BLOCKING),
    "exec_destroy": _Row(Destroyed, "exec", exec=_EXECUTABLE),
}
_ROWS = {**_ROWS, **_GRAPH_ROWS}
OPS = {op: row.fields for op, row in _ROWS.items()}
GRAPH_OPS = tuple(_GRAPH_ROWS)
_OF_EVERYSTEP = ("op", "id", "thread", "task", "after", "site")
_Known = defaultdict[str, dict[str, None]]  # the existing names of each kind, in their order
_BUFFER = {
    "space": _Field(
        '"device", "pinned", "pageable" or "managed"',
        lambda value: value in ("device", "pinned", "pageable", "managed"),
    ),
    "bytes": _BYTES,
    "device": _DEVICE,
}  # fmt: skip
_STREAM_OPTIONS = {"flags": _FLAGS, "priority": _ZERO, "device": _DEVICE}
_EVENT_OPTIONS = {"timing": _TIMING, "blocking": _BLOCKING, "device": _DEVICE}


HOST_ACCESS: Act[Any] = Plain((Name("access"),))


def _key(act: Act[Any]) -> tuple[object, ...]:
    return type(act), *(each.kind for each in leaves(act) if isinstance(each, Name))


_WRITTEN: dict[tuple[object, ...], str] = {}  # the first row for the acts of each kind
for _op, _row in _ROWS.items():
    _WRITTEN.setdefault(_key(_row.act(dict.fromkeys(_row.fields, ""))), _op)


def written(act: Act[Any]) -> tuple[str, dict[str, Any]]:
    """Return the op of the step that does *act*, and the fields that are parts of it."""
    op = _WRITTEN[_key(act)]
    parts = (part for part in _ROWS[op].parts if part != "-")
    named = zip(parts, leaves(act), strict=False)
    return op, {part: each.name for part, each in named if part in OPS[op] and isinstance(each, Name)}


def load(path: str | Path) -> list[Program | ProgramError]:
    """Read the file at *path* ("-": standard input), which has one program or a list of them.

    Returns:
        For each program the checked program, or an error that says what is wrong with it.

    Raises:
        ProgramError: the file cannot be read, is not UTF-8, is not JSON, or has no programs.
    """
    try:
        name, documents = read(path)
    except DocumentError as error:
        raise ProgramError(str(error)) from error
    if not documents:
        raise ProgramError(f"{name}: has no programs: its list is empty")
    if len(documents) == 1 and not isinstance(documents[0], dict | Odd):
        raise ProgramError(f"{name}: must have a program or a list of programs, not {short(documents[0])}")
    return [_checked(entry, f"{name}: program {place}") for place, entry in enumerate(documents)]


def parse(document: object, where: str = "program") -> Program:
    """Return the program that *document*, decoded JSON, describes. *where* is its source, for messages.

    Raises:
        ProgramError: the program cannot run. The message names the program, the step and the field.
    """
    if not isinstance(document, dict):
        raise ProgramError(f"{where}: must be an object, not {short(document)}")
    id_ = document.get("id")
    if not _text(id_):
        _refuse(where, "id", _A_NAME, document)
    assert isinstance(id_, str)
    where = f"{where} {id_!r}"
    buffers = _declared(document, "buffers", _BUFFER, where)
    streams = _declared(document, "streams", _STREAM_OPTIONS, where)
    events = _declared(document, "events", _EVENT_OPTIONS, where)
    for name in ("legacy", "per_thread"):
        if name in streams:
            raise ProgramError(f"{where}: streams.{name}: this stream always exists; do not declare it")
    entries = document.get("steps")
    if not isinstance(entries, list):
        _refuse(where, "steps", "a list of steps", document)
    known: _Known = defaultdict(
        dict,
        buffer=dict.fromkeys(buffers),
        stream=dict.fromkeys(("legacy", "per_thread", *streams)),
        event=dict.fromkeys(events),
        context={"primary": None},
    )
    ids: dict[str, int] = {}
    steps = []
    for index, entry in enumerate(entries):
        step = _step(index, entry, known, f"{where}: step {index}")
        if step.id is not None:
            first = ids.setdefault(step.id, index)
            if first != index:
                raise ProgramError(f"{where}: step {index}: id: step {first} already has the id {step.id!r}")
            known["operation"][step.id] = None
        steps.append(step)
    gap_us = document.get("gap_us")
    if "gap_us" in document and not _amount(gap_us):
        _refuse(where, "gap_us", _US.what, document)
    notes = document.get("notes", [])
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        _refuse(where, "notes", "a list of strings", document)
    shown = tuple(printable(note) for note in notes)
    gap_ns = None if gap_us is None else round(gap_us * 1000)
    return Program(id_, buffers, streams, events, tuple(steps), gap_ns, shown)


def _checked(entry: object, where: str) -> Program | ProgramError:
    try:
        return parse(entry, where)
    except ProgramError as error:
        return error


def _step(index: int, entry: object, known: _Known, where: str) -> Step:
    if not isinstance(entry, dict):
        raise ProgramError(f"{where}: must be an object, not {short(entry)}")
    op = entry.get("op")
    if not isinstance(op, str):
        _refuse(where, "op", "the name of a call", entry)
    if op not in OPS:
        raise ProgramError(f"{where}: op: there is no {short(op)}; {_meant(op, OPS, OPS)}")
    where = f"{where} ({op})"
    for name in ("id", "thread", "task", "site"):
        if name in entry and not _text(entry[name]):
            _refuse(where, name, _A_NAME, entry)
    after = entry.get("after")
    if op in ("add_empty", "add_child") and isinstance(after, list):  # there it names nodes
        after = None
    elif "after" in entry and not _whole(after, 0, index - 1):
        earlier = f"the index of an earlier step, 0 to {index - 1}" if index else "left out: there is no earlier step"
        _refuse(where, "after", earlier, entry)
    options = {name: value for name, value in entry.items() if name not in _OF_EVERYSTEP}
    if op in ("add_empty", "add_child") and isinstance(entry.get("after"), list):
        options["after"] = entry["after"]
    if op == "inc" and "name" in options and "buf" not in options:  # measured programs use both
        options["buf"] = options.pop("name")
    fields = _fields(options, OPS[op], known, where)
    id_, thread, task, site = (entry.get(name) for name in ("id", "thread", "task", "site"))
    return Step(index, op, id_, fields, thread, task, after, printable(site or ""))


def _declared(
    document: Mapping[str, Any], section: str, fields: Mapping[str, _Field], where: str
) -> dict[str, dict[str, Any]]:
    things = document.get(section, {})
    if not isinstance(things, dict):
        _refuse(where, section, "an object whose keys are names", document)
    for name, options in things.items():
        if not _text(name):
            raise ProgramError(f"{where}: {section}: a key must be {_A_NAME}, not {short(name)}")
        if not isinstance(options, dict):
            _refuse(f"{where}: {section}", name, "an object", things)
    known: _Known = defaultdict(dict)
    return {
        name: _fields(options, fields, known, f"{where}: {section}.{printable(name)}")
        for name, options in things.items()
    }


def _fields(options: Mapping[str, Any], fields: Mapping[str, _Field], known: _Known, where: str) -> dict[str, Any]:
    """Return *options* with defaults filled in, and add the names that they create to *known*."""
    for name in options:
        if name not in fields:
            meant = _meant(name, fields, fields) if fields else "there are no fields"
            raise ProgramError(f"{where}: {short(name)} is unknown; {meant}")
    values = {}
    for name, field in fields.items():
        if name not in options:
            if field.default is _REQUIRED:
                raise ProgramError(f"{where}: {name}: missing; it must be {field.what}")
            values[name] = field.default
            continue
        value = values[name] = options[name]
        if not field.fits(value):
            _refuse(where, name, field.what, options)
        for named in field.names(value):
            there = known[field.refers or ""]
            if named not in there:
                meant = f"there are {listed(there)}" if there else f"the program has no {field.refers}s"
                raise ProgramError(f"{where}: {name}: there is no {field.refers} {named!r}; {meant}")
        if field.makes is not None:
            known[field.makes].update(dict.fromkeys([value] if isinstance(value, str) else value))
    return values


def _meant(name: str, near: Iterable[str], all_: Iterable[str]) -> str:
    """Return a hint for the unknown *name*: the nearest of *near*, or a list of *all_*."""
    matches = get_close_matches(name, near, 1) if len(name) <= _LONGEST else []
    return f"did you mean {matches[0]}?" if matches else f"there are {', '.join(all_)}"


def _refuse(where: str, field: str, what: str, entry: Mapping[str, Any]) -> NoReturn:
    problem = f"must be {what}, not {short(entry[field])}" if field in entry else f"missing; it must be {what}"
    raise ProgramError(f"{where}: {printable(field)}: {problem}")
