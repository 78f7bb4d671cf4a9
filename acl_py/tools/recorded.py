"""Recorded programs: the stream program of a run. It makes the same calls at the same times, to the nanosecond.

What is no interaction with a device is host time. A call that the format has becomes a step. Any other call becomes
host work with its name, and the time in which the host did nothing until a task went on by itself becomes a sleep of
that task.

What a task has waited for outside devices (a queue, a lock, a `gather`) is not recorded. It is found from this: if the
wait of another task has ended since the last step of a task, then time has passed in which the task could not run. So
its next step comes `after` that one.

What the program cannot keep is in its `notes`: decisions of the host that depend on times, and calls whose effect the
format does not have.
"""

import json
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise
from pathlib import Path
from typing import Any

from acl_py.trace.rows import Call, Copied, Extent, Filled, Handle, Operation, Ref, Timeline

_Fields = dict[str, Any]
_GIVEN = re.compile(r"""[^'"]+ (['"])([^\\]+)\1""")
_RESERVED = ("legacy", "per_thread", "primary", "pageable memory")  # names that mean something in a program
_LAST = 1 << 62  # behind all staged copies
_QUEUING = ("LaunchKernel", "MemcpyAsync")  # an operation has the facts of these calls, unless it was staged
_SYNCHRONISING = ("sync_stream", "sync_event", "sync_device", "sync_op")
_QUERIES = ("query_stream", "query_event", "query_waits")
# Calls in which other tasks may run, even if there is nothing to wait for.
_PAUSES = (
    *_SYNCHRONISING, *_QUERIES, "sleep", "memcpy", "memset", "memcpy2d", "memcpy2d_async", "destroy_stream", "free",
    "free_host", "host_unregister", "process_report",
)  # fmt: skip
_MAKERS = ("Create", "Malloc", "HostRegister")  # how the names of calls that make something begin
# Calls that change what later calls do, and that the format does not have.
_EFFECTS = (
    "CreateStreamWithConfig", "DestroyStreamForce", "StreamAbort", "SetStreamFailureMode", "SetOpWaitTimeOut",
    "SetOpExecuteTimeOut", "ResetDevice", "ResetDeviceForce", "Finalize", "DeviceEnablePeerAccess",
    "DeviceDisablePeerAccess", "LaunchKernel", "MemcpyAsync",
)  # fmt: skip


def program(timeline: Timeline, name: str = "recorded") -> dict[str, Any]:
    """Return the stream program called *name* of the run in *timeline*, as a JSON document: see docs/programs.md.

    `acl_py.tools.programs.parse` checks it, and `acl_py.tools.replay.replay` runs it on `timeline.device` under
    `timeline.rules`.
    """
    return _Writer(timeline, name).document()


def write(timeline: Timeline, path: Path) -> None:
    """Write the program of the run in *timeline* to the file *path*, as JSON with a line for each step."""
    document = program(timeline)
    steps = ",\n  ".join(json.dumps(step) for step in document.pop("steps"))
    head = json.dumps(document, indent=1).removesuffix("\n}")
    path.write_text(f'{head},\n "steps": [\n  {steps}\n ]\n}}\n', encoding="utf-8")


@dataclass(slots=True)
class _Act:
    """One call of the run as a step: the caller, from when to when, and when it fell asleep in it (-1: it did not)."""

    caller: int
    enter: int
    exit: int
    since: int
    site: str
    fields: _Fields
    row: int  # for the order of calls at one time
    staged: int = -1  # the number of the staged copy in which it fell asleep for the first time
    naps: tuple[tuple[int, int], ...] = ()  # when it fell asleep again, and the number of that staged copy
    yields: bool = False  # it did not sleep, and other tasks ran meanwhile
    op: int | None = None  # the operation that it has queued, as an index
    after: int | None = None  # the operation that it has waited for
    done: bool | None = None  # the answer of a query

    @property
    def begun(self) -> int:
        """When the host could do something else for the first time."""
        return self.exit if self.since < 0 else self.since


