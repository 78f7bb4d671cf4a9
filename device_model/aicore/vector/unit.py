"""The vector unit of a core: checks an instruction, plans it once, and issues it.

A plan has everything that follows from an instruction's operands and shape: the bytes it touches, its cycles, and the
NumPy work with its views. A kernel runs the same lines on the same buffers again and again, so a plan is made once and
looked up by the tensors themselves.

An instruction that follows another one hides its start-up behind it. If it uses bytes that one of the instructions just
before it wrote, or writes bytes that such an instruction read, the compiler puts a PipeBarrier<V> between them (by
default). It then waits for that instruction and pays its own start-up.
"""

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from device_model.aicore.core.findings import Rule
from device_model.aicore.core.machine import Core, running
from device_model.aicore.core.memories import Range
from device_model.aicore.core.names import BLOCK, CoreType, Pipe, Space
from device_model.aicore.core.packed import elements_in, int4b_t
from device_model.aicore.core.program import Instruction
from device_model.aicore.core.tensors import LocalTensor
from device_model.aicore.vector.banks import Conflict, Operand, steady_cycles
from device_model.aicore.vector.masks import REPEAT, Access
from device_model.kernel.findings import KernelError

IN_FLIGHT = 8  # instructions that may still be in the vector pipe when the next one is issued


class Cost(NamedTuple):
    """Core cycles of an instruction: its start-up, the cycles after it, and the bank conflict among those, if any."""

    startup: int
    steady: int
    conflict: Conflict | None = None


class VectorPlan:
    """One instruction on given operands, ready to be issued."""

    __slots__ = ("compute", "conflict", "cycles", "name", "reads", "saturate", "startup", "writes")

    def __init__(
        self,
        name: str,
        cost: Cost,
        reads: tuple[Range, ...],
        writes: tuple[Range, ...],
        compute: Callable[..., object],
        saturate: Callable[[], object] | None = None,
    ) -> None:
        self.name = name
        self.startup, self.cycles, self.conflict = cost
        self.reads = reads
        self.writes = writes
        self.compute = compute
        self.saturate = saturate  # makes its results finite, where the type of dst can be infinite

    def __repr__(self) -> str:
        return f"<VectorPlan {self.name}: {self.startup} + {self.cycles} cycles>"

    def depends_on(self, earlier: "VectorPlan") -> bool:
        """Whether this instruction must wait until *earlier*, which was issued before it, has finished."""
        return _meet(self.reads + self.writes, earlier.writes) or _meet(self.writes, earlier.reads)


class VectorUnit:
    """The plans of a core's vector pipe, and those that may be in flight."""

    __slots__ = ("_dependent", "_in_flight", "core", "deq_scale", "merged", "plans", "scratch", "summed")

    def __init__(self, core: Core) -> None:
        if core.core_type is not CoreType.AIV:
            raise KernelError(
                f"a vector instruction on {core.program}",
                "cube cores have no vector pipe: put vector instructions under `if ASCEND_IS_AIV:`",
            )
        self.core = core
        self.plans: dict[Hashable, VectorPlan] = {}
        self.scratch: dict[Hashable, Any] = {}  # tensors in temporary buffers, for functions made of instructions
        self.deq_scale: float | None = None  # what SetDeqScale has set
        self.merged: tuple[int, int, int, int] | None = None  # what the last MrgSort has taken from each list
        self.summed: float | None = None  # the result of the last ReduceSum with a count
        self._in_flight: deque[tuple[VectorPlan, Instruction]] = deque(maxlen=IN_FLIGHT)  # the last one first
        # plan -> earlier plan -> whether it depends on it
        self._dependent: dict[VectorPlan, dict[VectorPlan, bool]] = {}

    def plan_of(self, key: tuple[Any, ...], make: Callable[..., VectorPlan]) -> VectorPlan:
        """Return the plan of the instruction with this *key*, its name and operands; *make* plans it the first time.

        It gets this unit and what is in the key.
        """
        plan = self.plans.get(key)
        if plan is None:
            plan = self.plans[key] = make(self, *key)
        return plan

    def issue(self, plan: VectorPlan, compute: Callable[[], object]) -> None:
        """Issue *plan*; *compute* does its work."""
        if self.core.saturates and plan.saturate is not None:
            compute = _both(compute, plan.saturate)
        dependent = self._dependent.get(plan)
        if dependent is None:
            dependent = self._dependent[plan] = {}
        waits: tuple[Instruction, ...] = ()
        for earlier, instruction in self._in_flight:
            depends = dependent.get(earlier)
            if depends is None:
                depends = dependent[earlier] = plan.depends_on(earlier)
            if depends:
                waits = (instruction,)
                self._in_flight.clear()
                break
        issued = self.core.issue(Pipe.V, plan.name, plan.startup, plan.cycles, plan.reads, plan.writes, compute)
        issued.waits = waits
        self._in_flight.appendleft((plan, issued))
        if plan.conflict is not None:
            self.core.program.conflicts[issued] = plan.conflict


