"""From the packed rows of the recorder to columns, and from these to the rows of timeline.py.

Some facts are found here that the recorder has no column for. How long a call slept: from the sleeps of its caller
between its beginning and its end. Which operation gave back a place that a host had waited for: one that ended at that
instant.

Nothing here refers to the program that made the rows, so a timeline does not keep its streams and memory.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from acl_py.calls.acts import PLAIN
from acl_py.trace.rows.columns import (
    CallColumns,
    CallKind,
    Fields,
    Ints,
    OpColumns,
    OpKind,
    SleepColumns,
    StepColumns,
    StepKind,
    blocks,
    fields_of,
)  # fmt: skip
from acl_py.trace.rows.launches import Outcome, Submitted
from acl_py.trace.rows.packing import ANY_OP, BY_ROWS, LATER, STAGED
from acl_py.trace.rows.reasons import Turns, reasons
from acl_py.trace.rows.store import Launch
from acl_py.trace.rows.timeline import Call, CoreRun, Extent, GraphLaunch, Operation, Sleep
from device_model.completions import Why
from device_model.streams import Stream

Packed = npt.NDArray[Any]
_WHY = sorted(Why)
_LAUNCH = ("blocks", "block_ns", "exclusive", "reads", "writes")  # the fields of a `Launch`
_NO_LAUNCH: Launch = (0, 0, False, (), ())  # of aborted work


class PackedOps(NamedTuple):
    """Packed rows of operations, and what their numbers stand for."""

    rows: Packed
    kinds: Sequence[OpKind]
    turns: Turns
    callers: Sequence[str]
    cores: Mapping[int, CoreRun]
    launches: Sequence[Launch]
    buffers: Mapping[int, int]  # the places of memory in `Timeline.buffers`, by serial number
    runs: Packed  # of launches

    def columns(self) -> OpColumns:
        """Return the columns."""
        rows = self.rows
        places = Places(rows)
        after = places[rows["after"]]
        return OpColumns(
            self.kinds, rows["number"], self.callers or [""], rows["caller"], range(len(self.callers) or 1),
            rows["queued"], rows["start"], rows["end"], rows["called"], rows["bytes"],
            reasons(rows, after, self.turns), after, self._launches(places), self.cores,
        )  # fmt: skip

    def _launches(self, places: "Places") -> Ints:
        """Return the launch of each operation; -1 for one that is part of none."""
        launches, counts = np.full(len(self.rows), -1, np.int32), self.runs["count"]
        serials = np.repeat(self.runs["first"] - counts.cumsum() + counts, counts) + np.arange(counts.sum())
        ended = places[serials]
        launches[ended[ended >= 0]] = np.repeat(self.runs["launch"], counts)[ended >= 0]
        return launches

    def fields(self, columns: OpColumns) -> Iterator[Fields]:
        """Yield the fields of `Operation`, in blocks."""
        for block in blocks(len(columns)):
            rows, kinds = self.rows[block], columns.kind[block].tolist()
            ends = rows[["dst", "src", "dst_offset", "src_offset", "bytes"]].tolist()
            keys = [*zip(kinds, ends, strict=True)]  # most operations touch what others touch
            known = {key: self._touched(self.kinds[key[0]].kind, *key[1]) for key in dict.fromkeys(keys)}
            touched = map(known.__getitem__, keys)
            yield fields_of(
                Operation, columns, block,
                why=map(_WHY.__getitem__, columns.why[block].tolist()), ready_ns=rows["ready"].tolist(),
                cores=map(self.cores.get, range(block.start, block.stop)),
                **dict(zip(_LAUNCH, zip(*touched, strict=True), strict=True)),
            )  # fmt: skip

    def _touched(self, kind: str, dst: int, src: int, dst_offset: int, src_offset: int, nbytes: int) -> Launch:
        if kind in ("kernel", "host_function", "collective"):
            return _NO_LAUNCH if dst < 0 else self.launches[dst]
        if src == BY_ROWS:
            return self.launches[dst]
        return 0, 0, False, self._bytes(src, src_offset, nbytes), self._bytes(dst, dst_offset, nbytes)

    def _bytes(self, serial: int, offset: int, nbytes: int) -> tuple[Extent, ...]:
        place = self.buffers.get(serial)
        return () if place is None else (Extent(place, offset, offset + nbytes),)


class Places:
    """The places of operations among *rows*, by their serial numbers; -1 for those that are not there."""

    def __init__(self, rows: Packed) -> None:
        serials = rows["serial"]
        self._places = np.full(int(serials.max(initial=0)) + 2, -1, np.int32)  # the last stands for all others
        self._places[serials] = np.arange(len(rows), dtype=np.int32)

    def __getitem__(self, serials: Ints) -> Ints:
        last = len(self._places) - 1
        places: Ints = self._places[np.where((serials < 0) | (serials > last), last, serials)]
        return places


class PackedSteps(NamedTuple):
    """Packed rows of steps, and what their numbers stand for; *over* is that of `StepRows`."""

    rows: Packed
    kinds: Sequence[StepKind]
    callers: Sequence[str]
    over: Mapping[int, tuple[int, int]]
    ops: Packed

    def columns(self) -> StepColumns:
        """Return the columns."""
        rows, places = self.rows, Places(self.ops)
        exit_, serial = rows["exit"], rows["serial"]
        after = places[serial]
        end = exit_.copy()
        known = after >= 0  # what is over already when the call begins is over for it when the call ends
        end[known] = np.maximum(self.ops["end"][after[known]], exit_[known])
        end[(serial >= 0) & ~known] = -1
        later = np.flatnonzero(serial == LATER)
        if len(later):
            over, last = np.array([self.over.get(row, (-1, -1)) for row in later.tolist()], np.int64).T
            end[later] = np.where(over < 0, -1, np.maximum(over, exit_[later]))
            after[later] = places[last]
        by = range(len(self.callers))
        return StepColumns(
            self.kinds, rows["number"], self.callers, rows["caller"], by, exit_, end, rows["record"], after
        )


def launches(
    submitted: Sequence[Submitted],
    outcomes: Sequence[Outcome],
    ops: OpColumns,
    streams: Mapping[Stream, int],
    callers: Sequence[str],
) -> list[GraphLaunch]:
    """Return the rows of launches, of which *ops* are the operations."""
    first = np.array([outcome.end_ns for outcome in outcomes], np.int64)
    nodes = np.flatnonzero(ops.launch >= 0)
    np.minimum.at(first, ops.launch[nodes], ops.start_ns[nodes])
    return [
        GraphLaunch(
            each.name, each.stream.name, each.stream.context.device.ordinal, each.queued_ns, start, outcome.end_ns,
            str(each.site), callers[each.caller], streams[each.stream], outcome.taken, each.caller,
        )
        for each, outcome, start in zip(submitted, outcomes, first.tolist(), strict=True)
    ]  # fmt: skip


class CallKinds(NamedTuple):
    """What the numbers of calls stand for: in their own rows, and in the rows of operations that have ended, of others,
    and of steps. None stands for a step without a call.
    """

    calls: Sequence[CallKind]
    ops: Sequence[CallKind]
    others: Sequence[CallKind]
    steps: Sequence[CallKind | None]


class PackedCalls(NamedTuple):
    """Packed rows of calls, and rows of what calls have queued that did nothing else: operations, records and waits.

    *others* are calls whose operations have not ended.
    """

    calls: Packed
    ops: Packed
    others: Packed
    steps: Packed
    kinds: CallKinds
    callers: Sequence[str]
    sleep_rows: Packed

    def places(self) -> list[int]:
        """Return for each of the packed *calls* its place in the columns, or that of an earlier one if it is greater.

        A call that was made within another one is stored first.
        """
        order = self._in_order()[0]
        return np.maximum.accumulate(np.argsort(order)[: len(self.calls)]).tolist()  # type: ignore[no-any-return]

    def columns(self) -> CallColumns:
        """Return the columns."""
        order, enter_ns, exit_ns = self._in_order()
        enter_ns, exit_ns = enter_ns[order], exit_ns[order]
        column = self._column
        caller = np.concatenate(column("caller", "caller", "caller"))[order]
        before = np.cumsum([0, *map(len, self.kinds)])
        number = column("number", "number", "number")
        kind = np.concatenate([own + np.int32(first) for own, first in zip(number, before, strict=False)])[order]
        kinds = [CallKind("", "", 0, PLAIN) if each is None else each for each in chain(*self.kinds)]
        of_call, sleep = (sleeps := self._sleeps()).inside(caller, enter_ns, exit_ns)
        slept = SleepColumns(
            of_call, sleeps.begin_ns[sleep], sleeps.end_ns[sleep], sleeps.after[sleep], sleeps.has_waits[sleep]
        )
        return CallColumns(kinds, kind, self.callers, caller, range(len(self.callers)), enter_ns, exit_ns, slept)

    def fields(self, columns: CallColumns) -> Iterator[Fields]:
        """Yield the fields of `Call`, in one block."""
        waited = [0] * len(columns)
        after: list[int | None] = [None] * len(columns)
        slept: list[tuple[Sleep, ...]] = [()] * len(columns)
        sleeps = self._sleeps()
        of_call, sleep = sleeps.inside(columns.caller, columns.enter_ns, columns.exit_ns)
        for index, pairs in groupby(zip(of_call.tolist(), sleep.tolist(), strict=True), key=itemgetter(0)):
            inside = slept[index] = tuple(sleeps.decoded(each) for _, each in pairs)
            waited[index], after[index] = sum(each.waited_ns for each in inside), inside[-1].after
        yield fields_of(Call, columns, waited_ns=waited, after=after, sleeps=slept)

    def _in_order(self) -> tuple[Ints, Ints, Ints]:
        """Return the order of all calls by their ends, and when each begins and ends, not in this order."""
        enter_ns, exit_ns = (
            np.concatenate(self._column(*names)) for names in (("enter", "called", "enter"), ("exit", "queued", "exit"))
        )
        return np.lexsort((enter_ns, exit_ns)).astype(np.int32), enter_ns, exit_ns

    def _column(self, of_calls: str, of_ops: str, of_steps: str) -> list[Ints]:
        """Return a column of each kind of rows, by its names; of rows that stand for calls."""
        asks = np.array([kind is not None for kind in self.kinds.steps], bool)
        of_op, of_step = self.ops["called"] >= 0, asks[self.steps["number"]]
        return [self.calls[of_calls], self.ops[of_ops][of_op], self.others[of_calls], self.steps[of_steps][of_step]]

    def _sleeps(self) -> "PackedSleeps":
        return PackedSleeps(self.sleep_rows, self.ops)


class PackedSleeps:
    """Packed rows of sleeps, by callers. A staged copy is one sleep, and stands for the waits in it."""

    def __init__(self, rows: Packed, ops: Packed) -> None:
        self._rows = rows = rows[np.argsort(rows["caller"], kind="stable")]
        self.begin_ns, self.end_ns = rows["begin"], rows["end"]
        # An operation that ended at that instant, if it is not known which one it was.
        last = np.searchsorted(ops["end"], rows["end"], side="right") - 1
        ended = np.append(ops["end"], -1)[last] == rows["end"]
        self.after = np.where(rows["after"] == ANY_OP, np.where(ended, last, -1), Places(ops)[rows["after"]])
        self.has_waits = rows["after"] <= STAGED
        self._waits: dict[int, list[int]] = {}
        is_wait = np.zeros(len(rows), bool)
        for row in np.flatnonzero(self.has_waits).tolist():
            waits = self._waits[row] = self._waits_of(row, is_wait)
            is_wait[waits] = True
            self.after[row] = self.after[waits[-1]] if waits else -1
        # A key orders sleeps by their callers and beginnings, and is a small number.
        self._begins = np.unique(rows["begin"])
        self._own = np.flatnonzero(~is_wait)
        keys = self._keys(rows["caller"][self._own], np.searchsorted(self._begins, rows["begin"][self._own]))
        order = np.argsort(keys, kind="stable")
        self._own, self._sorted_keys = self._own[order], keys[order]

    def _waits_of(self, staged: int, is_wait: npt.NDArray[np.bool_]) -> list[int]:
        """Return the waits of the staged copy in the row *staged*: those ahead of it that began after it did."""
        rows, waits = self._rows, []
        for row in range(staged - 1, -1, -1):
            if not is_wait[row]:
                if rows["caller"][row] != rows["caller"][staged] or rows["begin"][row] < rows["begin"][staged]:
                    break
                waits.append(row)
        return waits[::-1]

    def _keys(self, caller: Ints, begin: Ints) -> Ints:
        return caller.astype(np.int64) * (len(self._begins) + 1) + begin

    def inside(self, caller: Ints, enter_ns: Ints, exit_ns: Ints) -> tuple[Ints, Ints]:
        """Return the indices of calls that have slept, and the row of each of their sleeps."""
        of_call, sleeps = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for block in blocks(len(caller)):
            first = np.searchsorted(self._begins, enter_ns[block])
            stop = np.searchsorted(self._begins, exit_ns[block], side="right")
            first, stop = (np.searchsorted(self._sorted_keys, self._keys(caller[block], at)) for at in (first, stop))
            lengths = stop - first
            call = np.repeat(np.arange(len(lengths)), lengths)
            sleep = self._own[np.arange(len(call)) - np.repeat(lengths.cumsum() - lengths - first, lengths)]
            is_inside = self.end_ns[sleep] <= exit_ns[block][call]
            of_call.append(block.start + call[is_inside])
            sleeps.append(sleep[is_inside])
        return np.concatenate(of_call), np.concatenate(sleeps)

    def decoded(self, row: int) -> Sleep:
        """Return the row object."""
        _, begin, end, number = self._rows[row].tolist()
        after = int(self.after[row])
        sleep = Sleep(begin, end, None if after < 0 else after)
        if number > STAGED:
            return sleep
        return sleep._replace(waits=tuple(map(self.decoded, self._waits[row])), number=STAGED - number)
