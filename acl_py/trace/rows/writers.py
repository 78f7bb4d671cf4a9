"""The writers of a trace: the functions that the recorder is called with most, made for one trace.

A closure reaches its variables faster than a method does, and these functions are nearly the whole cost of a trace.
"""

from asyncio import AbstractEventLoop, _get_running_loop
from collections.abc import Callable, Sequence
from functools import partial
from threading import Thread, get_ident
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from acl_py.callers import Caller, Callers, current_caller, task_of
from acl_py.calls.acts import Act, Word, mapped
from acl_py.trace.rows.packing import BY_ROWS, CALL, NO_OP, OP, STEP, Numbers
from acl_py.trace.rows.store import Launch, Store
from acl_py.trace.rows.timeline import Copied, Extent, Filled, Joint, Launched, Memory, Prefetched
from device_model.collectives.calls import Call
from device_model.collectives.parts import Part
from device_model.completions import Completion, Group, Nanoseconds, Why
from device_model.core_kernels import CoreKernel
from device_model.events import Event
from device_model.graphs.executable import Executable, Run
from device_model.graphs.graph import Graph
from device_model.graphs.groups import TaskGroup
from device_model.graphs.plan import Entry
from device_model.graphs.streaks import NodeOp
from device_model.memory import Allocation
from device_model.ops import Op
from device_model.streams import Stream
from device_model.touches import Touches
from device_model.work import Copy, Fill, HostFunction, Kernel, PitchedCopy, Prefetch, Work

_ORDER = Why.ORDER  # a member that is read through its enum takes ten times as long
_HOST = Why.HOST
_RECORD, _WAIT = "record", "wait"
MOST_EXTENTS = 4096  # of an allocation, that the row of a kernel keeps
MOST_ROWS = 256  # of a copy by rows
# Objects that would live as long as the trace, and tuples, which may have some.
_NOT_KEPT = (Work, Allocation, Graph, Executable, TaskGroup, tuple)


_Ran = tuple[NodeOp, Entry, Nanoseconds, Nanoseconds]  # a node that ran without an operation of its own


class Writers(NamedTuple):
    """Functions that give the number of the calling task or thread, and the first of so many serial numbers, which are
    taken then; and eight methods of `Trace`.
    """

    caller_number: Callable[[], int]
    serials: Callable[[int], int]
    op_queued: Any
    run_queued: Any
    node_queued: Any
    nodes_ran: Any
    op_ended: Any
    call: Any
    recorded: Any
    waited: Any


def writers(store: Store, names_of: Callers) -> Writers:
    """Return the functions that write rows to *store*; *names_of* knows the callers."""
    names, callers = store.callers, store.op_callers
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

    def serials(count: int) -> int:
        """Return the first serial number of so many operations."""
        nonlocal serial
        serial += count
        return serial - count

    op_ended = _op_writer(store, serials)
    return Writers(
        caller_number, serials, op_queued, *_node_writers(store, serials, caller_number, op_ended), op_ended,
        _call_writer(store, caller_number), *_step_writers(store, caller_number),
    )  # fmt: skip


def _call_writer(store: Store, caller_number: Callable[[], int]) -> Callable[[str, int, int, object, Act[Any]], None]:
    numbers, write, pack = store.call_numbers, store.call_rows.write, CALL.pack
    plain = partial(_plain, store=store)

    def call(name: str, enter_ns: int, exit_ns: int, site: object, act: Any) -> None:
        """Store a row."""
        for each in act:
            if isinstance(each, _NOT_KEPT):  # what many calls have in common, in place of the objects
                act = act._make(map(plain, act))
                break
        write(pack(numbers[name, site, act], caller_number(), enter_ns, exit_ns))

    return call


