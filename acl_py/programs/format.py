"""Stream programs: JSON files of buffers, streams, events and the calls that one host thread makes.

Measured programs are stored in this form. A bug can be reported in it, and a schedule tried without writing code.
`load` reads a file and checks every program in it; an error names the program, the step and the field. `replay.py` runs
programs. docs/programs.md describes the format, and `OPS` below is the same as a table.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

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


@dataclass(frozen=True, slots=True)
class _Field:
    """The values that a field may have. *refers* is the kind of thing that it names, *makes* the kind it creates. A
    list of extents names a buffer in each.
    """

    what: str
    fits: Callable[[Any], bool]
    default: Any = _REQUIRED
    refers: str | None = None
    makes: str | None = None

    def names(self, value: Any) -> Iterable[str]:
        """Return what *value* names."""
        if self.refers is None or value is None:
            return ()
        return (value,) if isinstance(value, str) else (first for first, *_ in value)


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
_PRIORITY = replace(_INT, default=0)
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
_CLASS = _one_of("default", "flag", "snapshot", default="default")
_WORD = _Field("a whole number, 0 to 2**64 - 1", lambda value: _whole(value, 0, 2**64 - 1))
_NO_STREAM = _Field("the name of a stream", _text, None, refers="stream")  # ignored: calls that wait have no stream
_GRAPH, _EXECUTABLE = _name("graph"), _name("executable")
_MODE = replace(_INT, default=0)
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
_COPY = {"dst": _MEMORY, "src": _MEMORY, "bytes": _COUNT, "dst_off": _OFFSET, "src_off": _OFFSET}
_REPEATED = {"until": _BLOCKING, "work_us": replace(_US, default=0), "sleep_us": replace(_US, default=0)}
_FILL = {"dst": _MEMORY, "bytes": _COUNT, "value": replace(_INT, default=0), "dst_off": _OFFSET}
_IN_ROWS = {"dst_off": _OFFSET, "src_off": _OFFSET, "kind": _KIND}
_WHERE = _Field(
    '"host", "device" (device 0) or the number of a device',
    lambda value: value in ("host", "device") or _whole(value, 0, 2**31 - 1),
)
_SUBJECTS = ("ReadMostly", "PreferredLocation", "AccessedBy")
_ADVICE = tuple(f"{verb}{subject}" for subject in _SUBJECTS for verb in ("Set", "Unset"))
_ATTRIBUTES = (*_SUBJECTS, "LastPrefetchLocation")
_ALLOCATE = {"name": _name("buffer", makes=True), "bytes": _BYTES}

OPS: Mapping[str, Mapping[str, _Field]] = {
    "launch": {
        "stream": _STREAM,
        "us": _US,
        "blocks": _Field("a number of blocks, 1 to 2**63 - 1", lambda value: _whole(value, 1), 1),
        "exclusive": _BLOCKING,
        "name": _LABEL,
        "reads": _EXTENTS,
        "writes": _EXTENTS,
    },
    "launch_cores": {
        "stream": _STREAM,
        "us": _US,
        "cores": _Field("a number of AI cores, 1 to 2**31 - 1", lambda value: _whole(value, 1, 2**31 - 1)),
        "blocks": _Field("a number of blocks, 1 to 2**63 - 1", lambda value: _whole(value, 1), 1),
        "released": _Field("a list of [microseconds, cores]", _releases, ()),
        "more": _Field("a list of [microseconds, list of [microseconds, cores]]", _runs, ()),
        "name": _LABEL,
        "reads": _EXTENTS,
        "writes": _EXTENTS,
    },
    "memcpy_async": {**_COPY, "stream": _STREAM, "kind": _KIND},
    "memcpy": {**_COPY, "stream": _NO_STREAM},
    "memcpy2d_async": {
        "dst": _MEMORY,
        "src": _MEMORY,
        "dpitch": _COUNT,
        "spitch": _COUNT,
        "width": _COUNT,
        "height": _COUNT,
        "stream": _STREAM,
        **_IN_ROWS,
    },
    "memcpy2d": {
        "dst": _MEMORY,
        "src": _MEMORY,
        "dpitch": _COUNT,
        "spitch": _COUNT,
        "width": _COUNT,
        "height": _COUNT,
        **_IN_ROWS,
    },
    "memcpy_peer_async": {**_COPY, "stream": _STREAM},
    "memcpy_peer": _COPY,
    "memset_async": {**_FILL, "stream": _STREAM},
    "memset": {**_FILL, "stream": _NO_STREAM},
    "record": {"event": _EVENT, "stream": _STREAM, "external": _BLOCKING},
    "wait": {"event": _EVENT, "stream": _STREAM, "external": _BLOCKING},
    "reset": {"event": _EVENT, "stream": _STREAM},
    "sync_stream": {"stream": _STREAM, "limit_ms": _LIMIT, "name": _LABEL},
    "sync_event": {"event": _EVENT, "limit_ms": _LIMIT},
    "sync_device": {"limit_ms": _LIMIT},
    "sync_op": {"of": _name("operation")},
    "query_stream": {"stream": _STREAM, **_REPEATED},
    "query_event": {"event": _EVENT, **_REPEATED},
    "query_waits": {"event": _EVENT, **_REPEATED},
    "elapsed": {"start": _EVENT, "end": _EVENT},
    "timestamp": {"event": _EVENT},
    "host_work": {"us": _US, "name": _LABEL},
    "sleep": {"us": _US},
    "resume": {},
    "give_way": {},
    "malloc": _ALLOCATE,
    "malloc_host": _ALLOCATE,
    "host_register": {**_ALLOCATE, "fill": _TIMING},
    "malloc_async": {**_ALLOCATE, "stream": _STREAM},
    "free": {"name": _MEMORY, "sync": _BLOCKING},
    "free_host": {"name": _MEMORY, "sync": _BLOCKING},
    "host_unregister": {"name": _MEMORY},
    "free_async": {"name": _MEMORY, "stream": _STREAM},
    "pool_threshold": {"bytes": _COUNT},
    "create_stream": {"name": _name("stream", makes=True), "flags": _FLAGS, "priority": _PRIORITY},
    "destroy_stream": {"name": _STREAM},
    "get_priority": {"stream": _STREAM},
    "priority_range": {},
    "create_event": {"event": _name("event", makes=True), "timing": _TIMING, "blocking": _BLOCKING, "kind": _CLASS},
    "destroy_event": {"event": _EVENT},
    "create_notify": {"notify": _name("notify", makes=True)},
    "destroy_notify": {"notify": _NOTIFY},
    "record_notify": {"notify": _NOTIFY, "stream": _STREAM},
    "wait_notify": {
        "notify": _NOTIFY,
        "stream": _STREAM,
        "limit_s": _Field(
            "seconds: a whole number, 0 (no limit) to 2**32 - 1", lambda value: _whole(value, 0, 2**32 - 1), 0
        ),
    },
    "reset_notify": {"notify": _NOTIFY},
    "value_write": {"buf": _MEMORY, "value": _WORD, "stream": _STREAM, "off": _OFFSET},
    "value_wait": {
        "buf": _MEMORY,
        "value": _WORD,
        "stream": _STREAM,
        "off": _OFFSET,
        "compare": _one_of("geq", "eq", "and", "nor", default="geq"),
    },
    "subscribe": {"stream": _STREAM},
    "unsubscribe": {"stream": _STREAM},
    "launch_callback": {"stream": _STREAM, "block": _TIMING, "name": _LABEL},
    "process_report": {"limit_ms": _LIMIT},
    "end_report": {},
    "create_context": {"context": _name("context", makes=True), "device": _DEVICE},
    "set_context": {"context": _CONTEXT},
    "destroy_context": {"context": _CONTEXT},
    "set_device": {"device": _DEVICE},
    "mem_get_info": {},
    "host_write": {"buf": _MEMORY, "value": _INT32},
    "host_read": {"buf": _MEMORY},
    "host_access": {"reads": _EXTENTS, "writes": _EXTENTS},
    "host_touch": {"buf": _MEMORY, "bytes": _COUNT},
    "host_func": {
        "stream": _STREAM,
        "us": _US,
        "buf": replace(_MEMORY, default=None),
        "by": replace(_INT32, default=1),
        "name": _LABEL,
        "reads": _EXTENTS,
        "writes": _EXTENTS,
    },
    "add_callback": {"stream": _STREAM, "us": _US},
    "inc": {"buf": _MEMORY, "by": replace(_INT32, default=1), "stream": _STREAM},
    "touch": {"buf": _MEMORY, "bytes": _COUNT, "write": _TIMING, "stream": _STREAM},
    "malloc_managed": _ALLOCATE,
    "prefetch": {"buf": _MEMORY, "bytes": _COUNT, "to": _WHERE, "stream": _STREAM, "off": _OFFSET},
    "advise": {
        "buf": _MEMORY,
        "bytes": _COUNT,
        "advice": _one_of(*_ADVICE),
        "to": replace(_WHERE, default="host"),
        "off": _OFFSET,
    },
    "attach": {"buf": _MEMORY, "stream": _STREAM, "to": _one_of("global", "host", "single")},
    "pointer_attributes": {"buf": _MEMORY},
    "range_attribute": {"buf": _MEMORY, "bytes": _COUNT, "attribute": _one_of(*_ATTRIBUTES)},
    "get_last_error": {},
    "peek_error": {},
    "memcpy_async_bad": {
        "dst_addr": _ADDRESS,
        "src_addr": _ADDRESS,
        "bytes": _COUNT,
        "kind": _INT,
        "stream": _STREAM,
    },
    "poke": {"addr": _ADDRESS, "stream": _STREAM},
}
_OF_EVERYSTEP = ("op", "id", "thread", "task", "after", "site")
_Known = dict[str, dict[str, None]]  # the existing names of each kind, in their order
GRAPH_OPS: Mapping[str, Mapping[str, _Field]] = {
    "begin_capture": {"stream": _STREAM, "mode": _MODE, "graph": replace(_name("graph", makes=True), default=None)},
    "begin_capture_to": {"stream": _STREAM, "graph": _GRAPH, "mode": _MODE, "behind": _BEHIND},
    "end_capture": {"stream": _STREAM, "graph": _name("graph", makes=True)},
    "is_capturing": {"stream": _STREAM},
    "capture_info": {"stream": _STREAM},
    "exchange_mode": {"mode": _MODE},
    "group_begin": {"stream": _STREAM},
    "group_end": {"stream": _STREAM, "group": _name("task group", makes=True)},
    "update_begin": {"stream": _STREAM, "group": _name("task group")},
    "update_end": {"stream": _STREAM},
    "graph_create": {"graph": _name("graph", makes=True)},
    "graph_destroy": {"graph": _GRAPH},
    "add_empty": {"graph": _GRAPH, "node": _NODE, "after": _AFTER, "behind": _BEHIND},
    "add_child": {
        "graph": _GRAPH,
        "child": _GRAPH,
        "node": _NODE,
        "after": _AFTER,
        "behind": _BEHIND,
        "bodies": _BODIES,
    },
    "add_if": {"graph": _GRAPH, "default": replace(_INT, default=0), "behind": _BEHIND, "bodies": _BODIES},
    "begin_capture_body": {"stream": _STREAM},
    "end_capture_body": {"stream": _STREAM},
    "clone": {"graph": _GRAPH, "to": _name("graph", makes=True), "bodies": _BODIES},
    "nodes": {"graph": _GRAPH},
    "instantiate": {"graph": _GRAPH, "exec": _name("executable", makes=True), "flags": replace(_INT, default=0)},
    "upload": {"exec": _EXECUTABLE, "stream": _STREAM},
    "graph_launch": {
        "exec": _EXECUTABLE,
        "stream": _STREAM,
        "taken": _Field(
            "a list of true and false",
            lambda value: isinstance(value, list) and all(isinstance(each, bool) for each in value),
            None,
        ),
    },
    "exec_update": {"exec": _EXECUTABLE, "graph": _GRAPH, "always": _BLOCKING},
    "exec_destroy": {"exec": _EXECUTABLE},
}
OPS = {**OPS, **GRAPH_OPS}
_BUFFER = {
    "space": _Field(
        '"device", "pinned", "pageable" or "managed"',
        lambda value: value in ("device", "pinned", "pageable", "managed"),
    ),
    "bytes": _BYTES,
    "device": _DEVICE,
}  # fmt: skip
_STREAM_OPTIONS = {"flags": _FLAGS, "priority": _PRIORITY, "device": _DEVICE}
_EVENT_OPTIONS = {"timing": _TIMING, "blocking": _BLOCKING, "device": _DEVICE}


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
    known: _Known = {
        "buffer": dict.fromkeys(buffers),
        "stream": dict.fromkeys(("legacy", "per_thread", *streams)),
        "event": dict.fromkeys(events),
        "notify": {},
        "context": {"primary": None},
        "operation": {},
        "graph": {},
        "executable": {},
        "task group": {},
        "node": {},
    }
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
    return {
        name: _fields(options, fields, {}, f"{where}: {section}.{printable(name)}") for name, options in things.items()
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
