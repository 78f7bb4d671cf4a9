"""The recorder: every operation and every host call as one packed row each, decoded when somebody looks.

A row of an operation takes 44 bytes, one of a call 20: times and sizes, and the number of what they have in common
with other rows. Numbers are given as things come, so a trace is the same for every run, and holds no address.

Of a core kernel the trace keeps how busy its pipes were, and on demand its instructions (instructions.py).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from io import BytesIO
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from acl_py.sites import Site
from acl_py.trace.instructions import CoreInstruction, Instructions
from device_model.faults import Rule
from device_model.observe import Observer
from device_model.ops import Op
from device_model.streams import Stream
from device_model.work import CoreKernel, Label

if TYPE_CHECKING:
    from device_model.aicore.runner import Result

_OP = Struct("<Iqqqqq")  # number; called, queued, start, end; bytes
_CALL = Struct("<Iqq")  # number; enter, exit
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
    """What the cores of a core kernel did in *blocks* blocks.

    *busy_us* has microseconds by the profiler's names (aiv_time, vec, scalar, mte2, ...), the mean over the cores in
    use. *findings* says what is wrong with it. *left_out* instructions exceed the limit of the trace.
    """

    blocks: int
    busy_us: Mapping[str, float]
    findings: tuple[str, ...]
    left_out: int


class Operation(NamedTuple):
    """One operation on a device. Times in nanoseconds; *site* is the line that submitted it, as "file.py:12".

    *cores* tells more about a core kernel.
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


class Call(NamedTuple):
    """One call of the host, from *enter_ns* to *exit_ns*, made in *file* at *line*."""

    name: str
    enter_ns: int
    exit_ns: int
    file: str
    line: int


class Strike(NamedTuple):
    """A fault rule struck, at *at_ns*: a call or an operation, by its *name*. An operation was about to be queued, at
    *site*. *rule* is the rule as it was written, and *made* the line that made it.
    """

    at_ns: int
    rule: str
    made: str
    name: str
    site: str


class _Numbers(dict[_K, int]):
    """Numbers for things, from 0, in the order in which they come."""

    __slots__ = ()

    def __missing__(self, key: _K) -> int:
        number = self[key] = len(self)
        return number


class Trace(Observer):
    """All operations and calls of a simulation; `ops` and `calls` are lists of records, in order of their end.

    What it overrides of an observer are functions made for one trace, not methods: a closure reaches its variables
    faster, and these two are all that a trace costs.
    """

    __slots__ = ("_call_numbers", "_calls", "_core_runs", "_instructions", "_op_numbers", "_ops", "_unfinished",
                 "call", "op_ended", "strikes")  # fmt: skip

    op_ended: Callable[[Op], None]  # type: ignore[assignment]
    call: Callable[[str, int, int, object], None]  # type: ignore[assignment]

    def __init__(self, unfinished: Callable[[], Iterable[Op]] = tuple, *, instructions: int = 0) -> None:
        """*instructions* is how many instructions of each core kernel are kept."""
        self._unfinished = unfinished  # operations that have not ended: their calls are told of nowhere else
        self._ops, self._calls = BytesIO(), BytesIO()
        self._op_numbers: _Numbers[tuple[Stream, object, Label]] = _Numbers()
        self._call_numbers: _Numbers[tuple[str, object]] = _Numbers()
        self.op_ended = _op_writer(self._ops.write, self._op_numbers)
        self.call = _call_writer(self._calls.write, self._call_numbers)
        self._core_runs: dict[int, CoreRun] = {}  # by the index of the operation
        self._instructions = Instructions(instructions)
        self.strikes: list[Strike] = []  # what fault rules have struck, in order

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
        for index, (number, _, queued, start, end, nbytes) in enumerate(self._op_rows()):
            name, kind, stream, engine, site, device = common[number]
            ops.append(Operation(name, kind, stream, engine, queued, start, end, nbytes, site, device, cores(index)))
        return ops

    @property
    def instructions(self) -> list[CoreInstruction]:
        """The instructions of core kernels that were kept: launch by launch, block by block, in the order of issue."""
        return self._instructions.decoded()

    def ran(self, op: Op, result: "Result") -> None:
        """Note what the cores did; this comes right behind the row of the operation."""
        if result.timeline is None:  # it was stopped
            return
        index = len(self) - 1
        left_out = self._instructions.note(index, op.start_ns, result)
        findings = tuple(map(str, result.findings))
        work = op.work
        assert isinstance(work, CoreKernel), f"{op!r} is no core kernel"
        self._core_runs[index] = CoreRun(work.blocks, result.timeline.busy_us, findings, left_out)

    def fault(self, rule: Rule, subject: Op | str, at_ns: int) -> None:
        """Note a strike."""
        name, site = (subject, "") if isinstance(subject, str) else (subject.work.label.name, str(subject.site))
        self.strikes.append(Strike(at_ns, rule.text, str(rule.made), name, site))

    @property
    def calls(self) -> list[Call]:
        """All host calls that have returned, in the order of their returns."""
        calls = []
        named = [(name, *_place(site)) for name, site in self._call_numbers]
        for number, enter, exit_ in _CALL.iter_unpack(self._calls.getvalue()):
            name, file, line = named[number]
            calls.append(Call(name, enter, exit_, file, line))
        queuing = [(_verb(label), *_place(site)) for _, site, label in self._op_numbers]
        for number, called, queued, *_ in self._op_rows():
            if called >= 0:
                name, file, line = queuing[number]
                calls.append(Call(name, called, queued, file, line))
        calls += [
            Call(verb_of(op), op.called_ns, op.queued_ns, *_place(op.site))
            for op in self._unfinished()
            if op.called_ns >= 0
        ]
        calls.sort(key=lambda call: (call.exit_ns, call.enter_ns))
        return calls

    def _op_rows(self) -> Iterator[tuple[int, ...]]:
        return _OP.iter_unpack(self._ops.getvalue())


_Write = Callable[[bytes], int]


def _op_writer(write: _Write, numbers: _Numbers[tuple[Stream, object, Label]]) -> Callable[[Op], None]:
    pack = _OP.pack

    def op_ended(op: Op) -> None:
        """Note a row."""
        number = numbers[op.stream, op.site, op.work.label]
        write(pack(number, op.called_ns, op.queued_ns, op.start_ns, op.end_ns, op.nbytes))

    return op_ended


def _call_writer(write: _Write, numbers: _Numbers[tuple[str, object]]) -> Callable[[str, int, int, object], None]:
    pack = _CALL.pack

    def call(name: str, enter_ns: int, exit_ns: int, site: object) -> None:
        """Note a row."""
        write(pack(numbers[name, site], enter_ns, exit_ns))

    return call


def verb_of(op: Op) -> str:
    """The call that queued *op* and did nothing else."""
    return _verb(op.work.label)


def _verb(label: Label) -> str:
    return "LaunchKernel" if label.kind == "kernel" else "MemcpyAsync"


def _place(site: object) -> tuple[str, int]:
    return (site.file, site.line) if isinstance(site, Site) else ("", 0)
