"""The recorder: the observer that stores a row for each operation, call, record, wait and sleep of the host.

packing.py has the packed rows, and decoding.py makes the rows of timeline.py from them.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acl_py.callers import Callers
from acl_py.calls.acts import Act, Queued
from acl_py.calls.table import verb_of
from acl_py.trace.rows.accesses import Touched
from acl_py.trace.rows.decoding import Decoding
from acl_py.trace.rows.handovers import Place
from acl_py.trace.rows.packing import ANY_OP, CALL, NO_OP, OP, SLEEP, STAGED
from acl_py.trace.rows.store import StagedBy, Store, last_of
from acl_py.trace.rows.timeline import (
    OWN_HOSTS,
    Call,
    CoreInstruction,
    Failure,
    Handle,
    Mark,
    Memory,
    Migration,
    Operation,
    StreamStep,
    Strike,
    Timeline,
)  # fmt: skip
from acl_py.trace.rows.writers import launched, memory_of, writers
from device_model.completions import Completion, Nanoseconds, Need, Process, Then
from device_model.core_kernels import CoreKernel
from device_model.device import Device
from device_model.engines.staging import Staged
from device_model.errors import DeviceError
from device_model.events import Event
from device_model.faults import Rule
from device_model.graphs.executable import Run
from device_model.graphs.graph import Node
from device_model.graphs.groups import NewWork
from device_model.graphs.plan import Entry
from device_model.graphs.streaks import NodeOp
from device_model.memory import NONE, Allocation, Moves
from device_model.observe import Observer
from device_model.ops import Op
from device_model.steps import Step
from device_model.streams import Stream
from device_model.work import Copy, Kernel

if TYPE_CHECKING:
    from device_model.kernel.results import Result

_RECORD, _WAIT = "record", "wait"


class Trace(Observer):
    """All operations and calls of a simulation; `ops` and `calls` are lists of records, in order of their end.

    Eight methods of this observer are functions made for one trace: see writers.py.
    """

    __slots__ = (
        "_host_ns", "_store", "_unfinished", "_writers", "call", "device", "error", "failures",
        "handovers_watched", "host_time", "host_watched", "migrations", "node_queued", "nodes_ran", "op_ended",
        "op_queued", "overlay", "recorded", "rules", "run_queued", "strikes", "waited",
    )  # fmt: skip

    op_queued: Callable[[Op], None]  # type: ignore[assignment]
    run_queued: Callable[[Run, Sequence[Completion]], None]  # type: ignore[assignment]
    node_queued: Callable[[NodeOp], None]  # type: ignore[assignment]
    nodes_ran: Callable[[Sequence[tuple[NodeOp, Entry, Nanoseconds, Nanoseconds]]], None]  # type: ignore[assignment]
    op_ended: Callable[[Op], None]  # type: ignore[assignment]
    call: Callable[[str, int, int, object, Act[Any]], None]  # type: ignore[assignment]
    recorded: Callable[[Event, Stream, Nanoseconds, object, Completion], None]  # type: ignore[assignment]
    waited: Callable[[Event, Stream, Nanoseconds, object, Completion], None]  # type: ignore[assignment]

    def __init__(
        self,
        unfinished: Callable[[], Iterable[Op]] = tuple,
        *,
        instructions: int = 0,
        device: str = "",
        rules: str = "",
        host_ns: Callable[[], Nanoseconds] = int,
        callers: Callers | None = None,
        host_time: str = "modelled",
        overlay: str = "",
    ) -> None:
        """*instructions* is the number of instructions to keep of each core kernel; *device* and *rules* are names, and
        *callers* knows those of tasks and threads. *host_time* is that of the simulation, *overlay* that of its device.
        """
        self._unfinished = unfinished  # operations that have not ended: only they know their calls
        self._host_ns = host_ns
        self.device, self.rules, self.host_time, self.overlay = device, rules, host_time, overlay
        self.host_watched = self.handovers_watched = False  # whether a sanitizer tells of them
        self.error = ""  # with what the run has ended, if not as it should
        self.strikes: list[Strike] = []  # of fault rules, in order
        self.failures: list[Failure] = []  # of operations, in order
        self.migrations: list[Migration] = []  # of pages of managed memory, in order
        self._store = Store(instructions)
        self._writers = writers(self._store, callers or Callers())
        made = self._writers
        self.op_queued, self.run_queued = made.op_queued, made.run_queued
        self.node_queued, self.nodes_ran = made.node_queued, made.nodes_ran
        self.op_ended, self.call, self.recorded, self.waited = made.op_ended, made.call, made.recorded, made.waited

    def __repr__(self) -> str:
        return f"<Trace of {len(self)} operations>"

    def __len__(self) -> int:
        return len(self._store)

    @property
    def _rows(self) -> Decoding:
        return Decoding(self._store, self._unfinished)

    @property
    def ops(self) -> list[Operation]:
        """All operations that have ended, in order of their end."""
        return list(self._rows.ops)

    @property
    def calls(self) -> list[Call]:
        """All host calls that have returned, in the order of their returns."""
        return list(self._rows.calls)

    @property
    def steps(self) -> list[StreamStep]:
        """All records, waits and other steps of streams, in the order of their calls."""
        return list(self._rows.steps)

    @property
    def marks(self) -> list[Mark]:
        """What the program has marked, in the order of their ends."""
        return self._rows.marks

    @property
    def buffers(self) -> list[Memory]:
        """All memory that was allocated or registered, in that order."""
        return self._rows.buffers

    @property
    def handles(self) -> list[Handle]:
        """The streams, events, notifies and contexts in use so far."""
        return self._rows.handles

    @property
    def instructions(self) -> list[CoreInstruction]:
        """The instructions of core kernels that were kept: by launch, then by block, in the order of issue."""
        return self._store.instructions.decoded()

    def timeline(self) -> Timeline:
        """Return all rows so far as plain data."""
        rows = self._rows
        return Timeline(
            rows.ops, rows.calls, rows.steps, rows.marks, rows.buffers, rows.handles, list(self.strikes),
            self.instructions, self.device, self.rules, self._host_ns(), self.error, rows.accesses,
            self.host_time, list(self.failures), list(self.migrations), rows.launches, self.overlay, rows.exports,
            self.host_watched, rows.hosts, rows.handovers, self.handovers_watched,
            rows.source,
        )  # fmt: skip

    def save(self, path: str | Path) -> None:
        """Write all rows so far to the file *path*; `acl_py.trace.read_trace` reads it, without the program."""
        from acl_py.trace.rows.files import save  # imported here: most programs save no trace

        save(self.timeline(), path)

    def __reduce__(self) -> tuple[Any, ...]:
        """Go to another process as what was recorded so far."""
        from acl_py.trace.rows.files import SavedTrace, saved  # imported here: as above

        return SavedTrace, tuple(saved(self.timeline()))

    def staged(self, copy: Copy, stream: Stream, site: object) -> None:  # noqa: ARG002
        """Note the caller: the device queues the parts of *copy*, while any task may run."""
        caller = self._writers.caller_number()
        if caller:
            self._store.staged[copy] = StagedBy(caller, copy.nbytes)

    def part_queued(self, op: Op, copy: Copy) -> None:
        """Note the caller of *op*, a part of *copy*."""
        staged = self._store.staged.pop(copy, None)
        if staged is not None:
            self._store.op_callers[op] = staged.caller
            if staged.left > op.nbytes:
                self._store.staged[copy] = staged._replace(left=staged.left - op.nbytes)

    def captured(self, op: Op, taken: Node | NewWork) -> None:
        """Give *taken* the number of its capture; store the row of the call, if that did nothing else."""
        taken.row = self._store.graphs.next_capture()
        if op.called_ns >= 0:
            work = op.work
            about = launched(work, taken.row) if isinstance(work, Kernel | CoreKernel) else work
            self.call(verb_of(op.work.label), op.called_ns, op.end_ns, op.site, Queued(about, op.stream))

    def step_queued(self, step: Step) -> None:
        """Store a row; `recorded` and `waited` do it for events."""
        kind = step.kind.value
        if kind is not _RECORD and kind is not _WAIT:
            key = kind, step.name, step.stream, step.site
            self._store.step_rows.add(key, self._writers.caller_number(), step.queued_ns, step)

    def host_waited(self, completion: Completion, since_ns: Nanoseconds) -> None:
        """Store a row; of a staged copy also one for each of its waits, because the host itself works in between."""
        last = last_of(completion)
        if isinstance(last, Staged):
            for op, since in last.waits:
                self.host_waited(op, since)
        # Room in a queue, or a signal: the end of an operation has brought it, but which one is not known.
        if isinstance(last, Op):
            after = last.row
        elif isinstance(last, Staged):
            after = STAGED - last.number
        else:
            after = ANY_OP if isinstance(last, Need | Process) else NO_OP
        # A wait that was cancelled ended when its call went on.
        end = max(since_ns, completion.end_ns) if completion.done else self._host_ns()
        self._store.sleep_rows.write(SLEEP.pack(self._writers.caller_number(), since_ns, end, after))

    def pages_moved(
        self, op: Op | None, moves: Moves, begin_ns: Nanoseconds, end_ns: Nanoseconds, site: object
    ) -> None:
        """Store a row if pages have moved, or were reached over the bus."""
        if moves == NONE:
            return
        name, stream, device = ("host", "", -1)
        if op is not None:
            name, stream, device = op.work.label.name, op.stream.name, op.stream.context.device.ordinal
        self.migrations.append(
            Migration(
                name, stream, device, begin_ns, end_ns, moves.to_device, moves.to_host, moves.mapped, moves.remote,
                str(site),
            )
        )  # fmt: skip

    def marked(
        self, name: str, begin_ns: Nanoseconds, end_ns: Nanoseconds, site: object, stream: Stream | None = None
    ) -> None:
        """Store a row, of the calling task or thread or of *stream*."""
        by = self._writers.caller_number() if stream is None else stream.name
        self._store.marks.append((name, begin_ns, end_ns, site, by))

    def allocated(self, allocation: Allocation, since: Completion) -> None:
        """Store a row, whose begin is known when *since* is done."""
        serial = allocation.serial
        again = self._store.registered.first(allocation)
        self._store.allocations[serial] = memory_of(allocation)._replace(again=again)
        self._when(since, lambda at_ns: self._complete(serial, begin_ns=at_ns))

    def freed(self, allocation: Allocation, until: Completion) -> None:
        """Complete the row, now and when *until* is done."""
        serial = allocation.serial
        if serial in self._store.allocations:  # a trace may begin later
            self._complete(serial, freed=str(allocation.freed))
            self._when(until, lambda at_ns: self._complete(serial, end_ns=at_ns))

    def reset(self, device: Device, site: object) -> None:
        """Complete the rows of all memory that is no longer there."""
        now, living = self._host_ns(), {allocation.serial for allocation in device.memory.leaks()}
        for serial, row in self._store.allocations.items():
            if row.device == device.ordinal and serial not in living:
                self._complete(serial, freed=str(site), begin_ns=now, end_ns=now)

    def _when(self, completion: Completion, note: Callable[[Nanoseconds], None]) -> None:
        """Call *note* with the time at which *completion* is done, or now if it is done already."""
        if completion.done:
            note(self._host_ns())
        else:
            completion.add_waiter(Then(lambda done: note(done.end_ns)))

    def _complete(self, serial: int, **fields: Any) -> None:
        """Give a row of memory those of *fields* that it does not have yet."""
        row = self._store.allocations[serial]
        unknown = {name: value for name, value in fields.items() if getattr(row, name) in ("", -1)}
        self._store.allocations[serial] = row._replace(**unknown)

    def host_touched(
        self, allocation: Allocation, ranges: Sequence[tuple[int, int]], writes: bool, site: object, by: Op | None
    ) -> None:
        """Join an access of the host to its row; keep one of a host function for the row of the operation."""
        store = self._store
        if by is not None:
            store.touched.setdefault(by, Touched()).add(allocation.serial, ranges, writes=writes)
            return
        now, calls = self._host_ns(), CALL.count(store.call_rows)
        store.accesses.add(now, calls, self._writers.caller_number(), site, allocation.serial, ranges, writes=writes)

    def viewed(self, allocation: Allocation) -> None:
        """Note when the host was first given an array over the memory."""
        if allocation.serial in self._store.allocations:
            self._complete(allocation.serial, viewed_ns=self._host_ns())

    def exported(self, allocation: Allocation, ranges: Sequence[tuple[int, int]], site: object) -> None:
        """Store a row, if some of the bytes were still in sight."""
        now, calls = self._host_ns(), CALL.count(self._store.call_rows)
        self._store.exports.add(now, calls, self._writers.caller_number(), site, allocation.serial, ranges)

    def sanitized(self, host: bool, handovers: bool) -> None:
        """Note whether the rows of accesses, and those of handovers, are complete."""
        self.host_watched, self.handovers_watched = host, handovers

    def parted(self) -> None:
        """Note that ranks have hosts of their own."""
        self.host_time = OWN_HOSTS

    def hosted(self, host: int) -> None:
        """Note as which host the task or thread acts."""
        self._store.handovers.host(self._writers.caller_number(), host)

    def gave(self, given: Any, giver: int, function: Op | None) -> None:
        """Keep the place at which something was given; a row follows if it is taken."""
        store = self._store
        progress = self._writers.serials(0), store.step_rows.count
        row = -1 if function is None else function.row
        given.row = store.handovers.give(giver, row, self._place(), progress)

    def took(self, given: Any, taker: int, is_seen: bool) -> None:
        """Store a row, if it is news."""
        if given.row >= 0:  # a trace may begin later
            self._store.handovers.take(given.row, taker, self._place(), is_seen=is_seen)

    def _place(self) -> Place:
        """Return the place of what the host does now."""
        store = self._store
        return Place(self._host_ns(), CALL.count(store.call_rows), store.accesses.end_moment(), 0)

    def noticed(self, completion: Completion, site: object) -> None:
        """Store a row, if the host awaited an operation."""
        last = last_of(completion)
        if isinstance(last, Op) and last.row >= 0:
            calls = CALL.count(self._store.call_rows)
            self._store.accesses.add_await(self._host_ns(), calls, self._writers.caller_number(), site, last.row)

    def timed(self, site: object) -> None:
        """Store a row, if accesses of the host are watched: what the program does later may depend on the time."""
        if self.host_watched:
            calls = CALL.count(self._store.call_rows)
            self._store.accesses.add_clock(self._host_ns(), calls, self._writers.caller_number(), site)

    def ran(self, op: Op, result: "Result") -> None:
        """Store the run of the cores; this follows the row of the operation."""
        timeline = result.timeline
        if timeline is None:  # the launch was stopped
            return
        store = self._store
        work: Any = op.work  # a core kernel
        index = OP.count(store.op_rows) - 1
        left_out = store.instructions.note(index, op.start_ns, result) if result.programs else 0
        findings = tuple(map(str, result.findings)) if result.findings else ()
        number = op.capture if isinstance(op, NodeOp) else -1
        store.core_runs[index] = work.blocks, timeline.busy_us, findings, left_out, tuple(work.released), number

    def failed(self, op: Op, error: DeviceError) -> None:  # noqa: ARG002 - the calls that fail because of it have it
        """Store a failure."""
        self.failures.append(Failure(op.end_ns, op.work.label.name, str(op.site)))

    def fault(self, rule: Rule, subject: Op | str, at_ns: int) -> None:
        """Store a strike."""
        name, site = (subject, "") if isinstance(subject, str) else (subject.work.label.name, str(subject.site))
        self.strikes.append(Strike(at_ns, rule.text, str(rule.made), name, site))