def _both(first: Callable[[], object], then: Callable[[], object]) -> Callable[[], object]:
    def run() -> None:
        first()
        then()

    return run


def vector_unit() -> VectorUnit:
    """Return the vector unit of the core that runs the caller."""
    core = running()
    unit = core.unit
    if unit is None:
        unit = core.unit = VectorUnit(core)
    assert isinstance(unit, VectorUnit)
    return unit


def issue(key: tuple[Any, ...], make: Callable[..., VectorPlan]) -> None:
    """Issue the instruction with this *key*; see `VectorUnit.plan_of`."""
    unit = vector_unit()
    plan = unit.plan_of(key, make)
    unit.issue(plan, plan.compute)


# Checks


def check_type(name: str, role: str, tensor: Any, types: Sequence[str]) -> None:
    """Raise an error unless *tensor* is a local tensor in UB, of one of *types*."""
    if not isinstance(tensor, LocalTensor):
        raise TypeError(f"{name}: {role} must be a LocalTensor, not {tensor!r}")
    if tensor.memory.space is not Space.UB:
        raise KernelError(f"{name}: {role} is {tensor!r}", "vector instructions work on UB: VECIN, VECOUT or VECCALC")
    if tensor.dtype.name not in types:
        raise KernelError(f"{name}: {role} is {tensor.dtype}", f"it takes {', '.join(types)}")


def check_reach(name: str, role: str, tensor: LocalTensor, access: Access, alignment: int = BLOCK) -> None:
    """Raise KernelError unless *access* lies within *tensor*, which starts at a multiple of *alignment* bytes."""
    if tensor.address % alignment:
        raise KernelError(
            f"{name}: {role} starts at byte {tensor.address} of UB", f"it must start at a multiple of {alignment}"
        )
    reach = elements_in(tensor.dtype, access.reach) if tensor.dtype is int4b_t else access.reach
    if reach > tensor.size:
        raise KernelError(
            f"{name}: {role} has {tensor.size} elements and the instruction reaches element {reach - 1}",
            "check count, repeats and strides",
        )


def check_count(name: str, count: Any) -> None:
    """Raise KernelError unless *count* is a positive number."""
    if not isinstance(count, int | np.integer) or count <= 0:
        raise KernelError(f"{name}: a count of {count!r}", "it must be a number of elements above 0")


def check_overlap(
    core: Core, name: str, dst: LocalTensor, written: Access, sources: Sequence[tuple[LocalTensor, Access]]
) -> bool:
    """Report a *dst* that overlaps a source in part; return True if the work has to be done repeat by repeat.

    Repeats that add into one place (repeat stride 0 of destination and source) read the results of earlier ones, and
    are not reported. Nor are results on bytes that earlier repeats have read: the vendor forbids that a later repeat
    reads them, and that one repeat reads and writes the same bytes as different elements.
    """
    stepwise = False
    for source, read in sources:
        if source.address == dst.address and read is written and source.dtype.itemsize == dst.dtype.itemsize:
            stepwise |= _returns(written)
            continue
        if not _meet(written.ranges(0, dst.address), read.ranges(0, source.address)):
            continue
        stepwise = True
        if _stays_behind(dst, written, source, read):
            continue
        core.find(
            Rule.PARTIAL_OVERLAP,
            f"{name} writes bytes of {dst!r} that it also reads from {source!r}, in other lanes or repeats; "
            "use the same elements, or tensors that do not overlap",
        )
    return stepwise


