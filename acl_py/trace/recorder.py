"""The recorder: a packed row for each operation and each host call, decoded when it is read.

A row of an operation takes 61 bytes, a row of a call 24. It has times and sizes, a number that stands for the values
that many rows share (stream, call site, label), and the number of the task or thread that called. Numbers are given in
the order in which the values first appear, so a trace is the same for every run and contains no address.

For a core kernel the trace has how busy its pipes were, and on demand its instructions (instructions.py).
"""

from asyncio import AbstractEventLoop, _get_running_loop
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import BytesIO
from struct import Struct
from threading import Thread, get_ident
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from acl_py.callers import Caller, current_caller, row_name, task_of
from acl_py.sites import Site
from acl_py.trace.instructions import CoreInstruction, Instructions
from acl_py.trace.reasons import Row, reasons
from device_model.completions import AllOf, Completion, Why
from device_model.faults import Rule
from device_model.observe import Observer
from device_model.ops import Op
from device_model.streams import Stream
from device_model.work import CoreKernel, Label

if TYPE_CHECKING:
    from device_model.aicore.runner import Result

_OP = Struct("<IIqqqqqqBi")  # the fields of reasons.Row
_CALL = Struct("<IIqq")  # numbers of values and caller; enter, exit
_K = TypeVar("_K")

ENGINES = {
    "h2d": "H2D",
    "d2h": "D2H",
    "d2d": "cores",
    "p2p": "P2P",
    "fill": "cores",
    "kernel": "cores",
    "host_function": "host",
}


class CoreRun(NamedTuple):
    """The run of a core kernel on its cores, in *blocks* blocks.

    *busy_us* has microseconds by the profiler's names (aiv_time, vec, scalar, mte2, ...), the mean over the cores in
    use. *findings* describe mistakes in the kernel. *left_out* is the number of instructions beyond the limit of
    the trace.
    """

    blocks: int
    busy_us: Mapping[str, float]
    findings: tuple[str, ...]
    left_out: int


class Operation(NamedTuple):
    """One operation on a device. Times in nanoseconds; *site* is the line that submitted it, as "file.py:12".

    *cores* has more about a core kernel, and is None for other operations. *why* is the reason why the operation did
    not start earlier, and *after* the index, in `Trace.ops`, of the operation that it waited for; None if it was none.
    """

    name: str
    kind: str
    stream: str
    engine: str
    queued_ns: int
    start_ns: int
    end_ns: int
    bytes: int
    site: str
    device: int
    cores: CoreRun | None = None
    why: Why = Why.HOST
    after: int | None = None


class Call(NamedTuple):
    """One call of the host, from *enter_ns* to *exit_ns*, made in *file* at *line*.

    *caller* is the task or thread that made it: "task 'producer'" if the program has named it, otherwise "task 1", with
    a number in the order of first calls.
    """

    name: str
    enter_ns: int
    exit_ns: int
    file: str
    line: int
    caller: str


class Strike(NamedTuple):
    """A fault rule struck a call or an operation called *name*, at *at_ns*.

    *site* is the line that queues the operation. *rule* is the text of the rule, and *made* the line that made it.
    """

    at_ns: int
    rule: str
    made: str
    name: str
    site: str


class _Numbers(dict[_K, int]):
    """Numbers for values, from 0, in the order in which they first appear."""

    __slots__ = ()

    def __missing__(self, key: _K) -> int:
        number = self[key] = len(self)
        return number


