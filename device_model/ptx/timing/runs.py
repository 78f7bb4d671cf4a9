"""What one block of code is for an SM: runs of arithmetic, and between them accesses to memory and barriers.

A run is scheduled once: each instruction issues as soon as its operands are there, one a cycle.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from device_model.ptx.code.flow import reads, writes
from device_model.ptx.code.order import LOADS, Kind, kind_of, memory_of, order_of
from device_model.ptx.text.syntax import Address, Instruction, Number, Register
from device_model.ptx.timing.costs import FREE, JUMPS, Cost, Costs
from device_model.ptx.timing.residues import Known
from device_model.ptx.timing.wide import together
from device_model.sm.instructions import Unit

_AT_ONCE = 12  # issues of arithmetic, before those of other warps


@dataclass(eq=False, slots=True)
class Run:
    """Instructions of a warp that are played at once.

    Attributes:
        kind: What they are.
        issues: How many instructions the scheduler issues.
        until: Cycles from the first issue to the first one of the next run.
        units: Cycles of each unit.
        reads: The registers it needs, each with the cycle in which it needs it.
        writes: The registers it sets; of arithmetic, each with the cycle in which it is there.
        lines: The lines of the accesses; of those that are one for an SM, the first one.
        widths: Lines of loads that are one for an SM: the bytes of the whole for the first, and 0 for the others.
        is_wanted: Of atomics: whether anything reads the result.
        asks: Of fences: whether the L2 is asked besides, as `.sc` and `membar` need it.
    """

    kind: Kind
    issues: int = 0
    until: float = 0
    units: tuple[tuple[Unit, float], ...] = ()
    reads: tuple[tuple[Register, float], ...] = ()
    writes: tuple[tuple[Register, float], ...] = ()
    lines: tuple[int, ...] = ()
    widths: tuple[tuple[int, int], ...] = ()
    is_wanted: bool = True
    asks: bool = False


def runs_of(items: Sequence[Instruction], uses: Counter[Register], known: Costs, residues: Known) -> list[Run]:
    """Return the runs of a block of code.

    Args:
        items: Its instructions.
        uses: How often its function reads each register.
        known: The costs of instructions.
        residues: What an assembler knows of addresses.
    """
    costs = _folded(items, uses, known)
    order = order_of(items)
    runs: list[Run] = []
    group: list[int] = []
    for place in order:
        is_long = sum(costs[each].issues for each in group) >= _AT_ONCE
        if group and (is_long or not _together(items[group[-1]], items[place])):
            runs.append(_run(items, costs, group, uses, residues))
            group = []
        group.append(place)
    if group:
        runs.append(_run(items, costs, group, uses, residues))
    return runs


def _together(before: Instruction, item: Instruction) -> bool:
    kind = kind_of(item)
    if kind is not kind_of(before) or kind in (Kind.BARRIER, Kind.FENCE):
        return False
    return kind is Kind.MATH or memory_of(item) == memory_of(before)


def _folded(items: Sequence[Instruction], uses: Counter[Register], known: Costs) -> list[Cost]:
    """Return the cost of each of *items*; FREE where an assembler folds it into one that uses its result."""
    costs = [known.of(item) if kind_of(item) is Kind.MATH and item.name not in LOADS else FREE for item in items]
    _halve(items, costs, known)
    made: dict[Register, int] = {}
    full: set[int] = set()  # what has taken in one comparison, and takes no more
    for place, item in enumerate(items):
        own = [each for each in reads(item) if isinstance(each, Register)]
        for each in reversed(own):
            maker = made.get(each)
            if maker is None or uses[each] != 1 or not _folds(items[maker], item):
                continue
            if "pred" in item.modifiers:
                if place in full:
                    continue
                full.add(place)
            costs[maker] = FREE
        if item.name in ("add", "sub") and _wide(item) and any(_is_product(items, made, each) for each in own):
            costs[place] = FREE  # the product adds it
        for result in writes(item):
            if isinstance(result, Register):
                made[result] = place
    for place, item in enumerate(items):
        if item.name == "add" and _wide(item) and costs[place] is not FREE and _is_offset(items, item):
            costs[place] = FREE
    return costs


def _halve(items: Sequence[Instruction], costs: list[Cost], known: Costs) -> None:
    """Halve the cost of operations on 64 bits whose upper half is known to be 0."""
    narrow: set[Register] = set()
    for place, item in enumerate(items):
        operands = [each for each in item.operands[1:] if isinstance(each, Register | Number)]
        is_small = any(isinstance(each, Number) and 0 <= each.value < 2**32 for each in operands)
        is_narrow = (item.name == "and" and is_small) or (item.name == "cvt" and item.modifiers[-2:] == ("u64", "u32"))
        is_compared = item.name == "setp" and all(each in narrow or isinstance(each, Number) for each in operands)
        if (is_narrow or is_compared) and _wide(item) and costs[place] is not FREE:
            costs[place] = known.of(_on_32_bits(item))
        for result in writes(item):
            if isinstance(result, Register):
                (narrow.add if is_narrow else narrow.discard)(result)


def _on_32_bits(item: Instruction) -> Instruction:
    return item._replace(modifiers=tuple(each.replace("64", "32") for each in item.modifiers))


def _wide(item: Instruction) -> bool:
    return any(each in ("s64", "u64", "b64") for each in item.modifiers)


def _is_product(items: Sequence[Instruction], made: dict[Register, int], register: Register) -> bool:
    maker = items[made[register]] if register in made else None
    return maker is not None and maker.name == "mul" and ("wide" in maker.modifiers or _wide(maker))


def _folds(maker: Instruction, user: Instruction) -> bool:
    """Whether one instruction does both."""
    floats = ("f32", "f64", "f16", "f16x2")
    if maker.name == "mul" and user.name in ("add", "sub") and "rn" not in maker.modifiers + user.modifiers:
        return any(each in maker.modifiers and each in user.modifiers for each in floats)
    if maker.name == "mul" and user.name == "add" and "wide" not in maker.modifiers:
        return not any(each in maker.modifiers for each in floats) and not _wide(maker)
    if maker.name == "mul" and user.name == "add" and "lo" in maker.modifiers and _wide(maker):
        return False
    if maker.name == "shl" and user.name == "add":
        return True
    if maker.name == "setp" and user.name in ("and", "or") and "pred" in user.modifiers:
        return False
    if maker.name in ("and", "or", "xor", "not") and user.name in ("and", "or", "xor"):
        return True
    return user.name in ("and", "or") and "pred" in user.modifiers


def _is_offset(items: Sequence[Instruction], item: Instruction) -> bool:
    """Whether *item* adds a constant that fits into the addresses that use it."""
    result = item.operands[0]
    users = [each for each in items if result in reads(each)]
    return bool(users) and not isinstance(item.operands[2], Register) and item.operands[1] != result and all(
        any(isinstance(each, Address) and each.base is result for each in user.operands) for user in users)  # fmt: skip


def _run(
    items: Sequence[Instruction], costs: Sequence[Cost], group: Sequence[int], uses: Counter[Register], residues: Known
) -> Run:
    first = items[group[0]]
    kind = kind_of(first)
    if kind is Kind.BARRIER:
        return Run(kind, 1, lines=(first.line,))
    if kind is Kind.FENCE:
        return Run(kind, 1, asks=first.name == "membar" or "sc" in first.modifiers)
    if kind is Kind.MATH:
        return _math([(items[place], costs[place]) for place in group])
    own = [([items[place] for place in places], nbytes) for places, nbytes in together(items, group, residues)]
    needs = {each: 0 for parts, _ in own for item in parts for each in reads(item) if isinstance(each, Register)}
    sets = {each: number for number, (parts, _) in enumerate(own) for item in parts
            for each in writes(item) if isinstance(each, Register)}  # fmt: skip
    lines = tuple(first.line for (first, *_), _ in own)
    widths = tuple((item.line, nbytes if item is parts[0] else 0) for parts, nbytes in own if nbytes for item in parts)
    is_wanted = any(uses[each] for each in sets)
    return Run(kind, len(own), len(own), (), tuple(needs.items()), tuple(sets.items()), lines, widths, is_wanted)


def _math(own: Sequence[tuple[Instruction, Cost]]) -> Run:
    """Return a run of arithmetic: each instruction issues once its operands are there, the earliest one first."""
    there: dict[Register, float] = {}
    needs: dict[Register, float] = {}
    taken: set[int] = set()
    units: dict[Unit, float] = {}
    issues = 0
    until = 0.0
    for item, cost in own:
        registers = [each for each in reads(item) if isinstance(each, Register)]
        start = max((there.get(each, 0.0) for each in registers), default=0.0)
        is_end = item.name in JUMPS
        if is_end:
            start = max(start, until)
        if cost.issues:
            while int(start) in taken:
                start = int(start) + 1.0
            taken.update(range(int(start), int(start) + cost.issues))
            issues += cost.issues
            until = max(until, start + cost.issues - 1 + (cost.latency if is_end else 0))
            _use(units, item, cost)
        for each in registers:
            if each not in there:
                needs[each] = min(needs.get(each, start), start)
        for result in writes(item):
            if isinstance(result, Register):
                there[result] = start + cost.latency
    return Run(Kind.MATH, issues, max(until, issues), tuple(units.items()), tuple(needs.items()), tuple(there.items()))


def _use(units: dict[Unit, float], item: Instruction, cost: Cost) -> None:
    if cost.unit is Unit.SYNC:
        return
    units[cost.unit] = units.get(cost.unit, 0) + cost.cycles
    if cost.unit is Unit.SFU and cost.issues > 1:  # the other steps are multiplications and additions
        units[Unit.FMA] = units.get(Unit.FMA, 0) + cost.issues - 1
    if item.name in ("div", "rem") and cost.unit is Unit.ALU:
        units[Unit.SFU] = units.get(Unit.SFU, 0) + 12