@dataclass(slots=True)
class _Item:
    """A place in the order of the host: a step that begins at *at*, or a call that has slept and goes on until *at*
    (*fields* is None).
    """

    at: int
    act: _Act
    fields: _Fields | None
    after: "_Item | None" = None  # the step that must have ended
    index: int = -1  # of its step


class _Writer:
    def __init__(self, timeline: Timeline, name: str) -> None:
        self.timeline, self.name = timeline, name
        self.notes: dict[str, None] = {}
        self.handles = _unique([_plain(handle.name) for handle in timeline.handles])
        self.buffers = _unique([_plain(memory.name) for memory in timeline.buffers])
        self.made = set(self._made())
        self.used: dict[str, dict[str, _Fields]] = {"buffers": {}, "streams": {}, "events": {}}  # that exist before
        self.pageable = 0  # bytes of memory of the host that no call has made
        self.functions = {(op.queued_ns, op.in_stream): op for op in timeline.ops if op.kind == "host_function"}

    def _made(self) -> Iterator[str]:
        """Return the names of the handles and buffers that calls of the run have made."""
        for call in self.timeline.calls:
            if call.name.startswith(_MAKERS):
                for each in call.about[:1]:  # MallocAsync is also about a stream
                    if isinstance(each, Ref):
                        yield self.handles[each.handle]
                    elif isinstance(each, Extent):
                        yield self.buffers[each.buffer]

    def document(self) -> dict[str, Any]:
        """Return the program."""
        items = _order(self._collapsed(self._acts()))
        steps = self._steps(items)
        buffers = self.used["buffers"]
        if self.pageable:
            buffers["pageable memory"] = {"space": "pageable", "bytes": self.pageable}
        self.used["streams"] = self._declared_streams()
        if self.timeline.strikes:
            self._note("faults were injected: the calls and operations that they struck are as without them")
        if self.timeline.error:
            self._note(f"the run ended with an error: {self.timeline.error.splitlines()[0]}")
        where = {"device": self.timeline.device, "rules": self.timeline.rules}
        document: dict[str, Any] = {"id": self.name, **where, "gap_us": 0, "notes": list(self.notes)}
        return document | self.used | {"steps": steps}

    def _declared_streams(self) -> dict[str, _Fields]:
        """Return the streams that exist before the first call in the order in which they were made.

        Those that were never used count, too: the place of a stream decides about its hardware queues.
        """
        numbers = {handle.number: name for handle, name in zip(self.timeline.handles, self.handles, strict=True)
                   if name in self.used["streams"]}  # fmt: skip
        last = max(numbers, default=0)
        names = [numbers.get(number, f"unused stream {number}") for number in range(1, last + 1)]
        return {name: self.used["streams"].get(name, {}) for name in names}

    def _note(self, text: str) -> None:
        self.notes[text] = None

    # --- from rows to acts

    def _acts(self) -> list[_Act]:
        """Return the calls of the run in the order in which they began."""
        ops, acts = self.timeline.ops, []
        queued: Counter[tuple[int, int, int]] = Counter()
        for index, op in enumerate(ops):
            if op.called_ns >= 0:
                queued[op.by, op.called_ns, op.queued_ns] += 1
                acts.append(_Act(op.by, op.called_ns, op.queued_ns, -1, op.site, self._queue(op), -1, op=index))
        by_time = {(act.caller, act.enter, act.exit): act for act in acts}
        for row, call in enumerate(self.timeline.calls):
            key = call.by, call.enter_ns, call.exit_ns
            if call.name in _QUEUING and queued[key]:
                queued[key] -= 1
                by_time[key].row, by_time[key].since = row, _since(call)
                continue
            acts += self._act(row, call)
        acts.sort(key=lambda act: (act.enter, act.begun, act.staged, act.row))
        acts += _ends_of_callbacks(acts)
        acts.sort(key=lambda act: (act.enter, act.begun, act.staged, act.row))
        self._name_waits(acts)
        return acts

    def _act(self, row: int, call: Call) -> Iterator[_Act]:
        """Return the step, or the steps, of one call."""
        site = _site(call)
        fields = self._translated(call)
        awake = _Act(call.by, call.enter_ns, call.exit_ns, _since(call), site, {}, row, op=None, after=call.after)
        awake.staged = call.sleeps[0].number if call.sleeps else -1
        awake.naps = tuple((sleep.begin_ns, sleep.number) for sleep in call.sleeps[1:])
        if call.name == "LaunchHostFunc":
            awake.op = None
        if fields is not None and not self._was_cut_short(call, fields):
            awake.fields = fields
            if fields["op"] in _QUERIES:
                awake.done = bool(call.about[-1])
            yield awake
            return
        if call.name in _EFFECTS:
            self._note(f"{site}: {call.name} is no step of a program: its time is kept, its effect is not")
        if _since(call) < 0:
            awake.fields = {"op": "host_work", "us": _us(call.exit_ns - call.enter_ns), "name": call.name}
            yield awake
            return
        if fields is None:
            self._note(f"{site}: {call.name} has waited, and the program has a fixed time in its place")
        else:
            self._note(
                f"{site}: the wait in {call.name} was ended by a time-out or a cancellation, at a fixed time here"
            )
        end = _since(call) + call.waited_ns
        awake.fields = {"op": "host_work", "us": _us(_since(call) - call.enter_ns), "name": call.name}
        yield _Act(call.by, call.enter_ns, _since(call), -1, site, awake.fields, row)
        fields = {"op": "sleep", "us": _us(call.waited_ns)}
        yield _Act(call.by, _since(call), end, _since(call), site, fields, row)
        if call.exit_ns > end:
            fields = {"op": "host_work", "us": _us(call.exit_ns - end), "name": call.name}
            yield _Act(call.by, end, call.exit_ns, -1, site, fields, row)

    def _was_cut_short(self, call: Call, fields: _Fields) -> bool:
        """Whether the wait of *call* ended without its wake-up: it was cancelled."""
        return fields["op"] in _SYNCHRONISING and _since(call) >= 0 and call.exit_ns == _since(call) + call.waited_ns

    def _translated(self, call: Call) -> _Fields | None:
        """Return the fields of the step that makes the same call; None if the format has none."""
        translate = _TRANSLATIONS.get(call.name)
        if translate is None:
            if _since(call) >= 0 and len(call.about) == 1 and isinstance(call.about[0], Ref):  # of another face
                return {"op": "sync_stream", "stream": self._handle(call.about[0].handle), "name": call.name}
            return None
        op, names = translate
        fields: _Fields = {"op": op}
        about = list(call.about)
        for name in names:
            if not about:
                return None
            found = self._field(name, about.pop(0), call)
            if not found:
                return None
            fields |= found
        special = getattr(self, f"_{op}", None)
        return fields if special is None else special(fields, call)

    def _field(self, name: str, value: object, call: Call) -> _Fields:
        if name in ("copy", "fill") and not isinstance(value, Copied | Filled):  # of no bytes
            return {}
        if isinstance(value, Ref):
            handle = self.timeline.handles[value.handle]
            if name == "device":
                return {"device": handle.device}
            text = self._handle(value.handle)
            options = handle.options
            if call.name.startswith("CreateStream"):
                flags = "nonblocking" if options.get("nonblocking") else "blocking"
                return _without_defaults({name: text, "flags": flags, "priority": options.get("priority", 0)})
            if call.name.startswith("CreateEvent"):
                timing, blocking = options.get("timing", True), options.get("blocking", False)
                return _without_defaults({name: text, "timing": timing, "blocking": blocking})
            return {name: text}
        if isinstance(value, Copied):
            return self._copy(value)
        if isinstance(value, Filled):
            filled = {"dst": self._buffer(value.buffer), "dst_off": value.offset, "bytes": value.bytes}
            return _without_defaults(filled | {"value": value.value})
        if isinstance(value, Extent):
            fields: _Fields = {name: self._buffer(value.buffer)}
            return fields | ({"bytes": value.stop} if call.name.startswith(_MAKERS) else {})
        return {name: value}

    def _copy(self, copy: Copied) -> _Fields:
        fields: _Fields = {"dst": self._buffer(copy.dst), "src": self._buffer(copy.src)}
        span = copy.bytes
        if copy.width:
            fields |= {"dpitch": copy.dst_pitch, "spitch": copy.src_pitch, "width": copy.width, "height": copy.height}
            span = max(copy.dst_pitch, copy.src_pitch) * copy.height
        else:
            fields["bytes"] = copy.bytes
        if -1 in (copy.dst, copy.src):
            self.pageable = max(self.pageable, copy.dst_offset + span, copy.src_offset + span, 1)
        offsets = {"dst_off": 0 if copy.dst < 0 else copy.dst_offset, "src_off": 0 if copy.src < 0 else copy.src_offset}
        if copy.kind == "h2h" and self.timeline.rules == "acl" and not copy.width:
            fields["kind"] = "h2d"  # under ACL's rules DEFAULT would be refused
        return _without_defaults(fields | offsets)

    def _memcpy(self, fields: _Fields, call: Call) -> _Fields:  # noqa: ARG002 - as all of them are called
        fields.pop("kind", None)
        return fields

    def _host_func(self, fields: _Fields, call: Call) -> _Fields | None:
        ref = call.about[0]
        op = self.functions.get((call.exit_ns, ref.handle)) if isinstance(ref, Ref) else None
        if op is None:
            self._note("a host function had not ended: the program has its time as 0")
            return fields | {"us": 0}
        return fields | {"us": _us(op.end_ns - op.start_ns), "name": op.name}

    def _sleep(self, fields: _Fields, call: Call) -> _Fields:
        return fields | {"us": _us(call.waited_ns)}

    def _host_work(self, fields: _Fields, call: Call) -> _Fields:
        return fields | {"us": _us(call.exit_ns - call.enter_ns)}

    def _host_register(self, fields: _Fields, call: Call) -> _Fields:  # noqa: ARG002
        return fields | {"fill": False}

    def _create_event(self, fields: _Fields, call: Call) -> _Fields:
        kinds = {"CreateEventWithFlag": "flag", "CreateEventExWithFlag": "snapshot"}
        return fields | ({"kind": kinds[call.name]} if call.name in kinds else {})

    def _create_context(self, fields: _Fields, call: Call) -> _Fields:
        [ref] = call.about
        assert isinstance(ref, Ref), "it is about a context"
        return fields | _without_defaults({"device": self.timeline.handles[ref.handle].device})

    def _sync_stream(self, fields: _Fields, call: Call) -> _Fields:
        limit = call.about[-1] if call.about else None
        if not isinstance(limit, int) or limit < 0:
            return fields
        if call.waited_ns == limit * 10**6:
            self._note(f"{_site(call)}: the limit of {call.name} struck; what the host did then is fixed here")
        return fields | {"limit_ms": limit}

    _sync_event = _sync_device = _process_report = _sync_stream

    def _launch_callback(self, fields: _Fields, call: Call) -> _Fields:  # noqa: ARG002
        return fields | {"block": bool(fields["block"])}

    def _value_wait(self, fields: _Fields, call: Call) -> _Fields:  # noqa: ARG002
        return fields | {"compare": ("geq", "eq", "and", "nor")[fields["compare"]]}

    def _free(self, fields: _Fields, call: Call) -> _Fields:
        return fields | ({"sync": True} if call.name.endswith("WithDevSync") else {})

    _free_host = _free

    def _queue(self, op: Operation) -> _Fields:
        """Return the fields of the step that queues *op*."""
        stream = self._handle(op.in_stream)
        if op.kind != "kernel":
            [read], [write] = op.reads or [_NOWHERE], op.writes or [_NOWHERE]
            copy = Copied(op.kind, write.buffer, write.start, read.buffer, read.start, op.bytes)
            return {"op": "memcpy_async", **self._copy(copy), "stream": stream}
        fields: _Fields = {"op": "launch", "stream": stream, "us": _us(op.block_ns), "name": op.name}
        if op.cores is not None:
            released = [[_us(at), count] for at, count in op.cores.released]
            fields |= {"op": "launch_cores", "us": _us(op.end_ns - op.start_ns), "released": released}
            fields["cores"] = sum(count for _, count in released)
        elif op.exclusive:
            fields["exclusive"] = True
        extents = {
            name: [[self._buffer(buffer), start, stop] for buffer, start, stop in of]
            for name, of in (("reads", op.reads), ("writes", op.writes))
        }
        return fields | {"blocks": op.blocks or 1} | {name: of for name, of in extents.items() if of}

    def _handle(self, place: int) -> str:
        """Return the name of a handle. If no call has made it, it exists before the first call."""
        handle, name = self.timeline.handles[place], self.handles[place]
        if handle.kind == "stream" and not handle.made:
            return "per_thread" if handle.name.startswith("per_thread") else "legacy"
        if handle.kind == "context" and handle.name == "primary":
            return "primary"
        if name not in self.made and handle.kind in ("stream", "event"):
            self.used[f"{handle.kind}s"][name] = _declared(handle)
        return name

    def _buffer(self, place: int) -> str:
        if place < 0:
            self.pageable = max(self.pageable, 1)
            return "pageable memory"
        name, memory = self.buffers[place], self.timeline.buffers[place]
        if name not in self.made:
            self.used["buffers"][name] = _without_defaults(
                {"space": memory.space, "bytes": memory.bytes, "device": max(0, memory.device)}
            )
        return name

    # --- from acts to steps

    def _name_waits(self, acts: Iterable[_Act]) -> None:
        """Give each wait for one operation the id of the step that has queued it."""
        queuers = self._queuers(acts)
        for act in acts:
            if act.fields["op"] != "sync_op":
                continue
            queuer = None if act.after is None else queuers.get(act.after)
            if queuer is None:
                self._note(f"{act.site}: an await of something that is no operation has a fixed time here")
                act.fields = {"op": "sleep", "us": _us(act.exit - act.enter)}
                continue
            act.fields["of"] = queuer.fields.setdefault("id", f"op {act.after}")

    def _queuers(self, acts: Iterable[_Act]) -> dict[int, _Act]:
        """Return the call that queued each operation, by its index; parts of staged copies have none."""
        queuers = {act.op: act for act in acts if act.op is not None}
        by_end = {(act.caller, act.exit): act for act in acts if act.op is None and act.since < 0}
        for index, op in enumerate(self.timeline.ops):
            if op.called_ns < 0 and (op.by, op.queued_ns) in by_end:
                queuers[index] = by_end[op.by, op.queued_ns]
        return queuers

    def _collapsed(self, acts: list[_Act]) -> list[_Act]:
        """Return *acts* with one step in place of each loop of queries that ended with the answer "done"."""
        kept: list[_Act] = []
        place = 0
        while place < len(acts):
            loop = _loop_at(acts, place)
            if loop is None:
                act = acts[place]
                if act.done is False:
                    self._note(f'{act.site}: a query was answered "not yet"; what the host did then is fixed here')
                kept.append(act)
                place += 1
                continue
            kept.append(loop[0])
            place += loop[1]
        return kept

    def _tasks(self) -> dict[int, str]:
        """Return a name for each caller; those of one name get numbers."""
        callers = {call.by: call.caller for call in sorted(self.timeline.calls, key=lambda call: call.by)}
        callers |= {op.by: op.caller for op in self.timeline.ops if op.by not in callers}
        return dict(zip(callers, _unique(list(callers.values())), strict=True))

    def _steps(self, items: list[_Item]) -> list[_Fields]:
        """Return the steps of *items*, which are in their order."""
        steps: list[_Fields] = []
        tasks = self._tasks()
        for item in items:
            item.index = len(steps)
            fields: _Fields = {"op": "resume"} if item.fields is None else dict(item.fields)
            if len(tasks) > 1:
                fields["task"] = tasks[item.act.caller]
            if item.after is not None:
                fields["after"] = item.after.index
            if item.act.site:
                fields["site"] = item.act.site
            steps.append(fields)
        return steps


