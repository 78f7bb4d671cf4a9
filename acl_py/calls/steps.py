"""The table of steps: the fields that each step of a stream program has, and what it does.

A step is an act on names: each row says what the step does, with the names of its fields in place of things. So
`ROWS[op].act` gives the act of a step, and `written` the fields of the step that does an act. docs/programs.md has the
same as a table.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from acl_py.calls import fields as f
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
    Joined,
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
from acl_py.calls.fields import Field


class Name(NamedTuple):
    """What an act of a step is on: a thing of a *kind* ("stream", "event" ...) by its *name* in the program. Work has
    no name, and its kind is "copy", "fill", "kernel", "function" or "prefetch".
    """

    kind: str
    name: str = ""


class Row:
    """A row of the format: the *fields* of a step, and its act: what makes it, and its *parts* in their order.

    A part is the name of a field; "-" if the act has none; else a kind of work, or of what the host asks about.
    """

    def __init__(self, kind: Callable[..., Act[Any]], parts: str = "", /, **fields: Field) -> None:
        self.fields: Mapping[str, Field] = fields
        self.parts = parts.split()
        self._kind = kind
        # The kind of the work that a step queues, or lets the host make; empty if there is none.
        first = next(iter(self.parts), "")
        self.work = first if kind in (Queued, Completed) and first not in fields else ""

    def act(self, values: Mapping[str, Any]) -> Act[Any]:
        """Return the act of a step with these *values* of its fields."""
        return self._kind(*(None if part == "-" else self._part(part, values) for part in self.parts))

    def _part(self, part: str, values: Mapping[str, Any]) -> object:
        if part not in self.fields:
            return Name(part)
        field, value = self.fields[part], values[part]
        kind = field.refers or field.makes
        return value if kind is None or not isinstance(value, str) else Name(kind, value)


def _plain(*about: Any) -> Plain[Any]:
    return Plain(about)


def _communicators(_: None, names: Any) -> Made[Any]:
    """Return the act of a step that makes communicators of these *names*, a list; a single `Name` stands for any."""
    if isinstance(names, Name):
        return Made(None, names)
    first, *others = [Name("communicator", name) for name in names]
    return Made(None, first, tuple(others))


def _collective() -> Joined[Any]:
    return Joined((Name("collective"),), (), ())


ROWS: Mapping[str, Row] = {
    "launch": Row(
        Queued, "kernel stream", stream=f.STREAM, us=f.US, blocks=f.BLOCKS, exclusive=f.BLOCKING, **f.TOUCHED
    ),
    "launch_cores": Row(
        Queued,
        "kernel stream",
        stream=f.STREAM,
        us=f.US,
        cores=Field("a number of AI cores, 1 to 2**31 - 1", lambda value: f.is_whole(value, 1, 2**31 - 1)),
        blocks=f.BLOCKS,
        released=Field("a list of [microseconds, cores]", f.are_releases, ()),
        more=Field("a list of [microseconds, list of [microseconds, cores]]", f.are_runs, ()),
        **f.TOUCHED,
    ),
    "memcpy_async": Row(Queued, "copy stream", **f.COPY, stream=f.STREAM, kind=f.KIND),
    "memcpy": Row(Completed, "copy", **f.COPY, stream=f.NO_STREAM),
    "memcpy2d_async": Row(Queued, "copy stream", **f.SQUARE, stream=f.STREAM, **f.IN_ROWS),
    "memcpy2d": Row(Completed, "copy", **f.SQUARE, **f.IN_ROWS),
    "memcpy_peer_async": Row(Queued, "copy stream", **f.COPY, stream=f.STREAM),
    "memcpy_peer": Row(Completed, "copy", **f.COPY),
    "memset_async": Row(Queued, "fill stream", **f.FILL, stream=f.STREAM),
    "memset": Row(Completed, "fill", **f.FILL, stream=f.NO_STREAM),
    "record": Row(Recorded, "event stream external", event=f.EVENT, stream=f.STREAM, external=f.BLOCKING),
    "wait": Row(Waited, "event stream external", event=f.EVENT, stream=f.STREAM, external=f.BLOCKING),
    "reset": Row(Cleared, "event stream", event=f.EVENT, stream=f.STREAM),
    "sync_stream": Row(Synchronised, "stream limit_ms", stream=f.STREAM, limit_ms=f.LIMIT, name=f.LABEL),
    "sync_event": Row(Synchronised, "event limit_ms", event=f.EVENT, limit_ms=f.LIMIT),
    "sync_device": Row(Synchronised, "device limit_ms", limit_ms=f.LIMIT),
    "sync_op": Row(Synchronised, "of", of=f.named("operation")),
    "query_stream": Row(Asked, "stream until", stream=f.STREAM, **f.REPEATED),
    "query_event": Row(Asked, "event until", event=f.EVENT, **f.REPEATED),
    "query_waits": Row(Asked, "event until", event=f.EVENT, **f.REPEATED),
    "elapsed": Row(_plain, "start end", start=f.EVENT, end=f.EVENT),
    "timestamp": Row(_plain, "event", event=f.EVENT),
    "host_work": Row(Slept, "", us=f.US, name=f.LABEL),
    "sleep": Row(Slept, "", us=f.US),
    "resume": Row(_plain),
    "give_way": Row(_plain),
    "malloc": Row(Began, "name", **f.allocate("device")),
    "malloc_host": Row(Began, "name", **f.allocate("pinned")),
    "host_register": Row(Began, "name", **f.allocate("pageable"), fill=f.TIMING, again=f.AGAIN),
    "malloc_async": Row(Began, "name stream", **f.allocate("device"), stream=f.STREAM),
    "free": Row(Ended, "name", name=f.MEMORY, sync=f.BLOCKING),
    "free_host": Row(Ended, "name", name=f.MEMORY, sync=f.BLOCKING),
    "host_unregister": Row(Ended, "name", name=f.MEMORY),
    "free_async": Row(Ended, "name stream", name=f.MEMORY, stream=f.STREAM),
    "pool_threshold": Row(_plain, "bytes", bytes=f.COUNT),
    "create_stream": Row(Made, "- name", name=f.named("stream", makes=True), flags=f.FLAGS, priority=f.ZERO),
    "destroy_stream": Row(Destroyed, "name", name=f.STREAM),
    "get_priority": Row(Asked, "stream", stream=f.STREAM),
    "priority_range": Row(_plain),
    "create_event": Row(Made, "- event", event=f.NEW_EVENT, timing=f.TIMING, blocking=f.BLOCKING, kind=f.CLASS),
    "destroy_event": Row(Destroyed, "event", event=f.EVENT),
    "create_notify": Row(Made, "- notify", notify=f.named("notify", makes=True)),
    "destroy_notify": Row(Destroyed, "notify", notify=f.NOTIFY),
    "record_notify": Row(Set, "notify - stream", notify=f.NOTIFY, stream=f.STREAM),
    "wait_notify": Row(Awaited, "notify - - stream limit_s", notify=f.NOTIFY, stream=f.STREAM, limit_s=f.SECONDS),
    "reset_notify": Row(_plain, "notify", notify=f.NOTIFY),
    "value_write": Row(Set, "buf value stream", buf=f.MEMORY, value=f.WORD, stream=f.STREAM, off=f.OFFSET),
    "value_wait": Row(
        Awaited,
        "buf value compare stream",
        buf=f.MEMORY,
        value=f.WORD,
        stream=f.STREAM,
        off=f.OFFSET,
        compare=f.COMPARE,
    ),
    "subscribe": Row(_plain, "stream", stream=f.STREAM),
    "unsubscribe": Row(_plain, "stream", stream=f.STREAM),
    "launch_callback": Row(HandedOver, "stream block", stream=f.STREAM, block=f.TIMING, name=f.LABEL),
    "process_report": Row(CallbackBegan, "limit_ms", limit_ms=f.LIMIT),
    "end_report": Row(_plain),
    "comm_init": Row(_communicators, "- comms", comms=f.COMMUNICATORS, devices=f.DEVICES),
    "comm_init_rank": Row(
        Made,
        "- comm",
        comm=f.named("communicator", makes=True),
        together=f.named("group of ranks", makes=True),
        ranks=f.RANK,
        rank=f.RANK,
    ),
    "comm_destroy": Row(Destroyed, "comm", comm=f.named("communicator")),
    "collective": Row(_collective, "", calls=f.CALLS, name=f.LABEL),
    "create_context": Row(Made, "- context", context=f.named("context", makes=True), device=f.DEVICE),
    "set_context": Row(_plain, "context", context=f.CONTEXT),
    "destroy_context": Row(Destroyed, "context", context=f.CONTEXT),
    "set_device": Row(_plain, "device", device=f.DEVICE),
    "mem_get_info": Row(_plain),
    "host_write": Row(_plain, "buf", buf=f.MEMORY, value=f.INT32),
    "host_read": Row(_plain, "buf", buf=f.MEMORY),
    "host_access": Row(_plain, "access", reads=f.EXTENTS, writes=f.EXTENTS),
    "host_touch": Row(_plain, "buf", buf=f.MEMORY, bytes=f.COUNT),
    "host_func": Row(
        Queued,
        "function stream",
        stream=f.STREAM,
        us=f.US,
        buf=replace(f.MEMORY, default=None),
        by=f.COUNTED,
        **f.TOUCHED,
    ),
    "add_callback": Row(Queued, "function stream", stream=f.STREAM, us=f.US),
    "inc": Row(Queued, "kernel stream", buf=f.MEMORY, by=f.COUNTED, stream=f.STREAM),
    "touch": Row(Queued, "kernel stream", buf=f.MEMORY, bytes=f.COUNT, write=f.TIMING, stream=f.STREAM),
    "malloc_managed": Row(Began, "name", **f.allocate("managed")),
    "prefetch": Row(Queued, "prefetch stream", buf=f.MEMORY, bytes=f.COUNT, to=f.WHERE, stream=f.STREAM, off=f.OFFSET),
    "advise": Row(
        _plain,
        "buf off bytes advice to",
        buf=f.MEMORY,
        bytes=f.COUNT,
        advice=f.one_of(*f.ADVICE),
        to=replace(f.WHERE, default="host"),
        off=f.OFFSET,
    ),
    "attach": Row(_plain, "buf stream to", buf=f.MEMORY, stream=f.STREAM, to=f.one_of("global", "host", "single")),
    "pointer_attributes": Row(_plain, "buf", buf=f.MEMORY),
    "range_attribute": Row(_plain, "buf", buf=f.MEMORY, bytes=f.COUNT, attribute=f.one_of(*f.ATTRIBUTES)),
    "get_last_error": Row(Asked, "error code"),
    "peek_error": Row(Asked, "error code"),
    "memcpy_async_bad": Row(
        _plain, "stream", dst_addr=f.ADDRESS, src_addr=f.ADDRESS, bytes=f.COUNT, kind=f.INT, stream=f.STREAM
    ),
    "poke": Row(Queued, "kernel stream", addr=f.ADDRESS, stream=f.STREAM),
}
GRAPH_ROWS: Mapping[str, Row] = {
    "begin_capture": Row(
        CaptureBegan, "stream mode graph -", stream=f.STREAM, mode=f.ZERO, graph=replace(f.NEW_GRAPH, default=None)
    ),
    "begin_capture_to": Row(
        CaptureBegan, "stream mode graph behind", stream=f.STREAM, graph=f.GRAPH, mode=f.ZERO, behind=f.BEHIND
    ),
    "end_capture": Row(CaptureEnded, "stream graph", stream=f.STREAM, graph=f.NEW_GRAPH),
    "is_capturing": Row(Asked, "stream", stream=f.STREAM),
    "capture_info": Row(Asked, "stream", stream=f.STREAM),
    "exchange_mode": Row(_plain, "mode", mode=f.ZERO),
    "group_begin": Row(_plain, "stream", stream=f.STREAM),
    "group_end": Row(_plain, "stream group", stream=f.STREAM, group=f.named("task group", makes=True)),
    "update_begin": Row(_plain, "stream group", stream=f.STREAM, group=f.named("task group")),
    "update_end": Row(_plain, "stream", stream=f.STREAM),
    "graph_create": Row(Made, "- graph", graph=f.NEW_GRAPH),
    "graph_destroy": Row(Destroyed, "graph", graph=f.GRAPH),
    "add_empty": Row(NodeAdded, "graph - - - behind", graph=f.GRAPH, node=f.NODE, after=f.AFTER, behind=f.BEHIND),
    "add_child": Row(
        NodeAdded,
        "graph child - bodies behind",
        graph=f.GRAPH,
        child=f.GRAPH,
        node=f.NODE,
        after=f.AFTER,
        behind=f.BEHIND,
        bodies=f.BODIES,
    ),
    "add_if": Row(
        NodeAdded, "graph - default bodies behind", graph=f.GRAPH, default=f.ZERO, behind=f.BEHIND, bodies=f.BODIES
    ),
    "begin_capture_body": Row(CaptureBegan, "stream - - -", stream=f.STREAM),
    "end_capture_body": Row(CaptureEnded, "stream -", stream=f.STREAM),
    "clone": Row(Made, "graph to bodies", graph=f.GRAPH, to=f.NEW_GRAPH, bodies=f.BODIES),
    "nodes": Row(_plain, "graph", graph=f.GRAPH),
    "instantiate": Row(Made, "graph exec", graph=f.GRAPH, exec=f.named("executable", makes=True), flags=f.ZERO),
    "upload": Row(_plain, "exec stream", exec=f.EXECUTABLE, stream=f.STREAM),
    "graph_launch": Row(
        GraphLaunched,
        "exec stream",
        exec=f.EXECUTABLE,
        stream=f.STREAM,
        taken=Field(
            "a list of true, false and numbers",
            lambda value: isinstance(value, list) and all(isinstance(each, int) and each >= 0 for each in value),
            None,
        ),
    ),
    "exec_update": Row(GraphUpdated, "exec graph", exec=f.EXECUTABLE, graph=f.GRAPH, always=f.BLOCKING),
    "exec_destroy": Row(Destroyed, "exec", exec=f.EXECUTABLE),
}
ROWS = {**ROWS, **GRAPH_ROWS}
OPS = {op: row.fields for op, row in ROWS.items()}
GRAPH_OPS = tuple(GRAPH_ROWS)

GIVE_WAY = "give_way"  # the step of a task that lets others go on
HOST_ACCESS: Act[Any] = Plain((Name("access"),))


def with_buffer(op: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the *options* of a step, as it is written: measured programs have "name" for the buffer of an "inc"."""
    if op == "inc" and "name" in options and "buf" not in options:
        return {"buf" if name == "name" else name: value for name, value in options.items()}
    return options


def _key(act: Act[Any]) -> tuple[object, ...]:
    return type(act), *(each.kind for each in leaves(act) if isinstance(each, Name))


_WRITTEN: dict[tuple[object, ...], str] = {}  # the first row for the acts of each kind
for _op, _row in ROWS.items():
    _WRITTEN.setdefault(_key(_row.act(dict.fromkeys(_row.fields, ""))), _op)


def written(act: Act[Any]) -> tuple[str, dict[str, Any]]:
    """Return the op of the step that does *act*, and the fields that are parts of it."""
    op = _WRITTEN[_key(act)]
    parts = (part for part in ROWS[op].parts if part != "-")
    named = zip(parts, leaves(act), strict=False)
    return op, {part: each.name for part, each in named if part in OPS[op] and isinstance(each, Name)}