class Trace(Observer):
    """All operations and calls of a simulation; `ops` and `calls` are lists of records, in order of their end.

    `op_queued`, `op_ended` and `call` of this observer are functions made for one trace, not methods. A closure reaches
    its variables faster, and these functions are the whole cost of a trace.
    """

    __slots__ = ("_call_numbers", "_callers", "_calls", "_core_runs", "_early", "_instructions", "_op_callers",
                 "_op_numbers", "_ops", "_unfinished", "call", "op_ended", "op_queued", "strikes")  # fmt: skip

    op_queued: Callable[[Op], None]  # type: ignore[assignment]
    op_ended: Callable[[Op], None]  # type: ignore[assignment]
    call: Callable[[str, int, int, object], None]  # type: ignore[assignment]

    def __init__(self, unfinished: Callable[[], Iterable[Op]] = tuple, *, instructions: int = 0) -> None:
        """*instructions* is the number of instructions to keep of each core kernel."""
        self._unfinished = unfinished  # operations that have not ended: only they know their calls
        self._ops, self._calls = BytesIO(), BytesIO()
        self._op_numbers: _Numbers[tuple[Stream, object, Label]] = _Numbers()
        self._call_numbers: _Numbers[tuple[str, object]] = _Numbers()
        self._callers: list[str] = []  # by their numbers
        self._op_callers: dict[Op, int] = {}  # who made the call of an operation that has not ended, if not caller 0
        # What some operations waited for that had no row yet when they ended: a copy inside the device lets others
        # start before its own end. An operation that is aborted before its start never gets one.
        self._early: dict[int, Op] = {}
        self.op_ended = _op_writer(self._ops.write, self._op_numbers, self._op_callers, self._early)
        self.op_queued, self.call = _caller_writers(
            self._calls.write, self._call_numbers, self._callers, self._op_callers
        )
        self._core_runs: dict[int, CoreRun] = {}  # by the index of the operation
        self._instructions = Instructions(instructions)
        self.strikes: list[Strike] = []  # of fault rules, in order

    def __repr__(self) -> str:
        return f"<Trace of {len(self)} operations>"

    def __len__(self) -> int:
        return self._ops.tell() // _OP.size

    @property
    def ops(self) -> list[Operation]:
        """All operations that have ended, in order of their end."""
        common = [
            (label.name, label.kind, stream.name, ENGINES[label.kind], str(site), stream.context.device.ordinal)
            for stream, site, label in self._op_numbers
        ]
        ops = []
        cores = self._core_runs.get
        rows = list(self._op_rows())
        places = [(stream, label.lane) for stream, _, label in self._op_numbers]
        for index, (row, reason) in enumerate(zip(rows, reasons(rows, places, self._early), strict=True)):
            name, kind, stream, engine, site, device = common[row.number]
            times = row.queued, row.start, row.end
            ops.append(Operation(name, kind, stream, engine, *times, row.bytes, site, device, cores(index), *reason))
        return ops

    @property
    def instructions(self) -> list[CoreInstruction]:
        """The instructions of core kernels that were kept: by launch, then by block, in the order of issue."""
        return self._instructions.decoded()

    def ran(self, op: Op, result: "Result") -> None:
        """Store the run of the cores; this follows the row of the operation."""
        if result.timeline is None:  # the launch was stopped
            return
        index = len(self) - 1
        left_out = self._instructions.note(index, op.start_ns, result)
        findings = tuple(map(str, result.findings))
        work = op.work
        assert isinstance(work, CoreKernel), f"{op!r} is not a core kernel"
        self._core_runs[index] = CoreRun(work.blocks, result.timeline.busy_us, findings, left_out)

    def fault(self, rule: Rule, subject: Op | str, at_ns: int) -> None:
        """Store a strike."""
        name, site = (subject, "") if isinstance(subject, str) else (subject.work.label.name, str(subject.site))
        self.strikes.append(Strike(at_ns, rule.text, str(rule.made), name, site))

    @property
    def calls(self) -> list[Call]:
        """All host calls that have returned, in the order of their returns."""
        calls = []
        named = [(name, *_place(site)) for name, site in self._call_numbers]
        callers = self._callers
        for number, caller, enter, exit_ in _CALL.iter_unpack(self._calls.getvalue()):
            name, file, line = named[number]
            calls.append(Call(name, enter, exit_, file, line, callers[caller]))
        queuing = [(_verb(label), *_place(site)) for _, site, label in self._op_numbers]
        for row in self._op_rows():
            if row.called >= 0:
                name, file, line = queuing[row.number]
                calls.append(Call(name, row.called, row.queued, file, line, callers[row.caller]))
        calls += [
            Call(verb_of(op), op.called_ns, op.queued_ns, *_place(op.site), callers[self._op_callers.get(op, 0)])
            for op in self._unfinished()
            if op.called_ns >= 0
        ]
        calls.sort(key=lambda call: (call.exit_ns, call.enter_ns))
        return calls

    def _op_rows(self) -> Iterator[Row]:
        return map(Row._make, _OP.iter_unpack(self._ops.getvalue()))