def _step_writers(store: Store, caller_number: Callable[[], int]) -> tuple[Any, Any]:
    """Return two methods of `Trace`: `recorded` and `waited`."""
    steps, none = store.step_rows, NO_OP
    step_numbers, write_step, pack_step = steps.numbers, steps.rows.write, STEP.pack

    def recorded(event: Event, stream: Stream, enter_ns: int, site: object, completion: Completion) -> None:
        """Store a row."""
        row = event.row = steps.count
        steps.count = row + 1
        serial = completion.row if type(completion) is Op else none
        if serial < 0:
            serial = steps.end(row, completion)
        number = step_numbers[_RECORD, event, stream, site]
        write_step(pack_step(number, caller_number(), enter_ns, stream.scheduler.now, none, serial))

    def waited(event: Event, stream: Stream, enter_ns: int, site: object, completion: Completion) -> None:
        """Store a row."""
        row = steps.count
        steps.count = row + 1
        serial = completion.row if type(completion) is Op else none
        if serial < 0:
            serial = steps.end(row, completion)
        number = step_numbers[_WAIT, event, stream, site]
        write_step(pack_step(number, caller_number(), enter_ns, stream.scheduler.now, event.row, serial))

    return recorded, waited


def _op_writer(store: Store, serials: Callable[[int], int]) -> Callable[[Op], None]:
    write, pack, order, none = store.op_rows.write, OP.pack, _ORDER, NO_OP
    numbers, callers, launches = store.op_numbers, store.op_callers, store.launches
    touched = store.touched

    def op_ended(op: Op) -> None:
        """Store a row."""
        serial = op.row
        if serial < 0:
            serial = op.row = serials(1)
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
                    after = by.row = serials(1)
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
                numbers[op.stream, op.site, work.label, op.queue],
                caller, dst, src, dst_offset, src_offset, op.nbytes,
                op.called_ns, op.queued_ns, op.ready_ns, op.start_ns, op.end_ns, why, after,
            )
        )  # fmt: skip

    return op_ended


def _node_writers(
    store: Store,
    serials: Callable[[int], int],
    caller_number: Callable[[], int],
    op_ended: Callable[[Op], None],
) -> tuple[
    Callable[[Run, Sequence[Completion]], None],
    Callable[[NodeOp], None],
    Callable[[Sequence[_Ran]], None],
]:
    """Return three methods of `Trace`: `run_queued`, `node_queued` and `nodes_ran`."""
    write, pack, order, host, none = store.op_rows.write, OP.pack, _ORDER, _HOST, NO_OP
    numbers, callers, launches, submitted = store.op_numbers, store.op_callers, store.launches, store.graphs.submitted

    def node_queued(op: NodeOp) -> None:
        """Note the caller: it is that of the launch, also if *op* is queued much later."""
        launch = op.run.launch.row
        if launch >= 0 and submitted[launch].caller:  # a trace may begin later
            callers[op] = submitted[launch].caller

    def nodes_ran(ran: Sequence[_Ran]) -> None:
        """Store a row for each node: the one that `op_ended` would store, if each had an operation."""
        known: dict[NodeOp | None, int] = {}  # the row of the last node of each operation but this one
        this, serial = None, none
        for op, entry, start_ns, end_ns in ran:
            if op is not this:
                known[this] = serial
                this, run, stream, queue, queued_ns = op, op.run, op.stream, op.queue, op.queued_ns
                caller = callers.get(op, 0)
                if op not in known:
                    op_ended(op)
                    if caller:
                        callers[op] = caller  # of its next node
                    serial = op.row
                    continue
                serial = known[op]
            work = entry.node.work
            assert work is not None, f"{entry.node!r} ran, and has no work"
            number = work.number if type(work) is Kernel and work.number >= 0 else _ends(work, launches)[0]
            why, after = (order, serial) if start_ns > run.ready_ns else (host, none)  # as in Op.release
            serial = run.row_of(entry)
            if serial < 0:  # the trace began later
                serial = serials(1)
            write(
                pack(
                    serial,
                    numbers[stream, entry.node.site, work.label, queue],
                    caller, number, none, 0, 0, work.nbytes,
                    -1, queued_ns, start_ns, start_ns, end_ns, why, after,
                )
            )  # fmt: skip

    def run_queued(run: Run, made: Sequence[Completion]) -> None:  # noqa: ARG001
        """Store a row of a launch, and which operations the run has: they are the next ones."""
        store.graphs.add(run, serials(run.plan.operations), caller_number)

    return run_queued, node_queued, nodes_ran


_NOTHING: tuple[tuple[Extent, ...], tuple[Extent, ...]] = ((), ())


