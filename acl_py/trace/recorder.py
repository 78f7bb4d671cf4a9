"""The recorder: the observer that stores a row for each operation, call, record, wait and sleep of the host.

packing.py has the packed rows, and decoding.py makes the rows of rows.py from them.
"""

from asyncio import AbstractEventLoop, _get_running_loop
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from threading import Thread, get_ident
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from acl_py.callers import Caller, Callers, current_caller, task_of
from acl_py.trace.accesses import Touched
from acl_py.trace.decoding import Decoding
from acl_py.trace.files import save
from acl_py.trace.packing import ANY_OP, CALL, NO_OP, OP, SLEEP, STAGED, STEP, Launch, Numbers, Store, last_of
from acl_py.trace.rows import (
    Call,
    Copied,
    CoreInstruction,
    CoreRun,
    Extent,
    Failure,
    Filled,
    Handle,
    Mark,
    Memory,
    Migration,
    Operation,
    StreamStep,
    Strike,
    Timeline,
)  # fmt: skip
from device_model.completions import Completion, Group, Nanoseconds, Need, Process, Then, Why
from device_model.device import Device
from device_model.engines.staging import Staged
from device_model.errors import DeviceError
from device_model.events import Event
from device_model.faults import Rule
from device_model.memory import NONE, Allocation, Moves
from device_model.observe import Observer
from device_model.ops import Op
from device_model.steps import Step
from device_model.streams import Stream
from device_model.work import Copy, CoreKernel, Fill, Kernel, PitchedCopy, Work

if TYPE_CHECKING:
    from device_model.kernel.results import Result

_ORDER = Why.ORDER  # a member that is read through its enum takes ten times as long
_RECORD, _WAIT = "record", "wait"


class Trace(Observer):
    """All operations and calls of a simulation; `ops` and `calls` are lists of records, in order of their end.

    Four methods of this observer are functions made for one trace. A closure reaches its variables faster, and these
    functions are the whole cost of a trace.
    """

    __slots__ = (
        "_caller_number", "_host_ns", "_store", "_unfinished", "call", "device", "error", "failures", "host_time",
        "migrations", "op_ended", "op_queued", "recorded", "rules", "strikes", "waited",
    )  # fmt: skip

    op_queued: Callable[[Op], None]  # type: ignore[assignment]
    op_ended: Callable[[Op], None]  # type: ignore[assignment]
    call: Callable[[str, int, int, object, tuple[object, ...]], None]  # type: ignore[assignment]
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
    ) -> None:
        """*instructions* is the number of instructions to keep of each core kernel; *device* and *rules* are names, and
        *callers* knows those of tasks and threads. *host_time* is that of the simulation.
        """
        self._unfinished = unfinished  # operations that have not ended: only they know their calls
        self._host_ns = host_ns
        self.device, self.rules, self.host_time = device, rules, host_time
        self.error = ""  # with what the run has ended, if not as it should
        self.strikes: list[Strike] = []  # of fault rules, in order
        self.failures: list[Failure] = []  # of operations, in order
        self.migrations: list[Migration] = []  # of pages of managed memory, in order
        self._store = Store(instructions)
        self._caller_number, self.op_queued, self.op_ended, self.call, self.recorded, self.waited = _writers(
            self._store, callers or Callers()
        )

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
            self.host_time, list(self.failures), list(self.migrations),
        )  # fmt: skip

    def save(self, path: str | Path) -> None:
        """Write all rows so far to the file *path*; `acl_py.trace.read_trace` reads it, without the program."""
        save(self.timeline(), path)

    def step_queued(self, step: Step) -> None:
        """Store a row; `recorded` and `waited` do it for events."""
        kind = step.kind.value
        if kind is not _RECORD and kind is not _WAIT:
            key = kind, step.name, step.stream, step.site
            self._store.step_rows.add(key, self._caller_number(), step.queued_ns, step)

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
        self._store.sleep_rows.write(SLEEP.pack(self._caller_number(), since_ns, end, after))

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

    def marked(self, name: str, begin_ns: Nanoseconds, end_ns: Nanoseconds, site: object) -> None:
        """Store a row."""
        self._store.marks.append((name, begin_ns, end_ns, site, self._caller_number()))

    def allocated(self, allocation: Allocation, since: Completion) -> None:
        """Store a row, whose begin is known when *since* is done."""
        space, serial = allocation.space.name.lower(), allocation.serial
        self._store.allocations[serial] = Memory(
            allocation.name, space, allocation.nbytes, allocation.device, str(allocation.made)
        )
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
        now, calls = self._host_ns(), store.call_rows.tell() // CALL.size
        store.accesses.add(now, calls, self._caller_number(), site, allocation.serial, ranges, writes=writes)

    def noticed(self, completion: Completion, site: object) -> None:
        """Store a row, if the host awaited an operation."""
        last = last_of(completion)
        if isinstance(last, Op) and last.row >= 0:
            calls = self._store.call_rows.tell() // CALL.size
            self._store.accesses.add_await(self._host_ns(), calls, self._caller_number(), site, last.row)

    def ran(self, op: Op, result: "Result") -> None:
        """Store the run of the cores; this follows the row of the operation."""
        if result.timeline is None:  # the launch was stopped
            return
        index = len(self) - 1
        left_out = self._store.instructions.note(index, op.start_ns, result)
        findings = tuple(map(str, result.findings))
        work = op.work
        assert isinstance(work, CoreKernel), f"{op!r} is not a core kernel"
        released = tuple(work.released)
        self._store.core_runs[index] = CoreRun(work.blocks, result.timeline.busy_us, findings, left_out, released)

    def failed(self, op: Op, error: DeviceError) -> None:  # noqa: ARG002 - the calls that fail because of it have it
        """Store a failure."""
        self.failures.append(Failure(op.end_ns, op.work.label.name, str(op.site)))

    def fault(self, rule: Rule, subject: Op | str, at_ns: int) -> None:
        """Store a strike."""
        name, site = (subject, "") if isinstance(subject, str) else (subject.work.label.name, str(subject.site))
        self.strikes.append(Strike(at_ns, rule.text, str(rule.made), name, site))