def _ends_of_callbacks(acts: list[_Act]) -> Iterator[_Act]:
    """Return the end of each callback: behind the calls that its task has made before it takes the next one."""
    taken: dict[int, tuple[_Act, _Act]] = {}  # of each task: the call that took the callback, and its latest call
    for act in acts:
        if act.fields["op"] == "process_report":
            if act.caller in taken:
                yield _end_of(taken[act.caller][1])
            taken[act.caller] = act, act
        elif act.caller in taken:
            taken[act.caller] = taken[act.caller][0], act
    for act, _ in taken.values():  # which calls behind the last one are its callback's is not known
        yield _end_of(act)


def _end_of(act: _Act) -> _Act:
    return _Act(act.caller, act.exit, act.exit, -1, act.site, {"op": "end_report"}, act.row)


def _order(acts: list[_Act]) -> list[_Item]:
    """Return the order of the host: where each step begins, with the sleeps between calls, and where calls return."""
    _find_pauses(acts)
    items: list[_Item] = []
    steps: dict[int, _Item] = {}  # by the id of an act
    last: dict[int, _Act] = {}  # of each task: what it did last
    woken: list[tuple[int, _Item]] = []  # when a step ended in which time could pass or other tasks run, in order
    busy = 0  # until then the host was seen to do something
    # A heap: until when calls that have begun go on, and the number of the staged copy in which they then sleep.
    returns: list[tuple[int, int, bool, int, int, _Act]] = []
    for number, act in enumerate(acts):
        # Copies that are staged from one instant on share the driver's buffers in the order in which they began.
        begins = act.enter, act.staged if act.staged >= 0 and act.since == act.enter else _LAST
        while returns and returns[0][:2] <= begins:
            at, *_, back = heappop(returns)
            place = _Item(at, back, None)
            items.append(place)
            woken.append((at, steps[id(back)] if at == back.exit else place))
            busy = max(busy, at)
        before = last.get(act.caller)
        end = before.exit if before is not None else 0
        item = steps[id(act)] = _Item(act.enter, act, act.fields)
        if act.enter > max(busy, end):  # nothing ran: the task went on by itself
            sleep = _Item(end, act, {"op": "sleep", "us": _us(act.enter - end)})
            items.insert(_behind(items, before), sleep)
            woken.append((act.enter, sleep))
        else:
            item.after = _waited_for(woken, end if before is not None else -1, act)
        items.append(item)
        if act.since < 0 and act.fields["op"] in _PAUSES:
            woken.append((act.exit, item))
        if act.since >= 0:
            for at, staged in (*act.naps, (act.exit, -1)):
                heappush(returns, (at, staged, act.yields, act.row, number, act))
        last[act.caller] = act
        busy = max(busy, act.begun)
    items += [_Item(at, act, None) for at, *_, act in sorted(returns, key=lambda each: each[:-1])]
    return _without_needless(items)