def _ends(work: Work, launches: Numbers[Launch]) -> tuple[int, int, int, int]:
    """Return the numbers of both ends of a copy or a fill and the offsets there; of a kernel, its number."""
    if isinstance(work, CoreKernel):
        reads, writes = work.reads(), work.writes()
        touched = (_extents(reads), _extents(writes)) if reads or writes else _NOTHING
        return launches[work.blocks, 0, True, *touched], NO_OP, 0, 0
    if isinstance(work, PitchedCopy):
        return launches[0, 0, False, *_rows(work)], BY_ROWS, 0, 0
    if isinstance(work, Copy):
        return work.dst.serial, work.src.serial, work.dst_offset, work.src_offset
    if isinstance(work, Fill):
        return work.dst.serial, NO_OP, work.offset, 0
    if isinstance(work, Kernel):
        number = work.number = launches[work.blocks, work.block_ns, work.exclusive, *_touched(work)]
        return number, NO_OP, 0, 0
    if isinstance(work, Part):
        return launches[0, 0, False, *_touched(work)], NO_OP, 0, 0
    return NO_OP, NO_OP, 0, 0


def _rows(work: PitchedCopy) -> tuple[tuple[Extent, ...], tuple[Extent, ...]]:
    """Return the rows that *work* reads and writes; the gaps of very many rows are closed."""
    if work.height > MOST_ROWS:
        return _extents(work.reads()), _extents(work.writes())
    return _extents(work.read_rows()), _extents(work.written_rows())


def _touched(work: Work) -> tuple[tuple[Extent, ...], tuple[Extent, ...]]:
    """Return what a kernel reads and writes; small gaps between very many ranges are closed."""
    return _extents(work.reads()), _extents(work.writes())


def _extents(extents: Sequence[Any]) -> tuple[Extent, ...]:
    if not extents:
        return ()
    ranges = extents.at_most(MOST_EXTENTS) if type(extents) is Touches else extents
    return tuple(Extent(allocation.serial, start, stop) for allocation, start, stop in ranges)


def _plain(subject: object, store: Store) -> object:
    """Return what a row has in place of *subject*, which an act names."""
    if type(subject) is tuple or type(subject) is Word:
        return mapped(subject, partial(_plain, store=store))
    if isinstance(subject, Allocation):
        if subject.serial not in store.allocations:  # of a node of a graph, or made before the trace began
            store.allocations[subject.serial] = memory_of(subject)
        return Extent(subject.serial, 0, subject.nbytes)
    if isinstance(subject, Fill):
        return Filled(subject.dst.serial, subject.offset, subject.value, subject.nbytes, subject.unit)
    if isinstance(subject, Copy):
        rows = (
            (subject.width, subject.height, subject.dst_pitch, subject.src_pitch)
            if isinstance(subject, PitchedCopy) else ()
        )  # fmt: skip
        return Copied(subject.label.kind, subject.dst.serial, subject.dst_offset, subject.src.serial,
                      subject.src_offset, subject.nbytes, *rows)  # fmt: skip
    if isinstance(subject, Prefetch):
        return Prefetched(subject.allocation.serial, subject.start, subject.nbytes, subject.location)
    if isinstance(subject, Call):
        return Joint(
            subject.kind.value, subject.count, str(subject.dtype or ""),
            "" if subject.reduction is None else subject.reduction.value,
            -1 if subject.root is None else subject.root, -1 if subject.peer is None else subject.peer,
            _extents(subject.sends), _extents(subject.receives),
        )  # fmt: skip
    if isinstance(subject, HostFunction):
        return Launched(subject.label.name, 1, subject.duration_ns, False, (), ())
    if isinstance(subject, Graph | Executable | TaskGroup):
        return store.graphs.number(subject)
    return subject


def memory_of(allocation: Allocation) -> Memory:
    """Return the row of *allocation*, without its life."""
    space = allocation.space.name.lower()
    return Memory(allocation.name, space, allocation.nbytes, allocation.device, str(allocation.made))


def launched(work: Kernel | CoreKernel, number: int) -> Launched:
    """Return what a row has in place of the kernel *work*, whose capture has this *number*."""
    reads, writes = _touched(work)
    if isinstance(work, CoreKernel):
        return Launched(work.label.name, work.blocks, 0, True, reads, writes, work.cores, number)
    return Launched(work.label.name, work.blocks, work.block_ns, work.exclusive, reads, writes)


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
