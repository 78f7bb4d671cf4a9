"""The step that makes the same call: the fields that the format of stream programs has for it."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from acl_py.calls.fields import STREAMS, TAKING, device_of_primary, primary_of
from acl_py.calls.steps import ROWS
from acl_py.calls.table import FAULTS, all_verbs
from acl_py.recorded.graphs import Graphs
from acl_py.trace.rows.columns import call_columns, op_columns
from acl_py.trace.rows.timeline import (
    Access,
    Call,
    Copied,
    Extent,
    Filled,
    Handle,
    Joint,
    Launched,
    Operation,
    Prefetched,
    Ref,
    Thing,
    Timeline,
)  # fmt: skip

Fields = dict[str, Any]  # of a step, or of a buffer, a stream or an event

AWAIT: Fields = {"op": "sync_op"}
GIVE_WAY: Fields = {"op": "give_way"}

NUMBERED = re.compile(r"allocation [0-9]+")  # memory without a name: messages name the line that made it
_GIVEN = re.compile(r"""[^'"]+ (['"])([^\\]+)\1""")
PAGEABLE = "pageable memory"  # all memory of the host that no call has made: which arrays it was is not recorded
_RESERVED = (*STREAMS, PAGEABLE)  # names that mean something in a program, as those of primary contexts do


class Translator:
    """Puts the calls and operations of *timeline* into the words of the format.

    `used` are the buffers, streams and events that exist before the first call, `notes` what the format cannot say.
    """

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.notes: dict[str, None] = {}
        self._handles = unique([_plain(handle.name) for handle in timeline.handles])
        self._buffers = unique([_plain(memory.name) for memory in timeline.buffers])
        self._made = set(self._names_made())
        self._used: dict[str, dict[str, Fields]] = {"buffers": {}, "streams": {}, "events": {}}
        self._pageable = 0  # bytes of memory of the host that no call has made
        has_functions = any(kind.kind == "host_function" for kind in op_columns(timeline.ops).kinds)
        self._functions = {
            (op.queued_ns, op.in_stream): op
            for op in (timeline.ops if has_functions else ())
            if op.kind == "host_function" and op.launch is None
        }
        self.graphs = Graphs(timeline)
        # Calls of one kind share an act: what is known of both, by the name of the call and the identity of its act.
        self._known: dict[tuple[str, int], _Known] = {}

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
                found = self._field(part, value, call)
                if not found:
                    return None
                fields |= found
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
            text = self._handle(value.handle)
            options = handle.options
            if isinstance(call.act, Made) and handle.kind == "stream":
                flags = "nonblocking" if options.get("nonblocking") else "blocking"
                return _without_defaults({name: text, "flags": flags, "priority": options.get("priority", 0)})
            if isinstance(call.act, Made) and handle.kind == "event":
                timing, blocking = options.get("timing", True), options.get("blocking", False)
                return _without_defaults({name: text, "timing": timing, "blocking": blocking})
            return {name: text}
        if isinstance(value, Copied):
            return self._copy(value)
        if isinstance(value, Prefetched):
            return {"buf": self._buffer(value.buffer), "off": value.start, "bytes": value.bytes, "to": value.location}
        if isinstance(value, Filled):
            filled = {"dst": self._buffer(value.buffer), "dst_off": value.offset, "bytes": value.bytes}
            return _without_defaults(filled | {"value": value.value, "unit": value.unit})
        if isinstance(value, Word):
            return self._field(name, value.memory, call) | {"off": value.offset}
        if isinstance(value, Extent):
            fields: Fields = {name: self._buffer(value.buffer)}
            return fields | ({"bytes": value.stop} if isinstance(call.act, Began) else {})
        return {name: value}

    def _copy(self, copy: Copied) -> Fields:
        fields: Fields = {"dst": self._buffer(copy.dst), "src": self._buffer(copy.src)}
        span = copy.bytes
        if copy.width:
            fields |= {"dpitch": copy.dst_pitch, "spitch": copy.src_pitch, "width": copy.width, "height": copy.height}
            span = max(copy.dst_pitch, copy.src_pitch) * copy.height
        else:
            fields["bytes"] = copy.bytes
        if -1 in (copy.dst, copy.src):
            self._pageable = max(self._pageable, copy.dst_offset + span, copy.src_offset + span, 1)
        offsets = {"dst_off": 0 if copy.dst < 0 else copy.dst_offset, "src_off": 0 if copy.src < 0 else copy.src_offset}
        if copy.kind == "h2h" and self.timeline.rules == "acl" and not copy.width:
            fields["kind"] = "h2d"  # under ACL's rules DEFAULT would be refused
        return _without_defaults(fields | offsets)

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
        bodies = [self._handle(each.handle) for each in rest if isinstance(each, Ref)]
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
        again = self.timeline.buffers[act.memory.buffer].again
        is_known = again >= 0 and self._buffers[again] in self._made
        return fields | {"fill": False} | ({"again": self._buffers[again]} if is_known else {})

    def _create_event(self, fields: Fields, call: Call) -> Fields:
        kinds = {"CreateEventWithFlag": "flag", "CreateEventExWithFlag": "snapshot"}
        return fields | ({"kind": kinds[call.name]} if call.name in kinds else {})

    def _comm_init(self, fields: Fields, call: Call) -> Fields:
        act = call.act
        assert isinstance(act, Made), "it makes communicators"
        handles = [each.handle for each in (act.thing, *act.parts) if isinstance(each, Ref)]
        devices = [self.timeline.handles[handle].device for handle in handles]
        return fields | {"comms": [self._handle(handle) for handle in handles], "devices": devices}

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
        fields: Fields = {"kind": joint.kind, "comm": self._handle(comm.handle), "stream": self._handle(stream.handle)}
        fields |= {"count": joint.elements} if joint.elements else {}
        fields |= {"type": joint.type} if joint.type else {}
        fields |= {"reduction": joint.reduction} if joint.reduction else {}
        fields |= {name: rank for name, rank in (("root", joint.root), ("peer", joint.peer)) if rank >= 0}
        return fields | {
            name: self._extents(of) for name, of in (("reads", joint.reads), ("writes", joint.writes)) if of
        }

    def _create_context(self, fields: Fields, call: Call) -> Fields:
        act = call.act
        assert isinstance(act, Made), "it makes a context"
        assert isinstance(act.thing, Ref), "a context is a handle"
        return fields | _without_defaults({"device": self.timeline.handles[act.thing.handle].device})

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
        name = self._buffer(memory.buffer)
        extents = [[name, start, stop] for start, stop in zip(bounds[::2], bounds[1::2], strict=True)]
        return _access(extents, writes=writes)

    def accessed(self, access: Access) -> Fields:
        """Return the fields of the step that makes the same access of the host."""
        return _access(self._extents(access.extents), writes=access.writes)

    def queue(self, op: Operation) -> Fields:
        """Return the fields of the step that queues *op*."""
        stream = self._handle(op.in_stream)
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
        return {name: self._extents(of) for name, of in (("reads", op.reads), ("writes", op.writes)) if of}

    def _extents(self, extents: Iterable[Extent]) -> list[list[Any]]:
        return [[self._buffer(buffer), start, stop] for buffer, start, stop in extents]

    def _handle(self, place: int) -> str:
        """Return the name of a handle. If no call has made it, it exists before the first call."""
        handle, name = self.timeline.handles[place], self._handles[place]
        if handle.kind == "stream" and not handle.made:
            return "per_thread" if handle.name.startswith("per_thread") else "legacy"
        if handle.kind == "stream" and not handle.number:
            return TAKING
        if handle.kind == "context" and handle.name == "primary":
            return primary_of(handle.device)
        if name not in self._made and handle.kind in ("stream", "event"):
            self._used[f"{handle.kind}s"][name] = _declared(handle)
        return name

    def _buffer(self, place: int) -> str:
        if place < 0:
            self._pageable = max(self._pageable, 1)
            return PAGEABLE
        name, memory = self._buffers[place], self.timeline.buffers[place]
        if name not in self._made:
            self._used["buffers"][name] = _without_defaults(
                {"space": memory.space, "bytes": memory.bytes, "device": max(0, memory.device)}
            )
        return name


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
_DEFAULTS: Mapping[str, object] = {
    "flags": "blocking", "priority": 0, "timing": True, "blocking": False, "dst_off": 0, "src_off": 0, "value": 0,
    "unit": 1, "device": 0, "limit_s": 0, "mode": 0, "default": 0,
}  # fmt: skip