def _find_pauses(acts: list[_Act]) -> None:
    """Note which calls let other tasks run although they did not sleep: these tasks made calls meanwhile, or ended
    theirs.
    """
    ends = sorted(at for act in acts if act.since >= 0 for at in (*(at for at, _ in act.naps), act.exit))
    for act, next_ in pairwise([*acts, None]):
        assert act is not None, "only the last one is None"
        if act.since >= 0:
            continue
        if next_ is not None and next_.enter < act.exit:
            act.since, act.yields = next_.enter, True
        elif act.fields["op"] in _PAUSES:
            place = bisect_right(ends, act.enter)
            if place < len(ends) and ends[place] <= act.exit:
                act.since, act.yields = act.exit, True


def _waited_for(woken: list[tuple[int, _Item]], end: int, act: _Act) -> _Item | None:
    """Return the latest step of another task in which time could pass, and that ended after *end*, when the task of
    *act* ended its last step.
    """
    for at, item in reversed(woken):
        if at <= end:
            return None
        if item.act.caller != act.caller:
            return item
    return None


def _behind(items: list[_Item], before: _Act | None) -> int:
    """Return the place in *items* behind the end of *before*; the first if there is none."""
    places = (place for place in range(len(items) - 1, -1, -1) if items[place].act is before)
    return next(places, -1) + 1


