"""The step that makes the same call: the fields that the format of stream programs has for it."""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from acl_py.calls.acts import (
    Act,
    Asked,
    Began,
    CallbackBegan,
    Completed,
    Destroyed,
    Ended,
    Joined,
    Made,
    Plain,
    Queued,
    Recorded,
    Slept,
    Synchronised,
    Waited,
    Word,
    leaves,
)
from acl_py.calls.steps import ROWS
from acl_py.calls.table import FAULTS, all_verbs
from acl_py.recorded.graphs import Graphs
from acl_py.recorded.names import Fields, Names, made_with, without_defaults
from acl_py.trace.rows.columns import op_columns
from acl_py.trace.rows.timeline import (
    Access,
    Call,
    Copied,
    Extent,
    Filled,
    Joint,
    Launched,
    Operation,
    Prefetched,
    Ref,
    Thing,
    Timeline,
)  # fmt: skip

AWAIT: Fields = {"op": "sync_op"}
GIVE_WAY: Fields = {"op": "give_way"}


class Translator:
    """Puts the calls and operations of *timeline* into the words of the format.

    `names` has the names of what the calls are about, and `notes` what the format cannot say.
    """

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.notes: dict[str, None] = {}
        self.names = Names(timeline)
        has_functions = any(kind.kind == "host_function" for kind in op_columns(timeline.ops).kinds)
        self._functions = {
            (op.queued_ns, op.in_stream): op
            for op in (timeline.ops if has_functions else ())
            if op.kind == "host_function" and op.launch is None
        }
        self.graphs = Graphs(timeline)
        # Calls of one kind share an act: what is known of both, by the name of the call and the identity of its act.
        self._known: dict[tuple[str, int], _Known] = {}

    def note(self, text: str) -> None:
        """Add *text* to the notes."""
        self.notes[text] = None

    def translated(self, call: Call) -> Fields | None:
        """Return the fields of the step that makes the same call; None if the format has none."""
        key = call.name, id(call.act)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._look_up(call)
        if known.fields is None:
            match call.act:
                case Synchronised(Ref() as stream) if known.is_foreign and asleep_since(call) >= 0:
                    fields = {"op": "sync_stream", **self._field("stream", stream, call), "name": call.name}
                    return self._sync_stream(fields, call)
            return None
        fields = dict(known.fields)
        return fields if known.special is None else known.special(fields, call)

    def pauses(self, call: Call) -> bool:
        """Whether other tasks may run in *call*, which is a step, even if there is nothing to wait for."""
        known = self._known[call.name, id(call.act)]
        return known.pauses

    def _look_up(self, call: Call) -> "_Known":
        """Return what calls with the name and the act of *call* have in common."""
        verb = all_verbs().get(call.name)
        op = _OTHERS.get(call.name) if verb is None else verb.step
        fields = self._fields(op, call) if op else None
        return _Known(call.act, not op, fields, getattr(self, f"_{op}", None), _pauses(call, op, self.timeline))

    def _fields(self, op: str, call: Call) -> Fields | None:
        """Return the fields of the step *op* that the act of *call* has; None if it says too little."""
        fields: Fields = {"op": op}
        row, act = ROWS[op], call.act
        for part, value in zip(row.parts, act.about if isinstance(act, Plain) else act, strict=False):
            if part in _WORK or (part in row.fields and part not in _BESIDE):
                told = self._field(part, value, call)
                if not told:
                    return None
                fields |= told
        return fields

    def _field(self, name: str, value: object, call: Call) -> Fields:
        if value is None:  # work of no bytes
            return {}
        if isinstance(value, Launched):
            return self._kernel(value)
        if isinstance(value, Ref):
            handle = self.timeline.handles[value.handle]
            if name == "device":
                return {"device": handle.device}
            text = self.names.handle(value.handle)
            if isinstance(call.act, Made) and handle.kind in ("stream", "event"):
                return without_defaults({name: text, **made_with(handle)})
            return {name: text}
        if isinstance(value, Copied):
            return self._copy(value)
        if isinstance(value, Prefetched):
            buffer = self.names.buffer(value.buffer)
            return {"buf": buffer, "off": value.start, "bytes": value.bytes, "to": value.location}
        if isinstance(value, Filled):
            filled = {"dst": self.names.buffer(value.buffer), "dst_off": value.offset, "bytes": value.bytes}
            return without_defaults(filled | {"value": value.value, "unit": value.unit})
        if isinstance(value, Word):
            return self._field(name, value.memory, call) | {"off": value.offset}
        if isinstance(value, Extent):
            fields: Fields = {name: self.names.buffer(value.buffer)}
            return fields | ({"bytes": value.stop} if isinstance(call.act, Began) else {})
        return {name: value}

    def _copy(self, copy: Copied) -> Fields:
        fields: Fields = {"dst": self.names.buffer(copy.dst), "src": self.names.buffer(copy.src)}
        span = copy.bytes
        if copy.width:
            fields |= {"dpitch": copy.dst_pitch, "spitch": copy.src_pitch, "width": copy.width, "height": copy.height}
            span = max(copy.dst_pitch, copy.src_pitch) * copy.height
        else:
            fields["bytes"] = copy.bytes
        if -1 in (copy.dst, copy.src):
            self.names.need_pageable(max(copy.dst_offset + span, copy.src_offset + span, 1))
        offsets = {"dst_off": 0 if copy.dst < 0 else copy.dst_offset, "src_off": 0 if copy.src < 0 else copy.src_offset}
        if copy.kind == "h2h" and self.timeline.rules == "acl" and not copy.width:
            fields["kind"] = "h2d"  # under ACL's rules DEFAULT would be refused
        return without_defaults(fields | offsets)

    def _kernel(self, kernel: Launched) -> Fields:
        """Return the fields of a kernel that was captured."""
        fields: Fields = {"op": "launch", "us": in_us(kernel.block_ns), "name": kernel.name}
        if kernel.cores:
            first, *more = self.graphs.runs[kernel.number] or [(0, ())]
            us, released = _run(*first)
            fields |= {"op": "launch_cores", "us": us, "cores": kernel.cores, "released": released}
            fields |= {"more": [[*_run(*run)] for run in more]} if more else {}
        elif kernel.exclusive:
            fields["exclusive"] = True
        return fields | {"blocks": kernel.blocks} | self._touched(kernel)

    def _record(self, fields: Fields, call: Call) -> Fields:
        act = call.act
        return fields | ({"external": True} if isinstance(act, Recorded | Waited) and act.external == 1 else {})

    _wait = _record

    def _add_empty(self, fields: Fields, call: Call) -> Fields:
        rest = list(leaves(call.act))[len(fields) - 1 :]
        behind = [each for each in rest if not isinstance(each, Ref)]
        bodies = [self.names.handle(each.handle) for each in rest if isinstance(each, Ref)]
        return fields | ({"behind": behind} if behind else {}) | ({"bodies": bodies} if bodies else {})

    _add_child = _add_if = _clone = _begin_capture_to = _add_empty

    def _graph_launch(self, fields: Fields, call: Call) -> Fields:
        launch = self.graphs.launch_of(call)
        taken = () if launch is None else self.timeline.launches[launch].taken
        return fields | ({"taken": [*taken]} if taken else {})

    def _instantiate(self, fields: Fields, call: Call) -> Fields:
        act = call.act
        assert isinstance(act, Made), "it makes an executable"
        return fields | {"flags": act.flags}

    def _memcpy(self, fields: Fields, call: Call) -> Fields:  # noqa: ARG002 - as all of them are called
        fields.pop("kind", None)
        return fields

    def _host_func(self, fields: Fields, call: Call) -> Fields | None:
        act = call.act
        assert isinstance(act, Queued), "a host function is queued"
        assert isinstance(act.stream, Ref), "a host function is in a stream"
        fields |= self._field("stream", act.stream, call)
        op = self._functions.get((call.exit_ns, act.stream.handle))
        if op is None:  # captured, or not ended
            function = act.work
            assert isinstance(function, Launched), "its work is a function"
            touched = self._touched(self.graphs.touched(function, site_of(call)))
            return fields | {"us": in_us(function.block_ns), "name": function.name} | touched
        return fields | {"us": in_us(op.end_ns - op.start_ns), "name": op.name} | self._touched(op)

    def _sleep(self, fields: Fields, call: Call) -> Fields:
        return fields | {"us": in_us(call.waited_ns)}

    def _host_work(self, fields: Fields, call: Call) -> Fields:
        return fields | {"us": in_us(call.exit_ns - call.enter_ns)}

    def _host_register(self, fields: Fields, call: Call) -> Fields:
        act = call.act
        assert isinstance(act, Began), "a life begins"
        assert isinstance(act.memory, Extent), "it is memory"
        again = self.names.made_before(self.timeline.buffers[act.memory.buffer].again)
        return fields | {"fill": False} | ({} if again is None else {"again": again})

    def _create_event(self, fields: Fields, call: Call) -> Fields:
        kinds = {"CreateEventWithFlag": "flag", "CreateEventExWithFlag": "snapshot"}
        return fields | ({"kind": kinds[call.name]} if call.name in kinds else {})

    def _comm_init(self, fields: Fields, call: Call) -> Fields:
        act = call.act
        assert isinstance(act, Made), "it makes communicators"
        handles = [each.handle for each in (act.thing, *act.parts) if isinstance(each, Ref)]
        devices = [self.timeline.handles[handle].device for handle in handles]
        return fields | {"comms": [self.names.handle(handle) for handle in handles], "devices": devices}

    def _comm_init_rank(self, fields: Fields, call: Call) -> Fields:
        act = call.act
        assert isinstance(act, Made), "it makes a communicator"
        assert isinstance(act.thing, Ref), "a communicator is a handle"
        options = self.timeline.handles[act.thing.handle].options
        together = {"together": f"communicator {options['clique']}"}
        return fields | together | {"ranks": options["ranks"], "rank": options["rank"]}

    def _collective(self, fields: Fields, call: Call) -> Fields:
        """Return a step of all that *call* has queued; what is called in a group is queued at its end."""
        act = call.act
        if not isinstance(act, Joined):
            return at_work(call.exit_ns - call.enter_ns, call.name)
        parts = zip(act.work, act.communicators, act.streams, strict=True)
        fields["calls"] = [self._joint(*part) for part in parts]
        usual = "GroupEnd" if len(act.work) > 1 else fields["calls"][0]["kind"]
        return fields if call.name == usual else fields | {"name": call.name}

    def _joint(self, joint: Thing, comm: Thing, stream: Thing) -> Fields:
        assert isinstance(joint, Joint), "a rank takes part in a collective"
        assert isinstance(comm, Ref), "a communicator is a handle"
        assert isinstance(stream, Ref), "a stream is a handle"
        comm_name, stream_name = self.names.handle(comm.handle), self.names.handle(stream.handle)
        fields: Fields = {"kind": joint.kind, "comm": comm_name, "stream": stream_name}
        fields |= {"count": joint.elements} if joint.elements else {}
        fields |= {"type": joint.type} if joint.type else {}
        fields |= {"reduction": joint.reduction} if joint.reduction else {}
        fields |= {name: rank for name, rank in (("root", joint.root), ("peer", joint.peer)) if rank >= 0}
        return fields | {
            name: self.names.extents(of) for name, of in (("reads", joint.reads), ("writes", joint.writes)) if of
        }

    def _create_context(self, fields: Fields, call: Call) -> Fields:
        act = call.act
        assert isinstance(act, Made), "it makes a context"
        assert isinstance(act.thing, Ref), "a context is a handle"
        return fields | without_defaults({"device": self.timeline.handles[act.thing.handle].device})

    def _sync_stream(self, fields: Fields, call: Call) -> Fields:
        act = call.act
        limit = act.limit_ms if isinstance(act, Synchronised | CallbackBegan) else None
        if limit is None or limit < 0:
            return fields
        if call.waited_ns == limit * 10**6:
            self.note(f"{site_of(call)}: the limit of {call.name} struck; what the host did then is fixed here")
        return fields | {"limit_ms": limit}

    _sync_event = _sync_device = _process_report = _sync_stream

    def _launch_callback(self, fields: Fields, call: Call) -> Fields:  # noqa: ARG002
        return fields | {"block": bool(fields["block"])}

    def _value_wait(self, fields: Fields, call: Call) -> Fields:  # noqa: ARG002
        return fields | {"compare": ("geq", "eq", "and", "nor")[fields["compare"]]}

    def _free(self, fields: Fields, call: Call) -> Fields:
        return fields | ({"sync": True} if call.name.endswith("WithDevSync") else {})

    _free_host = _free

    def _prefetch(self, fields: Fields, call: Call) -> Fields:  # noqa: ARG002
        fields = {name: fields[name] for name in ("op", "buf", "stream") if name in fields} | fields
        return fields | {"to": "host" if fields["to"] < 0 else fields["to"]}

    def _advise(self, fields: Fields, call: Call) -> Fields:
        subject = ("ReadMostly", "PreferredLocation", "AccessedBy")[(fields["advice"] - 1) // 2]
        verb = "Set" if fields["advice"] % 2 else "Unset"
        return self._prefetch(fields | {"advice": f"{verb}{subject}"}, call)

    def _attach(self, fields: Fields, call: Call) -> Fields:  # noqa: ARG002
        return fields | {"to": {1: "global", 2: "host", 4: "single"}[fields["to"]]}

    def _host_access(self, fields: Fields, call: Call) -> Fields:  # noqa: ARG002
        """Return the access that had to wait for pages: what the call was about is memory, whether it writes, bytes."""
        memory, writes, *bounds = leaves(call.act)
        name = self.names.buffer(memory.buffer)
        extents = [[name, start, stop] for start, stop in zip(bounds[::2], bounds[1::2], strict=True)]
        return _access(extents, writes=writes)

    def accessed(self, access: Access) -> Fields:
        """Return the fields of the step that makes the same access of the host."""
        return _access(self.names.extents(access.extents), writes=access.writes)

    def queue(self, op: Operation) -> Fields:
        """Return the fields of the step that queues *op*."""
        stream = self.names.handle(op.in_stream)
        if op.kind != "kernel":
            reads, writes = op.reads or [_NOWHERE], op.writes or [_NOWHERE]
            copy = Copied(op.kind, writes[0].buffer, writes[0].start, reads[0].buffer, reads[0].start, op.bytes)
            if (height := max(len(reads), len(writes))) > 1:
                width = op.bytes // height
                copy = copy._replace(
                    width=width, height=height, dst_pitch=_pitch(writes, width), src_pitch=_pitch(reads, width)
                )
            return {"op": "memcpy2d_async" if height > 1 else "memcpy_async", **self._copy(copy), "stream": stream}
        fields: Fields = {"op": "launch", "stream": stream, "us": in_us(op.block_ns), "name": op.name}
        if op.cores is not None:
            released = [[in_us(at), count] for at, count in op.cores.released]
            fields |= {"op": "launch_cores", "us": in_us(op.end_ns - op.start_ns), "released": released}
            fields["cores"] = sum(count for _, count in released)
        elif op.exclusive:
            fields["exclusive"] = True
        return fields | {"blocks": op.blocks or 1} | self._touched(op)

    def _touched(self, op: Operation | Launched) -> Fields:
        """Return the bytes that *op* touches, as fields."""
        return {name: self.names.extents(of) for name, of in (("reads", op.reads), ("writes", op.writes)) if of}


class _Known(NamedTuple):
    """What calls of one name with one act have in common."""

    act: Act[Any]  # alive, so that its identity stays its own
    is_foreign: bool  # no step makes such a call
    fields: Fields | None  # of the step; None if the act says too little
    special: Callable[[Fields, Call], Fields | None] | None  # adds what is of the single call
    pauses: bool


def _pauses(call: Call, op: str | None, timeline: Timeline) -> bool:
    match call.act:
        case Synchronised() | Completed() | CallbackBegan() | Ended(_, None) | Queued(Copied()):
            return True
        case Destroyed(Ref(place)):
            return timeline.handles[place].kind == "stream"
        case Asked(_, answer):
            return answer is not None
        case Slept():
            return op == "sleep"
    return False


_NOWHERE = Extent(-1, 0, 0)
_OTHERS = {"await": AWAIT["op"], FAULTS: "host_access", "EndReport": "end_report"}  # steps of what is no verb
_WORK = ("copy", "fill", "kernel", "prefetch")  # parts of an act that are several fields of its step
_BESIDE = ("until", "limit_ms", "external", "bodies", "behind", "of")  # fields that are made by the step's own method


def _access(extents: list[list[Any]], *, writes: int) -> Fields:
    return {"op": "host_access", "writes" if writes else "reads": extents}


def asleep(ns: int) -> Fields:
    """Return the step of a task that sleeps."""
    return {"op": "sleep", "us": in_us(ns)}


def at_work(ns: int, name: str) -> Fields:
    """Return the step of a call of *name* that is only known by its time."""
    return {"op": "host_work", "us": in_us(ns), "name": name}


def asleep_since(call: Call) -> int:
    """Return when the caller fell asleep in *call* for the first time; -1 if it did not."""
    return call.sleeps[0].begin_ns if call.sleeps else -1


def site_of(call: Call | Access) -> str:
    """Return the line of *call*; empty if it has none."""
    return _short(call.file, call.line)


@lru_cache(maxsize=4096)
def _short(file: str, line: int) -> str:
    return f"{Path(file).name}:{line}" if file else ""


def _run(ns: int, released: Iterable[tuple[int, int]]) -> tuple[float, list[list[float]]]:
    return in_us(ns), [[in_us(at), count] for at, count in released]


def in_us(ns: int) -> float:
    """Return microseconds; whole ones as an int, so that a program is easier to read."""
    return ns // 1000 if ns % 1000 == 0 else ns / 1000


def _pitch(rows: Sequence[Extent], width: int) -> int:
    """Return how far apart *rows* begin; those that leave no gaps are one range."""
    return rows[1].start - rows[0].start if len(rows) > 1 else width
