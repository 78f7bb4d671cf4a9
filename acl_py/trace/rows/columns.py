"""The columns of rows: the fields of all operations, calls or steps as arrays, without an object for each row.

Rows with something in common, such as a name and a site, share a *kind*: a column has the place of each row's kind
among all of them. -1 stands for None. Views of a whole trace read columns, because they take a tenth of the time and
memory of the row objects. What looks at single rows reads `Rows` as a list; the objects are made when the first is
read.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar, overload

import numpy as np
import numpy.typing as npt

from acl_py.calls.acts import Act
from acl_py.trace.rows.packing import Numbers
from acl_py.trace.rows.timeline import PLACES, Call, CoreRun, Operation, StreamStep, Thing
from device_model.frozen import Frozen

Ints = npt.NDArray[np.integer[Any]]
Bools = npt.NDArray[np.bool_]
_T = TypeVar("_T")
_R = TypeVar("_R")
_K = TypeVar("_K")
_C = TypeVar("_C", bound="Columns[Any]")

Fields = Mapping[str, Iterable[Any]]  # of some rows, by name; each can be read once

_ALL = slice(None)
_ROWS = 1000  # of a block: the bytes of its lines stay in the cache


class OpKind(NamedTuple):
    """What operations have in common; the fields are those of `Operation`."""

    name: str
    kind: str
    stream: str
    engine: str
    site: str
    device: int
    in_stream: int


class CallKind(NamedTuple):
    """What calls have in common; the fields are those of `Call`."""

    name: str
    file: str
    line: int
    act: Act[Thing]
    function: str = ""

    @property
    def called(self) -> str:
        """What the program called."""
        return self.function or self.name


class StepKind(NamedTuple):
    """What steps have in common; the fields are those of `StreamStep`."""

    kind: str
    name: str
    stream: str
    device: int
    site: str
    in_stream: int


class Columns(Frozen, Generic[_K]):
    """The fields that all rows have: the place of each row's kind in *kinds*, and of its caller in *callers*.

    *by* tells callers of one name apart, as in rows.
    """

    kinds: Sequence[_K]
    kind: Ints
    callers: Sequence[str]
    caller: Ints
    by: Sequence[int]

    def __len__(self) -> int:
        return len(self.kind)


class OpColumns(Columns[OpKind]):
    """The fields of operations."""

    queued_ns: Ints
    start_ns: Ints
    end_ns: Ints
    called_ns: Ints
    bytes: Ints
    why: Ints
    after: Ints
    launch: Ints
    cores: Mapping[int, CoreRun]  # by the index of the operation

    def kind_at(self, places: Ints) -> Ints:
        """Return the kinds of some operations; -1 for those at -1."""
        return np.where(places < 0, -1, self.kind[places]) if len(self) else np.full(len(places), -1)


class SleepColumns(Frozen):
    """All sleeps in calls: the index of the *call*, and the fields of `Sleep`. They are in the order of the calls.

    Whether a sleep *has_waits* tells a staged copy from others. The waits themselves are in the row objects.
    """

    call: Ints
    begin_ns: Ints
    end_ns: Ints
    after: Ints
    has_waits: Bools


class CallColumns(Columns[CallKind]):
    """The fields of calls."""

    enter_ns: Ints
    exit_ns: Ints
    sleeps: SleepColumns


class StepColumns(Columns[StepKind]):
    """The fields of steps."""

    queued_ns: Ints
    end_ns: Ints
    record: Ints
    after: Ints


class Rows(Sequence[_R], Generic[_R, _C]):
    """Rows as a list, whose objects are made when one is first read, and their columns."""

    def __init__(self, columns: Callable[[], _C], make: Callable[[_C], Sequence[_R]]) -> None:
        """*make* makes the row objects from the columns."""
        self._columns, self._make = columns, make

    @cached_property
    def columns(self) -> _C:
        """The fields of all rows."""
        return self._columns()

    @cached_property
    def _rows(self) -> Sequence[_R]:
        return self._make(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    @overload
    def __getitem__(self, index: int) -> _R: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[_R]: ...
    def __getitem__(self, index: int | slice) -> _R | Sequence[_R]:
        return self._rows[index]

    def __iter__(self) -> Iterator[_R]:
        return iter(self._rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))


class UnpackedRows(Rows[_R, _C]):
    """Rows of the class *row*, of which *fields* makes all fields from the columns, in blocks."""

    def __init__(self, row: Any, columns: Callable[[], _C], fields: Callable[[_C], Iterable[Fields]]) -> None:
        super().__init__(columns, lambda columns: made(row, fields(columns)))
        self._fields = fields

    def fields(self) -> Iterable[Fields]:
        """Return the fields of all rows, in blocks, without an object for each row."""
        return self._fields(self.columns)


def op_columns(ops: Sequence[Operation]) -> OpColumns:
    """Return the columns of *ops*."""
    return ops.columns if isinstance(ops, Rows) else _columns(OpColumns, OpKind, ops, cores=_cores(ops))


def _cores(ops: Sequence[Operation]) -> dict[int, CoreRun]:
    return {index: op.cores for index, op in enumerate(ops) if op.cores is not None}


def call_columns(calls: Sequence[Call]) -> CallColumns:
    """Return the columns of *calls*."""
    return calls.columns if isinstance(calls, Rows) else _columns(CallColumns, CallKind, calls, sleeps=_sleeps(calls))


def _sleeps(calls: Sequence[Call]) -> SleepColumns:
    sleeps = [sleep for call in calls for sleep in call.sleeps]
    return SleepColumns(
        np.repeat(np.arange(len(calls)), np.array([len(call.sleeps) for call in calls], np.intp)),
        numbers(sleeps, "begin_ns"), numbers(sleeps, "end_ns"), numbers(sleeps, "after"),
        np.array([sleep.waits is not None for sleep in sleeps], bool),
    )  # fmt: skip


def step_columns(steps: Sequence[StreamStep]) -> StepColumns:
    """Return the columns of *steps*."""
    return steps.columns if isinstance(steps, Rows) else _columns(StepColumns, StepKind, steps)


def _columns(columns: type[_C], kind: Any, rows: Sequence[Any], **others: Any) -> _C:
    """Return the columns of row objects, which have a kind of the class *kind*; *others* are no fields of one row."""
    number, kinds = places(map(attrgetter(*kind._fields), rows), len(rows))
    caller, callers = places(((row.caller, getattr(row, "by", 0)) for row in rows), len(rows))  # a step has no number
    values: dict[str, Any] = {
        "kinds": [*map(kind._make, kinds)], "kind": number, "callers": [name for name, _ in callers],
        "caller": caller, "by": [by for _, by in callers], **others,
    }  # fmt: skip
    values |= {field.name: numbers(rows, field.name) for field in fields(columns) if field.name not in values}
    return columns(**values)


def made(row: Any, fields: Iterable[Fields]) -> list[Any]:
    """Return the rows of the class *row* that have these *fields*, which come in blocks."""
    return [each for block in fields for each in map(row, *map(block.__getitem__, row._fields))]


def fields_of(row: Any, columns: Columns[Any], block: slice = _ALL, **others: Iterable[Any]) -> Fields:
    """Return the fields of the rows of the class *row* that *columns* have in *block*; *others* are those that the
    columns do not have.
    """
    kind = columns.kind[block].tolist()
    caller = columns.caller[block].tolist()
    values: dict[str, Iterable[Any]] = {"caller": map(columns.callers.__getitem__, caller), "by": caller, **others}
    for field in row._fields:
        if columns.kinds and hasattr(columns.kinds[0], field):
            of_kinds = [*map(attrgetter(field), columns.kinds)]
            values.setdefault(field, map(of_kinds.__getitem__, kind))
        elif field not in values:
            column = getattr(columns, field)[block].tolist() if kind else []
            values[field] = [None if each < 0 else each for each in column] if field in PLACES else column
    return values


def blocks(count: int) -> Iterator[slice]:
    """Yield slices that divide *count* rows into blocks, so that a long trace needs no more memory than a short one."""
    for first in range(0, count, _ROWS):
        yield slice(first, min(first + _ROWS, count))


def merged_blocks(first: Ints, second: Ints) -> Iterator[tuple[slice, slice, Ints]]:
    """Yield blocks of two ascending lists of times that follow each other in both: a slice of each list, and for each
    element of the second slice the place of the element of the first that it follows, or -1. Of equal times the first
    come first.
    """
    at, at_second = 0, 0
    while at < len(first) or at_second < len(second):
        some, others = first[at : at + _ROWS], second[at_second : at_second + _ROWS]
        if at_second + len(others) < len(second) and (at + len(some) == len(first) or others[-1] < some[-1]):
            some = some[: np.searchsorted(some, others[-1], side="right")]
        elif at + len(some) < len(first):
            others = others[: np.searchsorted(others, some[-1])]
        behind = np.searchsorted(some, others, side="right") - 1
        yield slice(at, at + len(some)), slice(at_second, at_second + len(others)), behind
        at, at_second = at + len(some), at_second + len(others)


def merged_order(count: int, behind: Ints) -> Ints:
    """Return the order of *count* elements and others, which come *behind* those at these places."""
    return np.argsort(np.append(np.arange(count), behind), kind="stable")


def numbers(rows: Sequence[Any], field: str) -> Ints:
    """Return a field of all *rows* as an array, with -1 for None."""
    values = map(attrgetter(field), rows)
    return np.fromiter((-1 if value is None else value for value in values), np.int64, len(rows))


def places(values: Iterable[_T], count: int) -> tuple[Ints, list[_T]]:
    """Return for each of *count* values its place among the different ones, and these."""
    place_of: Numbers[_T] = Numbers()
    return np.fromiter(map(place_of.__getitem__, values), np.int64, count), list(place_of)