def _without_needless(items: list[_Item]) -> list[_Item]:
    """Return *items* without the places at which a call goes on, if the next step of its task follows at once."""
    needed = {
        id(item.act)
        for item, next_ in pairwise([*items, None])
        if item is not None and item.fields is None and next_ is not None and next_.act.caller != item.act.caller
    }
    needed |= {id(item.after.act) for item in items if item.after is not None and item.after.fields is None}
    return [item for item in items if item.fields is not None or id(item.act) in needed]


def _loop_at(acts: list[_Act], place: int) -> tuple[_Act, int] | None:
    """Return the loop of queries that begins at *place* as one step, and the number of its acts; None if there is none.

    Between two queries there is the same host work, the same sleep, or nothing.
    """
    first = acts[place]
    if first.done is not False:
        return None
    pauses: set[tuple[str, float]] = set()
    at = place
    while acts[at].done is False:
        pause = ("", 0.0)
        at += 1
        if at < len(acts) and acts[at].fields["op"] in ("sleep", "host_work") and "name" not in acts[at].fields:
            pause = acts[at].fields["op"], acts[at].fields["us"]
            at += 1
        if at == len(acts) or acts[at].caller != first.caller or acts[at].fields != first.fields:
            return None
        if pause == ("", 0.0) and acts[at].enter > acts[at - 1].exit:
            pause = "sleep", _us(acts[at].enter - acts[at - 1].exit)
        pauses.add(pause)
        if len(pauses) > 1:
            return None
    if any(act.caller != first.caller for act in acts[place:at]):
        return None
    [(op, us)] = pauses
    pause_field = {"": {}, "sleep": {"sleep_us": us}, "host_work": {"work_us": us}}[op]
    end = acts[at]
    fields = {**first.fields, "until": True, **pause_field}
    return _Act(first.caller, first.enter, end.exit, first.exit, first.site, fields, end.row), at + 1 - place