def _access(extents: list[list[Any]], *, writes: int) -> Fields:
    return {"op": "host_access", "writes" if writes else "reads": extents}


def asleep(ns: int) -> Fields:
    """Return the step of a task that sleeps."""
    return {"op": "sleep", "us": in_us(ns)}


def at_work(ns: int, name: str) -> Fields:
    """Return the step of a call of *name* that is only known by its time."""
    return {"op": "host_work", "us": in_us(ns), "name": name}


def _without_defaults(fields: Fields) -> Fields:
    return {name: value for name, value in fields.items() if name not in _DEFAULTS or value != _DEFAULTS[name]}


def asleep_since(call: Call) -> int:
    """Return when the caller fell asleep in *call* for the first time; -1 if it did not."""
    return call.sleeps[0].begin_ns if call.sleeps else -1


def site_of(call: Call | Access) -> str:
    """Return the line of *call*; empty if it has none."""
    return _short(call.file, call.line)


@lru_cache(maxsize=4096)
def _short(file: str, line: int) -> str:
    return f"{Path(file).name}:{line}" if file else ""


def _declared(handle: Handle) -> Fields:
    options = dict(handle.options)
    if handle.kind == "stream":
        flags = "nonblocking" if options.get("nonblocking") else "blocking"
        return _without_defaults({"flags": flags, "priority": options.get("priority", 0), "device": handle.device})
    timing, blocking = options.get("timing", True), options.get("blocking", False)
    return _without_defaults({"timing": timing, "blocking": blocking, "device": handle.device})


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


def _run(ns: int, released: Iterable[tuple[int, int]]) -> tuple[float, list[list[float]]]:
    return in_us(ns), [[in_us(at), count] for at, count in released]


def in_us(ns: int) -> float:
    """Return microseconds; whole ones as an int, so that a program is easier to read."""
    return ns // 1000 if ns % 1000 == 0 else ns / 1000


def _pitch(rows: Sequence[Extent], width: int) -> int:
    """Return how far apart *rows* begin; those that leave no gaps are one range."""
    return rows[1].start - rows[0].start if len(rows) > 1 else width