def _stays_behind(dst: LocalTensor, written: Access, source: LocalTensor, read: Access) -> bool:
    """Does no repeat write what a later one reads, nor, as another element, what it reads itself?

    A repeat that narrows its elements may write to the start of what it reads, as casts of public kernels do.
    """
    if written.repeats != read.repeats:
        return False
    base, last_read = _last_reads(dst, source, read)
    narrows = dst.dtype.itemsize < source.dtype.itemsize
    for number in range(written.repeats):
        bytes_written = _bytes_of(dst, written, number)
        readers = last_read[bytes_written - base]
        if (readers > number).any():
            return False
        if (
            (readers == number).any()
            and not narrows
            and not np.array_equal(bytes_written, _bytes_of(source, read, number))
        ):
            return False
    return True


def _last_reads(dst: LocalTensor, source: LocalTensor, read: Access) -> tuple[int, Any]:
    """Return the first address of both tensors, and the last repeat that reads each byte from there on, or -1."""
    base = min(dst.address, source.address)
    last_read = np.full(max(dst.address + dst.nbytes, source.address + source.nbytes) - base, -1)
    for number in range(read.repeats):
        last_read[_bytes_of(source, read, number) - base] = number
    return base, last_read


def check_unread(core: Core, name: str, dst: LocalTensor, written: Access, source: LocalTensor, read: Access) -> bool:
    """Report a reduction that writes bytes of *source* which a later repeat reads; return True if there are any.

    The vendor allows results to lie on bytes that have been read already.
    """
    if not _meet(written.ranges(0, dst.address), read.ranges(0, source.address)):
        return False
    base, last_read = _last_reads(dst, source, read)
    if not any((last_read[_bytes_of(dst, written, number) - base] > number).any() for number in range(written.repeats)):
        return False
    core.find(
        Rule.PARTIAL_OVERLAP,
        f"{name} writes bytes of {dst!r} that a later repeat reads from {source!r}; "
        "place the results on bytes that have been read already, or outside the source",
    )
    return True


def _bytes_of(tensor: LocalTensor, access: Access, repeat: int) -> Any:
    """Return the addresses of all bytes that *repeat* touches."""
    where = access.of_repeat(repeat)
    elements = np.arange(where.start, where.stop) if isinstance(where, slice) else where
    size = tensor.dtype.itemsize
    return (tensor.address + elements[:, None] * size + np.arange(size)).ravel()


@cache
def _returns(access: Access) -> bool:
    """Whether later repeats touch elements that earlier ones did."""
    return not isinstance(access.where, slice) and len(np.unique(access.where)) < access.size


def _meet(some: Sequence[Range], others: Sequence[Range]) -> bool:
    """Whether a range of *some* shares bytes with a range of *others*."""
    for memory, start, stop, *rows in some:
        for other, begin, end, *other_rows in others:
            if start < end and begin < stop and memory is other:
                if not rows and not other_rows:
                    return True
                starts, stops = _rows(start, stop, *rows)
                other_starts, other_stops = _rows(begin, end, *other_rows)
                # A row meets another range if more rows of it begin before the row's end than end before its begin.
                if (np.searchsorted(other_starts, stops) > np.searchsorted(other_stops, starts, "right")).any():
                    return True
    return False


def _rows(start: int, stop: int, length: int = 0, stride: int = 0) -> tuple[Any, Any]:
    """Return where the rows of a range begin, and where they end."""
    starts = np.arange(start, stop, stride) if length else np.array([start])
    return starts, starts + (length or stop - start)


# Costs


def lanes_of(*tensors: LocalTensor) -> int:
    """Return the number of elements in a repeat: 256 bytes of the widest type."""
    return REPEAT // max(tensor.dtype.itemsize for tensor in tensors)


def cost(core: Core, name: str, reads: tuple[Operand, ...], write: Operand, *, whole: bool = True) -> Cost:
    """Return the cost of instruction *name*; *whole* says whether all lanes of its repeats are used."""
    spec = core.spec
    startup, slope = spec.vector.get(name, spec.vector["default"])
    steady, conflict = steady_cycles(float(slope), float(spec.read_write_conflict), reads, write)
    return Cost(round(startup), steady + (0 if whole else round(spec.partial_repeat)), conflict)


def plain_cost(core: Core, name: str, repeats: int, *, whole: bool = True) -> Cost:
    """Return the cost of *repeats* repeats without bank conflicts; *whole* is as for `cost`."""
    startup, slope = core.spec.vector.get(name, core.spec.vector["default"])
    return Cost(round(startup), round(slope * repeats) + (0 if whole else round(core.spec.partial_repeat)))