def _writers(store: Store, names_of: Callers) -> tuple[Callable[[], int], Any, Any, Any, Any, Any]:
    """Return a function that gives the number of the calling task or thread, and five methods of `Trace`: `op_queued`,
    `op_ended`, `call`, `recorded` and `waited`.
    """
    names, callers = store.callers, store.op_callers
    call_numbers, write_call, pack_call = store.call_numbers, store.call_rows.write, CALL.pack
    steps, none = store.step_rows, NO_OP
    step_numbers, write_step, pack_step = steps.numbers, steps.rows.write, STEP.pack
    known: WeakKeyDictionary[Caller, int] = WeakKeyDictionary()
    latest: Caller | None = None
    number = -1  # of the latest caller
    loop: AbstractEventLoop | None = None  # that of the latest caller, and the thread in which it runs
    thread = -1
    serial = 0  # of the next operation

    # The common case, here and below: the same task as before. To ask for the running loop costs a system call before
    # Python 3.12.

    def op_queued(op: Op) -> None:
        """Give *op* its serial number; note the calling task, unless it is the first: one task needs no entries."""
        nonlocal serial
        op.row = serial
        serial += 1
        if get_ident() != thread or task_of(loop) is not latest:
            change()
        if number:
            callers[op] = number

    def call(name: str, enter_ns: int, exit_ns: int, site: object, about: tuple[object, ...]) -> None:
        """Store a row."""
        if get_ident() != thread or task_of(loop) is not latest:
            change()
        for each in about:
            if isinstance(each, Work | Allocation):  # what many calls have in common, in place of the objects
                about = tuple(map(plain, about))
                break
        write_call(pack_call(call_numbers[name, site, about], number, enter_ns, exit_ns))

    def recorded(event: Event, stream: Stream, enter_ns: int, site: object, completion: Completion) -> None:
        """Store a row."""
        if get_ident() != thread or task_of(loop) is not latest:
            change()
        row = event.row = steps.count
        steps.count = row + 1
        serial = completion.row if type(completion) is Op else none
        if serial < 0:
            serial = steps.end(row, completion)
        write_step(pack_step(step_numbers[_RECORD, event, stream, site], number, enter_ns, stream.scheduler.now,
                             none, serial))  # fmt: skip

    def waited(event: Event, stream: Stream, enter_ns: int, site: object, completion: Completion) -> None:
        """Store a row."""
        if get_ident() != thread or task_of(loop) is not latest:
            change()
        row = steps.count
        steps.count = row + 1
        serial = completion.row if type(completion) is Op else none
        if serial < 0:
            serial = steps.end(row, completion)
        write_step(pack_step(step_numbers[_WAIT, event, stream, site], number, enter_ns, stream.scheduler.now,
                             event.row, serial))  # fmt: skip

    def caller_number() -> int:
        if get_ident() != thread or task_of(loop) is not latest:
            change()
        return number

    def change() -> None:
        nonlocal latest, number, loop, thread
        loop = _get_running_loop()
        caller = current_caller()
        thread = -1 if isinstance(caller, Thread) else get_ident()
        if caller is latest:
            return
        latest = caller
        if caller not in known:
            known[caller] = len(names)
            names.append(names_of.name(caller))
        number = known[caller]

    def next_serial() -> int:
        """Return the serial number of an operation that the device has queued itself."""
        nonlocal serial
        serial += 1
        return serial - 1

    return caller_number, op_queued, _op_writer(store, next_serial), call, recorded, waited


