"""The store of a trace: all packed rows, and the values that their numbers stand for.

An operation has a serial number from when it is queued. Other rows refer to it by this number, also those that are
stored before it ends. Most records and waits are over when one operation ends. The completions of the others are kept,
and looked at now and then.
"""

from io import BytesIO
from typing import Any, NamedTuple

from acl_py.calls.acts import Act
from acl_py.trace.rows.accesses import Accesses, Exports, Touched
from acl_py.trace.rows.handovers import Handovers
from acl_py.trace.rows.instructions import Instructions
from acl_py.trace.rows.launches import GraphRows
from acl_py.trace.rows.packing import LATER, NO_OP, OP, STEP, Numbers
from acl_py.trace.rows.registered import Registered
from acl_py.trace.rows.timeline import Extent, Memory
from device_model.completions import Completion, FirstOf, Group, Nanoseconds
from device_model.events import Event
from device_model.ops import Op
from device_model.queues import HardwareQueue
from device_model.streams import Stream
from device_model.work import Copy, Label

_FIRST_LOOK = 1024  # so many completions of steps are kept before those that are done are let go
_Extents = tuple[Extent, ...]
# What a launch is, for all launches that are the same: blocks, nanoseconds of a block, exclusive, reads, writes. In
# rows, memory has its serial number in place of its index.
Launch = tuple[int, Nanoseconds, bool, _Extents, _Extents]
StepKey = tuple[str, Event | str, Stream, object]  # kind, subject, stream, site


class StagedBy(NamedTuple):
    """Who made the call of a copy that is staged, and how many of its bytes are *left* to queue."""

    caller: int
    left: int


class Store:
    """All packed rows of one trace, and the values that their numbers stand for."""

    __slots__ = (
        "accesses", "allocations", "call_numbers", "call_rows", "callers", "core_runs", "exports", "graphs",
        "handovers", "instructions", "launches", "marks", "op_callers", "op_numbers", "op_rows", "registered",
        "sleep_rows", "staged", "step_rows", "touched",
    )  # fmt: skip

    def __init__(self, instructions: int) -> None:
        self.op_rows, self.call_rows, self.sleep_rows = BytesIO(), BytesIO(), BytesIO()
        self.step_rows = StepRows()
        self.op_numbers: Numbers[tuple[Stream, object, Label, HardwareQueue]] = Numbers()
        self.launches: Numbers[Launch] = Numbers()
        self.call_numbers: Numbers[tuple[str, object, Act[Any]]] = Numbers()
        self.callers: list[str] = []  # by their numbers
        self.op_callers: dict[Op, int] = {}  # who made the call of an operation that has not ended, if not caller 0
        self.allocations: dict[int, Memory] = {}  # by serial number
        self.registered = Registered()
        self.marks: list[tuple[str, Nanoseconds, Nanoseconds, object, int | str]] = []  # by a caller or a stream
        self.core_runs: dict[int, tuple[Any, ...]] = {}  # the parts of a CoreRun, by the index of the operation
        self.instructions = Instructions(instructions)
        self.accesses = Accesses()
        self.exports = Exports()
        self.handovers = Handovers()
        self.graphs = GraphRows()
        self.staged: dict[Copy, StagedBy] = {}  # copies of other callers than the first that are not wholly queued
        self.touched: dict[Op, Touched] = {}  # by host functions that have not ended

    def __len__(self) -> int:
        """Return the number of operations."""
        return OP.count(self.op_rows)


class StepRows:
    """Rows of steps, and when those were over that waited for more than one operation."""

    __slots__ = ("_next_look", "_pending", "count", "numbers", "over", "rows")

    def __init__(self) -> None:
        self.rows = BytesIO()
        self.count = 0
        self.numbers: Numbers[StepKey] = Numbers()
        self.over: dict[int, tuple[Nanoseconds, int]] = {}  # by row: when, and the serial number of the last operation
        self._pending: list[tuple[int, Completion]] = []
        self._next_look = _FIRST_LOOK

    def add(self, key: StepKey, caller: int, at_ns: Nanoseconds, completion: Completion) -> None:
        """Store a row that is no wait for a record. *completion* says when the step, queued *at_ns*, is over."""
        serial = self.end(self.count, completion)
        self.rows.write(STEP.pack(self.numbers[key], caller, at_ns, at_ns, NO_OP, serial))
        self.count += 1

    def end(self, row: int, completion: Completion) -> int:
        """Return what *row* has of *completion*, with which its step is over; keep that if it is known later."""
        if type(completion) is Op and completion.row >= 0:
            return completion.row
        if completion.done and not isinstance(completion, Op):
            return NO_OP
        self._pending.append((row, completion))
        if len(self._pending) >= self._next_look:
            self.look()
            self._next_look = max(_FIRST_LOOK, 2 * len(self._pending))
        return LATER

    def look(self) -> None:
        """Let go of the completions that are done."""
        still = []
        for row, completion in self._pending:
            if completion.done:
                last = last_of(completion)
                self.over[row] = completion.end_ns, last.row if isinstance(last, Op) else NO_OP
            else:
                still.append((row, completion))
        self._pending = still


def last_of(completion: Completion) -> Completion | None:
    """Return what *completion*, which is done, has waited for last: an operation, if it was one."""
    last: Completion | None = completion
    while isinstance(last, Group | FirstOf):
        last = last.last if isinstance(last, Group) else last.first
    return last
