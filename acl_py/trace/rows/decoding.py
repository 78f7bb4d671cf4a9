"""Decoding a trace: what the numbers in the packed rows of the recorder stand for, in plain words and numbers.

unpacking.py makes columns and rows of it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, cast

import numpy as np

from acl_py.calls.acts import Act, Queued, Recorded, Waited, leaves, mapped
from acl_py.calls.table import verb_of
from acl_py.sites import Site, called_function
from acl_py.trace.rows.columns import (
    CallColumns,
    CallKind,
    OpColumns,
    OpKind,
    Rows,
    StepColumns,
    StepKind,
    UnpackedRows,
    fields_of,
)
from acl_py.trace.rows.hosts import Caller, Handover, Host
from acl_py.trace.rows.launches import GraphNumber
from acl_py.trace.rows.packing import CALL, OP, RUN, SLEEP, STEP
from acl_py.trace.rows.reasons import Turns
from acl_py.trace.rows.source import SourceLine, source_of
from acl_py.trace.rows.store import Store
from acl_py.trace.rows.timeline import (
    ASKING,
    ENGINES,
    Access,
    Call,
    Copied,
    CoreRun,
    Export,
    Extent,
    Filled,
    GraphLaunch,
    Handle,
    Joint,
    Launched,
    Mark,
    Memory,
    Operation,
    Prefetched,
    Ref,
    StreamStep,
    Thing,
)  # fmt: skip
from acl_py.trace.rows.unpacking import (
    CallKinds,
    PackedCalls,
    PackedOps,
    PackedSteps,
    Places,
    launches,
)  # fmt: skip
from device_model.collectives.cliques import Communicator
from device_model.contexts import Context
from device_model.device import Device
from device_model.errors import shown
from device_model.events import Event
from device_model.ops import Op
from device_model.signals import Notify
from device_model.streams import Stream

_ASKED: Mapping[str, Any] = {"record": Recorded, "wait": Waited}
_HANDLES = (Stream, Event, Notify, Context, Device, Communicator)


class Decoding:
    """The rows of a *store* so far."""

    def __init__(self, store: Store, unfinished: Callable[[], Iterable[Op]]) -> None:
        self._store = store
        self._unfinished = [*unfinished()]  # first: a card gives rows their times only when it is asked
        streams = (
            *(key[0] for key in store.op_numbers),
            *(key[2] for key in store.step_rows.numbers),
            *(each.stream for each in store.graphs.submitted),
        )
        subjects = (
            *(key[1] for key in store.step_rows.numbers),
            *chain(*(leaves(key[2]) for key in store.call_numbers)),
        )
        named = [each for each in (*streams, *subjects) if isinstance(each, _HANDLES)]
        self._places = {handle: place for place, handle in enumerate(dict.fromkeys(named))}
        self._graphs = list(store.graphs.handles)  # their places follow those of the others
        self._buffer_places = {serial: place for place, serial in enumerate(store.allocations)}
        self._callers = list(store.callers)
        store.step_rows.look()

    @property
    def ops(self) -> Rows[Operation, OpColumns]:
        """All operations that have ended."""
        return UnpackedRows(Operation, self._ops.columns, self._ops.fields)

    @property
    def calls(self) -> Rows[Call, CallColumns]:
        """All calls that have returned."""
        calls = self._calls
        return UnpackedRows(Call, calls.columns, calls.fields)

    @property
    def steps(self) -> Rows[StreamStep, StepColumns]:
        """All steps."""
        return UnpackedRows(StreamStep, self._steps.columns, lambda columns: [fields_of(StreamStep, columns)])

    @cached_property
    def marks(self) -> list[Mark]:
        """All marks."""
        callers = self._callers
        return [
            Mark(name, begin, end, str(site), by if isinstance(by, str) else callers[by])
            for name, begin, end, site, by in self._store.marks
        ]

    @cached_property
    def accesses(self) -> list[Access]:
        """All accesses of the host."""
        rows, callers = self._store.accesses.rows(), self._callers
        if not rows:
            return []
        behind = self._calls.places()
        after = Places(self._ops.rows)[np.array([row.after for row in rows])].tolist()
        return [
            Access(row.at_ns, self._known(row.extents), row.writes, *_place(row.site), callers[row.caller],
                   _at(behind, row.calls), row.caller, None if place < 0 else place)
            for row, place in zip(rows, after, strict=True)
        ]  # fmt: skip

    @cached_property
    def exports(self) -> list[Export]:
        """The bytes of the host that left our sight."""
        rows, callers = self._store.exports.rows, self._callers
        behind = self._calls.places() if rows else []
        return [
            Export(row.at_ns, self._known(row.extents), *_place(row.site), callers[row.caller],
                   _at(behind, row.calls), row.caller)
            for row in rows
        ]  # fmt: skip

    @cached_property
    def hosts(self) -> list[Host]:
        """The hosts of the program."""
        handovers = self._store.handovers
        callers: list[list[Caller]] = [[] for _ in handovers.hosts]
        for number, host in handovers.callers.items():
            callers[host].append(Caller(self._callers[number], number))
        return [Host(tuple(each)) for each in callers]

    @cached_property
    def handovers(self) -> list[Handover]:
        """What hosts handed one another."""
        handovers = self._store.handovers
        given = [handovers.gifts[row.gift] for row in handovers.rows]
        behind = self._calls.places() if given else []
        functions = Places(self._ops.rows)[np.array([each.function for each in given], np.int64)].tolist()
        return [
            Handover(
                each.place.at_ns, _at(behind, each.place.calls), _last(each.place.accesses),
                _last(each.place.handovers), None if each.giver < 0 else each.giver, None if function < 0 else function,
                row.place.at_ns, _at(behind, row.place.calls), _last(row.place.accesses), row.taker, row.is_seen,
            )
            for row, each, function in zip(handovers.rows, given, functions, strict=True)
        ]  # fmt: skip

    @cached_property
    def launches(self) -> list[GraphLaunch]:
        """All launches of graphs, in the order of their calls."""
        graphs = self._store.graphs
        places = {each.stream: self._places[each.stream] for each in graphs.submitted}
        return launches(graphs.submitted, graphs.outcomes(), self.ops.columns, places, self._callers)

    @cached_property
    def buffers(self) -> list[Memory]:
        """All memory."""
        rows = self._store.allocations.values()
        return [row._replace(again=self._buffer_places.get(row.again, -1)) for row in rows]

    @cached_property
    def handles(self) -> list[Handle]:
        """All handles that the other rows name."""
        return [*map(_described, self._places), *self._graphs]

    @cached_property
    def source(self) -> list[SourceLine]:
        """The texts of the lines that operations, calls, steps, marks, launches and instructions name."""
        store = self._store
        return source_of(
            chain(
                (site for _, site, _ in store.call_numbers),
                (site for _, site, _, _ in store.op_numbers),
                (site for *_, site in store.step_rows.numbers),
                (site for _, _, _, site, _ in store.marks),
                (launch.site for launch in store.graphs.submitted),
                store.instructions.sites,
            )
        )

    @cached_property
    def _ops(self) -> PackedOps:
        store = self._store
        kinds = [
            OpKind(label.name, label.kind, stream.name, ENGINES[label.kind], str(site), stream.context.device.ordinal,
                   self._places[stream])
            for stream, site, label, _ in store.op_numbers
        ]  # fmt: skip
        turns = Turns.of([(stream, label.lane, queue) for stream, _, label, queue in store.op_numbers])
        kernels = [
            (blocks, block_ns, exclusive, self._known(reads), self._known(writes))
            for blocks, block_ns, exclusive, reads, writes in store.launches
        ]
        rows = OP.rows(store.op_rows)
        core_runs = {index: CoreRun(*parts) for index, parts in store.core_runs.items()}
        return PackedOps(rows, kinds, turns, self._callers, core_runs, kernels, self._buffer_places,
                         RUN.rows(store.graphs.runs))  # fmt: skip

    @cached_property
    def _steps(self) -> PackedSteps:
        steps = self._store.step_rows
        kinds = [
            StepKind(kind, subject if isinstance(subject, str) else subject.name, stream.name,
                     stream.context.device.ordinal, str(site), self._places[stream])
            for kind, subject, stream, site in steps.numbers
        ]  # fmt: skip
        rows = STEP.rows(steps.rows)
        return PackedSteps(rows, kinds, self._callers, dict(steps.over), self._ops.rows)

    @cached_property
    def _calls(self) -> PackedCalls:
        store, places = self._store, self._places
        unfinished = [op for op in self._unfinished if op.called_ns >= 0]
        others = [(at, store.op_callers.get(op, 0), op.called_ns, op.queued_ns) for at, op in enumerate(unfinished)]
        kinds = CallKinds(
            [_kind(name, site, mapped(act, self._thing)) for name, site, act in store.call_numbers],
            [
                _kind(verb_of(label), site, Queued(None, Ref(places[stream])))
                for stream, site, label, _ in store.op_numbers
            ],
            [_kind(verb_of(op.work.label), op.site, Queued(None, Ref(places.get(op.stream, -1)))) for op in unfinished],
            [
                _kind(ASKING[kind], site, _ASKED[kind](Ref(places[cast("Event", event)]), Ref(places[stream])))
                if kind in ASKING else None
                for kind, event, stream, site in store.step_rows.numbers
            ],
        )  # fmt: skip
        return PackedCalls(
            CALL.rows(store.call_rows), self._ops.rows, np.array(others, CALL.type),
            self._steps.rows, kinds, self._callers, SLEEP.rows(store.sleep_rows),
        )  # fmt: skip

    def _known(self, extents: Iterable[Extent]) -> tuple[Extent, ...]:
        """Return those of *extents* that are in memory of `buffers`, with its index there."""
        places = self._buffer_places
        return tuple(
            Extent(places[serial], start, stop) for serial, start, stop in extents if serial in places
        )  # fmt: skip

    def _thing(self, subject: object) -> Thing | None:
        places = self._buffer_places
        if isinstance(subject, Extent | Filled | Prefetched):
            return subject._replace(buffer=places.get(subject.buffer, -1))
        if isinstance(subject, Copied):
            return subject._replace(dst=places.get(subject.dst, -1), src=places.get(subject.src, -1))
        if isinstance(subject, Launched | Joint):
            return subject._replace(reads=self._known(subject.reads), writes=self._known(subject.writes))
        if isinstance(subject, GraphNumber):
            return Ref(len(self._places) + subject.number)
        if isinstance(subject, _HANDLES):
            return Ref(self._places[subject])
        return subject if subject is None or isinstance(subject, int | str) else shown(subject)


def _described(handle: object) -> Handle:
    """Return the row of a stream, an event, a notify, a communicator, a context or a device."""
    if isinstance(handle, Stream):
        options: dict[str, bool | int | str] = {}
        legacy = handle.context.legacy
        if handle.order is None and legacy is not None and handle is not legacy:
            options["nonblocking"] = True
        if handle.priority:
            options["priority"] = handle.priority
        if not handle.context.primary:
            options["context"] = handle.context.id
        device, made = handle.context.device.ordinal, _text(handle.made)
        return Handle("stream", handle.name, device, made, options, handle.id)
    if isinstance(handle, Event):
        options = {"class": handle.class_.name.lower()}
        if not handle.timing:
            options["timing"] = False
        if handle.blocking:
            options["blocking"] = True
        return Handle("event", handle.name, handle.context.device.ordinal, _text(handle.made), options)
    if isinstance(handle, Notify):
        return Handle("notify", handle.name, handle.device.ordinal, _text(handle.made), {})
    if isinstance(handle, Communicator):
        options = {"rank": handle.index, "ranks": len(handle.clique), "clique": handle.clique.number}
        return Handle("communicator", handle.clique.name, handle.device.ordinal, _text(handle.made), options)
    if isinstance(handle, Context):
        name, number = ("primary", 0) if handle.primary else ("context", handle.id)
        return Handle("context", name, handle.device.ordinal, _text(handle.made), {}, number)
    assert isinstance(handle, Device), f"{handle!r} is no handle"
    return Handle("device", f"device {handle.ordinal}", handle.ordinal, "", {})


def _kind(name: str, site: object, act: Act[Any]) -> CallKind:
    return CallKind(name, *_place(site), act, called_function(site, ""))


def _at(behind: Sequence[int], calls: int) -> int | None:
    """Return the call behind which something comes that follows so many packed rows of *calls*."""
    return behind[calls - 1] if calls else None


def _last(count: int) -> int | None:
    """Return the last of so many rows."""
    return count - 1 if count else None


def _place(site: object) -> tuple[str, int]:
    return (site.file, site.line) if isinstance(site, Site) else ("", 0)


def _text(made: object) -> str:
    return "" if made is None else str(made)