_Write = Callable[[bytes], int]


def _caller_writers(
    write: _Write, numbers: _Numbers[tuple[str, object]], names: list[str], callers: dict[Op, int]
) -> tuple[Callable[[Op], None], Callable[[str, int, int, object], None]]:
    """Return `op_queued` and `call`: both note the number of the calling task or thread; a new one goes to *names*."""
    pack = _CALL.pack
    known: WeakKeyDictionary[Caller, int] = WeakKeyDictionary()
    latest: Caller | None = None
    number = -1  # of the latest caller
    loop: AbstractEventLoop | None = None  # that of the latest caller, and the thread in which it runs
    thread = -1

    def op_queued(op: Op) -> None:
        """Note the calling task, unless it is the first one: a program of one task needs no entry."""
        # The common case, here and below: the same task as before. To ask for the running loop costs a system call
        # before Python 3.12.
        if get_ident() != thread or task_of(loop) is not latest:
            change()
        if number:
            callers[op] = number

    def call(name: str, enter_ns: int, exit_ns: int, site: object) -> None:
        """Store a row."""
        if get_ident() != thread or task_of(loop) is not latest:
            change()
        write(pack(numbers[name, site], number, enter_ns, exit_ns))

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
            names.append(row_name(caller, len(names) + 1))
        number = known[caller]

    return op_queued, call


def _op_writer(
    write: _Write, numbers: _Numbers[tuple[Stream, object, Label]], callers: dict[Op, int], early: dict[int, Op]
) -> Callable[[Op], None]:
    pack, order, none = _OP.pack, Why.ORDER, -1
    count = 0

    def op_ended(op: Op) -> None:
        """Store a row."""
        nonlocal count
        row = op.row = count
        count = row + 1
        by, why, after = op.by, op.why, none
        if by is not None:
            why = order
            if op.reasons is not None or type(by) is not Op:
                why, by = _reason(op)
            try:
                after = by.row  # type: ignore[union-attr]
            except AttributeError:
                if isinstance(by, Op):
                    early[row] = by
        number = numbers[op.stream, op.site, op.work.label]
        caller = callers.pop(op, 0) if callers else 0
        write(
            pack(number, caller, op.called_ns, op.queued_ns, op.ready_ns, op.start_ns, op.end_ns, op.nbytes, why, after)
        )

    return op_ended


def _reason(op: Op) -> tuple[Why, Completion | None]:
    """Return why *op* was not ready earlier, and the work that it waited for."""
    by = op.by
    assert by is not None, f"{op!r} has waited for nothing"
    why = Why.ORDER if op.reasons is None else op.reasons.get(by, Why.ORDER)
    if not isinstance(by, AllOf):
        return why, by
    return by.why if why is Why.ORDER and by.why is not None else why, by.last


def verb_of(op: Op) -> str:
    """Return the name of the verb that queued *op* and did nothing else."""
    return _verb(op.work.label)


def _verb(label: Label) -> str:
    return "LaunchKernel" if label.kind == "kernel" else "MemcpyAsync"


def _place(site: object) -> tuple[str, int]:
    return (site.file, site.line) if isinstance(site, Site) else ("", 0)
