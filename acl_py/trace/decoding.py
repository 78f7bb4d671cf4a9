"""Decoding a trace: from the packed rows of the recorder to the rows of rows.py.

Some facts are found here that the recorder has no column for. How long a call slept: from the sleeps of its caller
between its beginning and its end. Which operation gave back a place that a host had waited for: one that ended at that
instant.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import chain
from operator import itemgetter
from typing import cast

from acl_py.sites import Site
from acl_py.trace.packing import ANY_OP, CALL, LATER, NO_OP, OP, SLEEP, STAGED, STEP, Store
from acl_py.trace.reasons import Row, reasons
from acl_py.trace.rows import (
    ASKING,
    About,
    Call,
    Copied,
    Extent,
    Filled,
    Handle,
    Mark,
    Memory,
    Operation,
    Ref,
    Sleep,
    StreamStep,
)  # fmt: skip
from device_model.contexts import Context
from device_model.device import Device
from device_model.errors import shown
from device_model.events import Event
from device_model.ops import Op
from device_model.signals import Notify
from device_model.streams import Stream
from device_model.work import Label

ENGINES = {
    "h2d": "H2D",
    "d2h": "D2H",
    "d2d": "cores",
    "p2p": "P2P",
    "fill": "cores",
    "kernel": "cores",
    "host_function": "host",
}


_HANDLES = (Stream, Event, Notify, Context, Device)


class Decoding:
    """The rows of a *store* so far. Each list is made once, when it is first asked for."""

    def __init__(self, store: Store, unfinished: Callable[[], Iterable[Op]]) -> None:
        self._store = store
        self._unfinished = unfinished
        streams = (*(key[0] for key in store.op_numbers), *(key[2] for key in store.step_rows.numbers))
        subjects = (*(key[1] for key in store.step_rows.numbers), *chain(*(key[2] for key in store.call_numbers)))
        named = [each for each in (*streams, *subjects) if isinstance(each, _HANDLES)]
        self._places = {handle: place for place, handle in enumerate(dict.fromkeys(named))}
        self._buffer_places = {serial: place for place, serial in enumerate(store.allocations)}
        store.step_rows.look()

    @cached_property
    def ops(self) -> list[Operation]:
        """All operations that have ended."""
        store, rows = self._store, self._op_rows
        common = [
            (label.name, label.kind, stream.name, ENGINES[label.kind], str(site), stream.context.device.ordinal,
             self._places[stream])
            for stream, site, label in store.op_numbers
        ]  # fmt: skip
        launches = [
            (blocks, block_ns, exclusive, self._known(reads), self._known(writes))
            for blocks, block_ns, exclusive, reads, writes in store.launches
        ]
        places = [(stream, label.lane) for stream, _, label in store.op_numbers]
        cores = store.core_runs.get
        ops = []
        for index, (row, (why, after)) in enumerate(zip(rows, reasons(rows, places, self._index_of), strict=True)):
            name, kind, stream, engine, site, device, in_stream = common[row.number]
            blocks, block_ns, exclusive, reads, writes = _NO_LAUNCH
            if kind != "kernel":
                reads = self._bytes(row.src, row.src_offset, row.bytes)
                writes = self._bytes(row.dst, row.dst_offset, row.bytes)
            elif row.dst >= 0:
                blocks, block_ns, exclusive, reads, writes = launches[row.dst]
            ops.append(
                Operation(
                    name, kind, stream, engine, row.queued, row.start, row.end, row.bytes, site, device, cores(index),
                    why, after, store.callers[row.caller] if store.callers else "", row.called, row.ready, in_stream,
                    blocks, block_ns, exclusive, reads, writes, row.caller,
                )
            )  # fmt: skip
        return ops

    @cached_property
    def calls(self) -> list[Call]:
        """All calls that have returned."""
        store = self._store
        callers = store.callers
        calls: list[tuple[int, Call]] = []  # with the number of the caller
        named = [(name, *_place(site), tuple(map(self._about, about))) for name, site, about in store.call_numbers]
        for number, caller, enter, exit_ in CALL.iter_unpack(store.call_rows.getvalue()):
            name, file, line, about = named[number]
            calls.append((caller, Call(name, enter, exit_, file, line, callers[caller], about)))
        queuing = [
            (_verb(label), *_place(site), (Ref(self._places[stream]),)) for stream, site, label in store.op_numbers
        ]
        for row in self._op_rows:
            if row.called >= 0:
                name, file, line, about = queuing[row.number]
                calls.append((row.caller, Call(name, row.called, row.queued, file, line, callers[row.caller], about)))
        for op in self._unfinished():
            if op.called_ns >= 0:
                caller = store.op_callers.get(op, 0)
                where = *_place(op.site), callers[caller], (Ref(self._places.get(op.stream, -1)),)
                calls.append((caller, Call(verb_of(op), op.called_ns, op.queued_ns, *where)))
        asking = [
            (ASKING[kind], *_place(site), (Ref(self._places[cast("Event", event)]), Ref(self._places[stream])))
            if kind in ASKING else None
            for kind, event, stream, site in store.step_rows.numbers
        ]  # fmt: skip
        for number, caller, enter, exit_, _, _ in self._step_rows:
            verb = asking[number]
            if verb is not None:
                name, file, line, about = verb
                calls.append((caller, Call(name, enter, exit_, file, line, callers[caller], about)))
        calls.sort(key=lambda each: (each[1].exit_ns, each[1].enter_ns))
        return [self._with_sleep(caller, call) for caller, call in calls]

    @cached_property
    def steps(self) -> list[StreamStep]:
        """All steps."""
        steps = self._store.step_rows
        common = [
            (kind, subject if isinstance(subject, str) else subject.name, stream.name,
             stream.context.device.ordinal, str(site), self._places[stream])
            for kind, subject, stream, site in steps.numbers
        ]  # fmt: skip
        decoded = []
        for place, (number, caller, _, exit_, record, serial) in enumerate(self._step_rows):
            kind, name, stream, device, site, in_stream = common[number]
            end_ns, after = exit_, self._index_of.get(serial)
            if serial == LATER:
                end, last = steps.over.get(place, (-1, NO_OP))
                end_ns, after = max(end, exit_) if end >= 0 else -1, self._index_of.get(last)
            elif serial >= 0:  # what is over already when the call begins is over for it when the call ends
                end_ns = -1 if after is None else max(self._op_rows[after].end, exit_)
            decoded.append(
                StreamStep(
                    kind, name, stream, device, exit_, end_ns, site, self._store.callers[caller], in_stream,
                    None if record < 0 else record, after,
                )
            )  # fmt: skip
        return decoded

    @cached_property
    def marks(self) -> list[Mark]:
        """All marks."""
        callers = self._store.callers
        return [
            Mark(name, begin, end, str(site), callers[caller]) for name, begin, end, site, caller in self._store.marks
        ]

    @cached_property
    def buffers(self) -> list[Memory]:
        """All memory."""
        return [Memory(*row) for row in self._store.allocations.values()]

    @cached_property
    def handles(self) -> list[Handle]:
        """All handles that the other rows name."""
        return [_described(handle) for handle in self._places]

    @cached_property
    def _op_rows(self) -> list[Row]:
        return list(map(Row._make, OP.iter_unpack(self._store.op_rows.getvalue())))

    @cached_property
    def _index_of(self) -> dict[int, int]:
        """The index of each operation by its serial number."""
        return {row.serial: index for index, row in enumerate(self._op_rows)}

    @cached_property
    def _step_rows(self) -> list[tuple[int, int, int, int, int, int]]:
        return list(STEP.iter_unpack(self._store.step_rows.rows.getvalue()))

    @cached_property
    def _sleeps(self) -> dict[int, list[Sleep]]:
        """The sleeps of each caller, in order."""
        ends = sorted((row.end, index) for index, row in enumerate(self._op_rows))
        sleeps: dict[int, list[Sleep]] = {}
        for caller, begin, end, after in SLEEP.iter_unpack(self._store.sleep_rows.getvalue()):
            own = sleeps.setdefault(caller, [])
            if after <= STAGED:
                first = bisect_left(own, begin, key=itemgetter(0))
                last = own[-1].after if own[first:] else None
                own[first:] = [Sleep(begin, end, last, tuple(own[first:]), STAGED - after)]
                continue
            if after == ANY_OP:
                place = bisect_right(ends, (end, len(ends))) - 1
                found = ends[place][1] if place >= 0 and ends[place][0] == end else None
            else:
                found = self._index_of.get(after)
            own.append(Sleep(begin, end, found))
        return sleeps

    def _with_sleep(self, caller: int, call: Call) -> Call:
        call = call._replace(by=caller)
        sleeps = self._sleeps.get(caller)
        if sleeps is None:
            return call
        first = bisect_left(sleeps, call.enter_ns, key=itemgetter(0))
        inside = [sleep for sleep in sleeps[first : bisect_right(sleeps, call.exit_ns, key=itemgetter(0))]
                  if sleep.end_ns <= call.exit_ns]  # fmt: skip
        if not inside:
            return call
        waited = sum(sleep.waited_ns for sleep in inside)
        return call._replace(waited_ns=waited, after=inside[-1].after, sleeps=tuple(inside))

    def _known(self, extents: Iterable[Extent]) -> tuple[Extent, ...]:
        """Return those of *extents* that are in memory of `buffers`, with its index there."""
        places = self._buffer_places
        return tuple(
            Extent(places[serial], start, stop) for serial, start, stop in extents if serial in places
        )  # fmt: skip

    def _bytes(self, serial: int, offset: int, nbytes: int) -> tuple[Extent, ...]:
        place = self._buffer_places.get(serial)
        return () if place is None else (Extent(place, offset, offset + nbytes),)

    def _about(self, subject: object) -> About:
        places = self._buffer_places
        if isinstance(subject, Extent | Filled):
            return subject._replace(buffer=places.get(subject.buffer, -1))
        if isinstance(subject, Copied):
            return subject._replace(dst=places.get(subject.dst, -1), src=places.get(subject.src, -1))
        if isinstance(subject, _HANDLES):
            return Ref(self._places[subject])
        return subject if isinstance(subject, int | str) else shown(subject)


_NO_LAUNCH: tuple[int, int, bool, tuple[Extent, ...], tuple[Extent, ...]] = (0, 0, False, (), ())  # of aborted work


def _described(handle: object) -> Handle:
    """Return the row of a stream, an event, a notify, a context or a device."""
    if isinstance(handle, Stream):
        options: dict[str, bool | int | str] = {}
        legacy = handle.context.legacy
        if handle.order is None and legacy is not None and handle is not legacy:
            options["nonblocking"] = True
        if handle.priority:
            options["priority"] = handle.priority
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
    if isinstance(handle, Context):
        return Handle("context", "primary" if handle.primary else "context", handle.device.ordinal, _text(handle.made),
                      {})  # fmt: skip
    assert isinstance(handle, Device), f"{handle!r} is no handle"
    return Handle("device", f"device {handle.ordinal}", handle.ordinal, "", {})


def verb_of(op: Op) -> str:
    """Return the name of the verb that queued *op* and did nothing else."""
    return _verb(op.work.label)


def _verb(label: Label) -> str:
    return "LaunchKernel" if label.kind == "kernel" else "MemcpyAsync"


def _place(site: object) -> tuple[str, int]:
    return (site.file, site.line) if isinstance(site, Site) else ("", 0)


def _text(made: object) -> str:
    return "" if made is None else str(made)