_NOWHERE = Extent(-1, 0, 0)
# The op of each call, and the names of the fields for what the call was about, in its order.
_TRANSLATIONS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "CreateStream": ("create_stream", ("name",)),
    "DestroyStream": ("destroy_stream", ("name",)),
    "CreateEvent": ("create_event", ("event",)),
    "CreateEventWithFlag": ("create_event", ("event",)),
    "CreateEventExWithFlag": ("create_event", ("event",)),
    "DestroyEvent": ("destroy_event", ("event",)),
    "RecordEvent": ("record", ("event", "stream")),
    "StreamWaitEvent": ("wait", ("event", "stream")),
    "ResetEvent": ("reset", ("event", "stream")),
    "SynchronizeStream": ("sync_stream", ("stream",)),
    "SynchronizeStreamWithTimeout": ("sync_stream", ("stream",)),
    "SynchronizeEvent": ("sync_event", ("event",)),
    "SynchronizeEventWithTimeout": ("sync_event", ("event",)),
    "SynchronizeDevice": ("sync_device", ()),
    "SynchronizeDeviceWithTimeout": ("sync_device", ()),
    "await": ("sync_op", ()),
    "StreamQuery": ("query_stream", ("stream",)),
    "QueryEventStatus": ("query_event", ("event",)),
    "QueryEventWaitStatus": ("query_waits", ("event",)),
    "EventElapsedTime": ("elapsed", ("start", "end")),
    "GetEventTimestamp": ("timestamp", ("event",)),
    "MemcpyAsync": ("memcpy_async", ("copy", "stream")),
    "Memcpy": ("memcpy", ("copy",)),
    "Memcpy2dAsync": ("memcpy2d_async", ("copy", "stream")),
    "Memcpy2d": ("memcpy2d", ("copy",)),
    "MemsetAsync": ("memset_async", ("fill", "stream")),
    "Memset": ("memset", ("fill",)),
    "LaunchHostFunc": ("host_func", ("stream",)),
    "HostWork": ("host_work", ()),
    "Sleep": ("sleep", ()),
    "Malloc": ("malloc", ("name",)),
    "MallocHost": ("malloc_host", ("name",)),
    "HostRegister": ("host_register", ("name",)),
    "MallocAsync": ("malloc_async", ("name", "stream")),
    "Free": ("free", ("name",)),
    "FreeWithDevSync": ("free", ("name",)),
    "FreeHost": ("free_host", ("name",)),
    "FreeHostWithDevSync": ("free_host", ("name",)),
    "HostUnregister": ("host_unregister", ("name",)),
    "FreeAsync": ("free_async", ("name", "stream")),
    "SetMemPoolThreshold": ("pool_threshold", ("bytes",)),
    "CreateNotify": ("create_notify", ("notify",)),
    "DestroyNotify": ("destroy_notify", ("notify",)),
    "RecordNotify": ("record_notify", ("notify", "stream")),
    "WaitAndResetNotify": ("wait_notify", ("notify", "stream", "limit_s")),
    "ValueWrite": ("value_write", ("buf", "off", "value", "stream")),
    "ValueWait": ("value_wait", ("buf", "off", "value", "compare", "stream")),
    "SubscribeReport": ("subscribe", ("stream",)),
    "UnsubscribeReport": ("unsubscribe", ("stream",)),
    "LaunchCallback": ("launch_callback", ("stream", "block")),
    "ProcessReport": ("process_report", ()),
    "CreateContext": ("create_context", ("context",)),
    "SetCurrentContext": ("set_context", ("context",)),
    "DestroyContext": ("destroy_context", ("context",)),
    "SetDevice": ("set_device", ("device",)),
}
_DEFAULTS: Mapping[str, object] = {
    "flags": "blocking", "priority": 0, "timing": True, "blocking": False, "dst_off": 0, "src_off": 0, "value": 0,
    "device": 0, "limit_s": 0,
}  # fmt: skip


def _without_defaults(fields: _Fields) -> _Fields:
    return {name: value for name, value in fields.items() if name not in _DEFAULTS or value != _DEFAULTS[name]}


def _since(call: Call) -> int:
    """Return when the caller fell asleep in *call* for the first time; -1 if it did not."""
    return call.sleeps[0].begin_ns if call.sleeps else -1


def _site(call: Call) -> str:
    return f"{Path(call.file).name}:{call.line}" if call.file else ""


def _declared(handle: Handle) -> _Fields:
    options = dict(handle.options)
    if handle.kind == "stream":
        flags = "nonblocking" if options.get("nonblocking") else "blocking"
        return _without_defaults({"flags": flags, "priority": options.get("priority", 0), "device": handle.device})
    timing, blocking = options.get("timing", True), options.get("blocking", False)
    return _without_defaults({"timing": timing, "blocking": blocking, "device": handle.device})


def _unique(names: list[str]) -> list[str]:
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
    return name if given is None or given[2] in _RESERVED else given[2]


def _us(ns: int) -> float:
    """Return microseconds; whole ones as an int, so that a program is easier to read."""
    return ns // 1000 if ns % 1000 == 0 else ns / 1000