def _op_writer(store: Store, next_serial: Callable[[], int]) -> Callable[[Op], None]:
    write, pack, order, none = store.op_rows.write, OP.pack, _ORDER, NO_OP
    numbers, callers, launches = store.op_numbers, store.op_callers, store.launches
    touched = store.touched

    def op_ended(op: Op) -> None:
        """Store a row."""
        serial = op.row
        if serial < 0:
            serial = op.row = next_serial()
        by = op.by
        after = none
        if by is None:
            why = op.why
        else:
            reasons = op.reasons
            why = order if reasons is None else reasons.get(by, order)
            if type(by) is not Op:
                why, by = _behind(by, why)
            if by is not None:
                after = by.row
                if after < 0:  # the device has queued it, and it has not ended
                    after = by.row = next_serial()
        work = op.work
        if type(work) is Copy:  # a line each: a tuple of four is made before it is unpacked
            dst = work.dst.serial
            src = work.src.serial
            dst_offset = work.dst_offset
            src_offset = work.src_offset
        elif type(work) is Kernel and work.number >= 0:
            dst = work.number
            src = none
            dst_offset = src_offset = 0
        elif op in touched:
            dst = launches[(0, 0, False, *touched.pop(op).extents())]
            src = none
            dst_offset = src_offset = 0
        else:
            dst, src, dst_offset, src_offset = _ends(work, launches)
        caller = callers.pop(op, 0) if callers else 0
        write(
            pack(
                serial,
                numbers[op.stream, op.site, work.label],
                caller, dst, src, dst_offset, src_offset, op.nbytes,
                op.called_ns, op.queued_ns, op.ready_ns, op.start_ns, op.end_ns, why, after,
            )
        )  # fmt: skip

    return op_ended


def _ends(work: Work, launches: Numbers[Launch]) -> tuple[int, int, int, int]:
    """Return the numbers of both ends of a copy or a fill and the offsets there; of a kernel, its number."""
    if isinstance(work, Copy):
        return work.dst.serial, work.src.serial, work.dst_offset, work.src_offset
    if isinstance(work, Fill):
        return work.dst.serial, NO_OP, work.offset, 0
    if isinstance(work, Kernel):
        number = work.number = launches[work.blocks, work.block_ns, work.exclusive, *_touched(work)]
        return number, NO_OP, 0, 0
    if isinstance(work, CoreKernel):
        return launches[work.blocks, 0, True, *_touched(work)], NO_OP, 0, 0
    return NO_OP, NO_OP, 0, 0


def _touched(work: Work) -> tuple[tuple[Extent, ...], tuple[Extent, ...]]:
    reads, writes = (
        tuple(Extent(allocation.serial, start, stop) for allocation, start, stop in extents)
        for extents in (work.reads(), work.writes())
    )
    return reads, writes


def plain(subject: object) -> object:
    """Return what a row has in place of *subject*, which a call was about."""
    if isinstance(subject, Allocation):
        return Extent(subject.serial, 0, subject.nbytes)
    if isinstance(subject, Fill):
        return Filled(subject.dst.serial, subject.offset, subject.value, subject.nbytes)
    if isinstance(subject, Copy):
        rows = (
            (subject.width, subject.height, subject.dst_pitch, subject.src_pitch)
            if isinstance(subject, PitchedCopy) else ()
        )  # fmt: skip
        return Copied(subject.label.kind, subject.dst.serial, subject.dst_offset, subject.src.serial,
                      subject.src_offset, subject.nbytes, *rows)  # fmt: skip
    return subject


def _behind(by: Completion, why: Why) -> tuple[Why, Op | None]:
    """Return why an operation waited for *by*, which is no plain operation, and the operation that was last in *by*.

    *why* is the reason that the operation itself has for *by*.
    """
    if isinstance(by, Op):  # a node of a graph
        return why, by
    if not isinstance(by, Group):
        return why, None
    if why is _ORDER and by.why is not None:
        why = by.why
    return why, by.last if isinstance(by.last, Op) else None
