"""What each block of code costs a warp that has an SM for itself: the rates of the times that lanes read.

An access to global memory is one that the L2 has. A block of code is over when all that it loads is there, and a fence
when the stores before it are.
"""

from collections.abc import Mapping, Sequence

from device_model.ptx.code.flow import writes
from device_model.ptx.code.loops import STRONG
from device_model.ptx.code.order import Kind
from device_model.ptx.lanes.clocks import Rates
from device_model.ptx.lanes.program import Program
from device_model.ptx.text.syntax import Instruction, Register
from device_model.ptx.timing.runs import Run
from device_model.sm.memory import SmMemory
from device_model.sm.spec import SmSpec

_SECTORS = 4  # of an access of a warp


def rates_of(
    program: Program, runs: Mapping[int, Sequence[Run]], shared: Mapping[int, bool], spec: SmSpec, places: int
) -> Rates:
    """Return what the times of the warps of *program* are made of.

    Args:
        program: The kernel.
        runs: What each block of code is for an SM.
        shared: By line, whether an access is to shared memory.
        spec: The SM.
        places: How many blocks the card holds.
    """
    latency = round(spec.l1 + SmMemory(spec, 1).request(0.0, _SECTORS, 0.0))
    costs = {number: _cost(own, shared, latency, spec) for number, own in runs.items()}
    items = [item for code in program.blocks for item in code.instructions]
    polls = frozenset(item.line for item in items if STRONG & {*item.modifiers}) | _polled(program)
    results = frozenset(item.line for item in items if _is_read(item))
    return Rates(costs, polls, results, latency, spec.barrier_arrival, spec.khz, spec.launch, places)


def _polled(program: Program) -> frozenset[int]:
    """Return the lines of loops that can be waits."""
    blocks = program.blocks
    loops = [blocks[code.number : code.loop.last + 1] for code in blocks if code.loop is not None and code.loop.polls]
    return frozenset(item.line for loop in loops for code in loop for item in code.instructions)


def _is_read(item: Instruction) -> bool:
    if item.name == "mbarrier":
        return True
    return item.name == "atom" and any(isinstance(each, Register) for each in writes(item))


def _cost(runs: Sequence[Run], shared: Mapping[int, bool], latency: int, spec: SmSpec) -> int:
    """Return the cycles of one block of code."""
    now = end = answered = 0.0
    ready: dict[Register, float] = {}
    for run in runs:
        now = max([now, *(ready[each] - offset for each, offset in run.reads if each in ready)])
        if run.kind is Kind.MATH:
            ready |= {each: now + offset for each, offset in run.writes}
            now += run.until
        elif run.kind is Kind.FENCE:
            now = end = max(now, end, answered) + latency * run.asks
        elif run.kind is not Kind.BARRIER:
            is_atom = run.kind is Kind.ATOM
            own = (spec.atomic_shared if is_atom else spec.lds + spec.phase) if shared[run.lines[0]] else latency
            ready |= {each: now + own for each, _ in run.writes}
            end = max([end, *(ready[each] for each, _ in run.writes)])
            answered = now + own
            now += run.issues
    return round(max(now, end))
