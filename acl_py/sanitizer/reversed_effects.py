"""Reversed effects, as `effects="weak"` asks for: operations that no promise orders take effect in the other order.

In the model an operation has its effect at its end. So a reader that no promise puts behind a write sees the new bytes
in every run if the times of the program make it late enough. With reversed effects it sees the old ones:

* The body of an operation that has ended is kept back until something needs it that a promise puts behind it. That is
  an operation, a host function, or a host that has waited for it.
* Of two operations that touch the same bytes in no order, the one that ended later has its effect first. One that has
  not ended yet has it early, if it could run by now.

With torn effects (tearing.py) it sees some of the new bytes. Every other block is there when the operation ends, or
when a later operation has its effect early, and only the rest is kept back.

What is promised to be before an operation always has its effect before it. So a program without a race has the bytes
that it always has. Times never change.

A kernel that touches more than simulated memory runs at its end, because what it does there may be waited for; the
bytes that it has written are kept back. So do host functions, with the bytes that they change in host memory. But if a
host function wakes a task, or if the program has several threads, nothing of it is kept back. A task that waits for it
by means of Python (an Event, a queue) is behind it.

The parts of a copy of pageable memory are kept back one by one; what they bring to the host is there when its call
returns. Work that a fault rule has changed is not kept back. Memory that is freed, and words that a stream waits for,
have their bytes as usual.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from acl_py.order.clocks import Point
from acl_py.sanitizer.shadow import Use
from acl_py.sanitizer.tearing import CalledEffect, PartialEffect, every_byte, every_other_block
from device_model.completions import Completion
from device_model.core_kernels import CoreKernel
from device_model.engines.workers import Workers, note_failure, overlap, perform, share
from device_model.errors import DeviceError
from device_model.memory import Allocation, Space
from device_model.observe import Observer
from device_model.ops import Op
from device_model.scheduler import Scheduler
from device_model.work import Copy, Extent, Fill, HostFunction, Kernel, PitchedCopy, Work

if TYPE_CHECKING:
    from acl_py.sanitizer.races import Races
    from device_model.memory import Memory

_KEPT = (Copy, PitchedCopy, Fill, Kernel)  # exactly these classes: a fault rule makes others, which may have to fail
_Lines = dict[int, deque[Op]]  # operations by their actors, in the order in which they were queued


class _State:
    """What is known of an operation that has had no effect yet."""

    __slots__ = ("allocations", "end", "is_running", "number", "work")

    def __init__(self, op: Op, number: int) -> None:
        self.number = number  # in the order in which operations are queued
        self.work = op.work
        self.allocations = _allocations(op.work)
        self.is_running = False  # a core kernel that has read its memory
        self.end = 0  # its number in the order in which operations end; 0 before that


class ReversedEffects(Workers, Observer):
    """Runs the bodies of operations in an order that the promises allow, which *races* knows, from `begin` to `end`.

    *torn*: of what is kept back, every other block is there.
    """

    inline_bytes = 0  # every body comes here

    def __init__(self, scheduler: Scheduler, *, torn: bool = False) -> None:
        super().__init__(scheduler, 1)
        self._torn = torn
        self._races: Races | None = None
        self._memory: Memory
        self._states: dict[Op, _State] = {}  # of the operations that have had no effect yet
        self._lines: _Lines = {}  # the same, by actor
        self._touching: dict[Allocation, _Lines] = {}  # the same, by what they touch
        self._ended: dict[Op, None] = {}  # those of them that have ended, in this order
        self._under_way: dict[Op, None] = {}  # those whose turn waits for that of others
        self._early: dict[
            Op, DeviceError | None
        ] = {}  # those that had their effect before their end, and how it failed
        self._partial: dict[Op, PartialEffect] = {}  # those of which some bytes are still to come
        self._queued = self._ends = 0  # how many there were

    def __repr__(self) -> str:
        return f"<ReversedEffects: {len(self._ended)} of {len(self._states)} operations have ended without an effect>"

    def begin(self, races: "Races", memory: "Memory") -> None:
        """Keep bodies back from now on; *races* tells what is promised, *memory* is all that operations touch."""
        self._races, self._memory = races, memory

    def end(self) -> None:
        """Let all operations that have ended have their effect, and keep no more back."""
        self.flush()
        self._races = None
        for each in (self._states, self._lines, self._touching):
            each.clear()

    # --- hooks

    def op_queued(self, op: Op) -> None:
        """Note an operation, and what it touches."""
        if self._races is None or getattr(op, "stamp", None) is None:
            return
        stamp = op.stamp = Use._make(op.stamp)
        self._queued += 1
        state = self._states[op] = _State(op, self._queued)
        self._lines.setdefault(stamp.actor, deque()).append(op)
        for allocation in state.allocations:
            self._touching.setdefault(allocation, {}).setdefault(stamp.actor, deque()).append(op)

    def part_queued(self, op: Op, copy: Copy) -> None:  # its stamp is that of the whole copy
        """Note a part of a copy of pageable memory."""
        self.op_queued(op)

    def synchronized(self, completion: Completion) -> None:  # the relation knows what it stands for
        """Let all that the host knows to be over have its effect."""
        if self._races is None:
            return
        known = self._races.known_to_host()
        for actor, line in list(self._lines.items()):
            while line and line[0].done and line[0].stamp.epoch <= known.get(actor, 0):
                self._let(line[0])

    # --- what the device asks for

    def run(self, op: Op) -> None:
        """Keep the body of *op*, which ends, or run it if it is one that is not kept."""
        if op in self._early:
            note_failure(op, self._early.pop(op))
            return
        state = self._states.get(op)
        if state is None:
            for other in self._ended_rivals(op):
                self._let(other)
            note_failure(op, perform(op))
            return
        self._ends += 1
        state.end = self._ends
        self._ended[op] = None
        if type(op.work) is HostFunction or (type(op.work) is Kernel and op.work.alone):
            self._under_way[op] = None
            self._make_way(op)
            del self._under_way[op]
            self._run_now(op, state)
        elif not _is_kept(op):
            self._let(op)
        elif self._torn and isinstance(op.work, Copy | Fill):  # the host may see it; a kernel may still read new bytes
            self._tear(op)
        if op in self._partial and self._partial[op].error is not None:
            self._let(op)

    def _run_now(self, op: Op, state: _State) -> None:
        """Run the body of *op*, which touches more than simulated memory, and keep back the bytes that it writes."""
        late = every_other_block if self._torn else every_byte
        if type(op.work) is not HostFunction:
            self._partial[op] = PartialEffect(op, late)
            return
        assert self._races is not None, "operations wait only between begin() and end()"
        host = [each for each in self._memory.leaks() if each.space is not Space.DEVICE]
        effect = self._partial[op] = CalledEffect(op, late, host)
        if self._races.hosts.may_wait_for(Point(*op.stamp[:3])):
            self._let(op)
            return
        state.work = _Written(effect.rows)
        state.allocations = _allocations(state.work)
        for allocation in state.allocations:
            lines = self._touching.setdefault(allocation, {})
            others = lines.get(op.stamp.actor, ())
            lines[op.stamp.actor] = deque(sorted((*others, op), key=lambda each: self._states[each].number))

    def prepare(self, op: Op) -> None:
        """Let all that is before *op*, which reads memory now, have its effect."""
        if op in self._states:
            self._make_way(op)
            self._states[op].is_running = True

    def flush(self, allocation: Allocation | None = None) -> None:
        """Let all operations that have ended have their effect on *allocation*; None: on all memory."""
        for op in list(self._ended):
            if op in self._ended and (allocation is None or allocation in self._states[op].allocations):
                self._let(op)

    # --- order

    def _let(self, op: Op) -> None:
        """Let *op* have its effect, behind all that comes before it."""
        self._under_way[op] = None
        self._make_way(op)
        del self._under_way[op]
        self._forget(op)
        context = op.stream.context
        if context.error is not None and op.start_ns >= context.failed_ns:
            op.error = context.error
            return
        error = self._partial.pop(op).complete() if op in self._partial else perform(op)
        if op.end_ns < 0:
            self._early[op] = error
        else:
            note_failure(op, error)

    def _make_way(self, op: Op, *, whole: bool = True) -> None:
        """Let those operations have their effect that are promised to be before *op*, and, if *op* will have all of its
        effect (*whole*), those that end after it although nothing puts them there.

        Torn effects: an operation that writes what *op* reads in no order has a part of its effect.
        """
        for other in self._before(op):
            self._let(other)
        end = self._states[op].end or self._ends
        for other in sorted(self._rivals(op, 0 if self._torn else end), key=self._lateness, reverse=True):
            if other not in self._states:
                continue
            if self._torn and overlap(self._states[other].work.writes(), op.work.reads()):
                self._tear(other)
            elif whole and self._lateness(other) > end:
                self._let(other)

    def _tear(self, op: Op) -> None:
        """Let a part of *op* have its effect, behind what is promised to be before it."""
        if op not in self._partial:
            self._under_way[op] = None
            self._make_way(op, whole=False)
            del self._under_way[op]
            self._partial[op] = PartialEffect(op, every_other_block)

    def _lateness(self, op: Op) -> int:
        """Return when *op* ends, compared with others: one that has not ended is later than all that have."""
        return self._states[op].end or self._ends + 1

    def _before(self, op: Op) -> Iterator[Op]:
        """Yield the operations that are promised to be before *op*; each must have its effect before the next comes."""
        for line in list(self._lines.values()):
            while line and line[0] not in self._under_way and self._is_before(line[0], op):
                yield line[0]

    def _is_before(self, one: Op, other: Op) -> bool:
        """Whether a promise puts *one* before *other*."""
        first, second = one.stamp, other.stamp
        if first.actor in (second.actor, second.host):
            return self._states[one].number < self._states[other].number
        assert self._races is not None, "operations wait only between begin() and end()"
        return self._races.is_promised(first, second)

    def _rivals(self, op: Op, end: int) -> Iterator[Op]:
        """Yield operations that can run now, end later than *end*, and touch bytes of *op* in no order with it."""
        for allocation in self._states[op].allocations:
            for actor, line in self._touching[allocation].items():
                if actor == op.stamp.actor:
                    continue
                for other in line:
                    if self._is_before(op, other):
                        break  # and so are all that follow
                    if self._lateness(other) > end and self._share(op, other) and self._can_run(other):
                        yield other

    def _share(self, one: Op, other: Op) -> bool:
        return share(self._states[one].work, self._states[other].work)

    def _can_run(self, op: Op) -> bool:
        """Whether *op* can have its effect now."""
        state = self._states[op]
        if op in self._under_way or not (state.end or self._is_ready(op, state)):
            return False
        return not any(self._is_before(other, op) for other in self._under_way)

    @staticmethod
    def _is_ready(op: Op, state: _State) -> bool:
        """Whether *op*, which has not ended, waits for nothing but its engine, and what it does is known."""
        return not (op.done or op.blockers) and _is_kept(op) and (type(op.work) in _KEPT or state.is_running)

    def _ended_rivals(self, op: Op) -> Iterator[Op]:
        """Yield the operations that have ended and touch the same bytes as *op*, of which no promise is known."""
        for allocation in _allocations(op.work):
            for line in list(self._touching.get(allocation, {}).values()):
                for other in list(line):
                    if other in self._ended and share(op.work, self._states[other].work):
                        yield other

    def _forget(self, op: Op) -> None:
        """Take *op* off all lists."""
        state, actor = self._states.pop(op), op.stamp.actor
        self._ended.pop(op, None)
        _take(self._lines, actor, op)
        for allocation in state.allocations:
            lines = self._touching[allocation]
            _take(lines, actor, op)
            if not lines:
                del self._touching[allocation]


def _take(lines: _Lines, actor: int, op: Op) -> None:
    lines[actor].remove(op)  # mostly the first one
    if not lines[actor]:
        del lines[actor]


def _is_kept(op: Op) -> bool:
    if isinstance(op.work, Copy) and op.work.dst.space is Space.PAGEABLE:  # it is there when the call returns
        return False
    return (type(op.work) in _KEPT or isinstance(op.work, CoreKernel)) and not op.work.alone


def _allocations(work: Work) -> dict[Allocation, None]:
    """Return the memory that *work* touches."""
    return dict.fromkeys(allocation for allocation, _, _ in (*work.reads(), *work.writes()))


class _Written(Work):
    """What a host function has written: *rows*."""

    __slots__ = ("_rows",)

    def __init__(self, rows: Sequence[Extent]) -> None:
        self._rows = rows

    def writes(self) -> Sequence[Extent]:
        return self._rows
