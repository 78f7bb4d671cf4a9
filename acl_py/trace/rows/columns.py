"""The columns of rows: the fields of all operations, calls or steps as arrays, without an object for each row.

Rows with something in common, such as a name and a site, share a *kind*: a column has the place of each row's kind
among all of them. -1 stands for None. Views of a whole trace read columns, because they take a tenth of the time and
memory of the row objects. What looks at single rows reads `Rows` as a list; the objects are made when the first is
read.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar, overload

import numpy as np
import numpy.typing as npt

from acl_py.calls.acts import Act
from acl_py.trace.rows.packing import Numbers
from acl_py.trace.rows.timeline import Call, CoreRun, Operation, StreamStep, Thing

Ints = npt.NDArray[np.integer[Any]]
Bools = npt.NDArray[np.bool_]
_T = TypeVar("_T")
_R = TypeVar("_R")
_C = TypeVar("_C", bound="OpColumns | CallColumns | StepColumns")

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


@dataclass(frozen=True)
class OpColumns:
    """The fields of operations; *caller* is a place in *callers*."""

    kinds: Sequence[OpKind]
    kind: Ints
    callers: Sequence[str]
    caller: Ints
    queued_ns: Ints
    start_ns: Ints
    end_ns: Ints
    called_ns: Ints
    bytes: Ints
    why: Ints
    after: Ints
    launch: Ints
    cores: Mapping[int, CoreRun]  # by the index of the operation

    @classmethod
    def of(cls, ops: Sequence[Operation]) -> "OpColumns":
        """Return the columns of row objects."""
        kind, kinds = places(map(_OP_KIND, ops), len(ops))
        caller, callers = places(map(attrgetter("caller"), ops), len(ops))
        queued, start, end, called = (numbers(ops, f"{when}_ns") for when in ("queued", "start", "end", "called"))
        cores = {index: op.cores for index, op in enumerate(ops) if op.cores is not None}
        return cls(
            [OpKind(*each) for each in kinds], kind, callers, caller, queued, start, end, called,
            numbers(ops, "bytes"), numbers(ops, "why"), optional(op.after for op in ops),
            optional(op.launch for op in ops), cores,
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.kind)

    def kind_at(self, places: Ints) -> Ints:
        """Return the kinds of some operations; -1 for those at -1."""
        return np.where(places < 0, -1, self.kind[places]) if len(self) else np.full(len(places), -1)


@dataclass(frozen=True)
class SleepColumns:
    """All sleeps in calls: the index of the *call*, and the fields of `Sleep`. They are in the order of the calls.

    Whether a sleep *has_waits* tells a staged copy from others. The waits themselves are in the row objects.
    """

    call: Ints
    begin_ns: Ints
    end_ns: Ints
    after: Ints
    has_waits: Bools


@dataclass(frozen=True)
class CallColumns:
    """The fields of calls; *caller* is a place in *callers*."""

    kinds: Sequence[CallKind]
    kind: Ints
    callers: Sequence[str]
    caller: Ints
    enter_ns: Ints
    exit_ns: Ints
    sleeps: SleepColumns

    @classmethod
    def of(cls, calls: Sequence[Call]) -> "CallColumns":
        """Return the columns of row objects."""
        kind, kinds = places(map(_CALL_KIND, calls), len(calls))
        caller, callers = places(map(attrgetter("caller"), calls), len(calls))
        slept = [(index, sleep) for index, call in enumerate(calls) for sleep in call.sleeps]
        sleeps = SleepColumns(
            np.array([index for index, _ in slept], np.int64),
            np.array([sleep.begin_ns for _, sleep in slept], np.int64),
            np.array([sleep.end_ns for _, sleep in slept], np.int64),
            optional(sleep.after for _, sleep in slept),
            np.array([sleep.waits is not None for _, sleep in slept], bool),
        )
        times = numbers(calls, "enter_ns"), numbers(calls, "exit_ns")
        return cls([CallKind(*each) for each in kinds], kind, callers, caller, *times, sleeps)

    def __len__(self) -> int:
        return len(self.kind)


@dataclass(frozen=True)
class StepColumns:
    """The fields of steps; *caller* is a place in *callers*."""

    kinds: Sequence[StepKind]
    kind: Ints
    callers: Sequence[str]
    caller: Ints
    queued_ns: Ints
    end_ns: Ints
    record: Ints
    after: Ints

    @classmethod
    def of(cls, steps: Sequence[StreamStep]) -> "StepColumns":
        """Return the columns of row objects."""
        kind, kinds = places(map(_STEP_KIND, steps), len(steps))
        caller, callers = places(map(attrgetter("caller"), steps), len(steps))
        return cls(
            [StepKind(*each) for each in kinds], kind, callers, caller,
            numbers(steps, "queued_ns"), numbers(steps, "end_ns"),
            optional(step.record for step in steps), optional(step.after for step in steps),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.kind)


_OP_KIND, _CALL_KIND, _STEP_KIND = (attrgetter(*cls._fields) for cls in (OpKind, CallKind, StepKind))


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


def op_columns(ops: Sequence[Operation]) -> OpColumns:
    """Return the columns of *ops*."""
    return ops.columns if isinstance(ops, Rows) else OpColumns.of(ops)


def call_columns(calls: Sequence[Call]) -> CallColumns:
    """Return the columns of *calls*."""
    return calls.columns if isinstance(calls, Rows) else CallColumns.of(calls)


def step_columns(steps: Sequence[StreamStep]) -> StepColumns:
    """Return the columns of *steps*."""
    return steps.columns if isinstance(steps, Rows) else StepColumns.of(steps)


def blocks(count: int) -> Iterator[slice]:
    """Yield slices that divide *count* rows into blocks, so that a long trace needs no more memory than a short one."""
    for first in range(0, count, _ROWS):
        yield slice(first, min(first + _ROWS, count))


def merged_blocks(first: Ints, second: Ints) -> Iterator[tuple[slice, slice, Ints]]:
    """Yield blocks of two ascending lists of times that follow each other in both: a slice of each list, and for each
    element of the second slice the place of that of the first behind which it comes, or -1. Of equal times the first
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
    """Return a field of all *rows* as an array."""
    return np.fromiter(map(attrgetter(field), rows), np.int64, len(rows))


def optional(values: Iterable[int | None]) -> Ints:
    """Return *values* as an array, with -1 for None."""
    return np.array([-1 if value is None else value for value in values], np.int64)


def places(values: Iterable[_T], count: int) -> tuple[Ints, list[_T]]:
    """Return for each of *count* values its place among the different ones, and these."""
    place_of: Numbers[_T] = Numbers()
    return np.fromiter(map(place_of.__getitem__, values), np.int64, count), list(place_of)
