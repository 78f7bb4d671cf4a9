"""Registers that a function needs behind its calls."""

from collections.abc import Iterable, Mapping

from device_model.ptx.code.flow import Block, blocks_of, find_live, reads, writes
from device_model.ptx.text.syntax import Function, Instruction, Register, Symbol


def registers_needed(function: Function) -> dict[int, list[Register]]:
    """Return for the place of each call in the text which registers are needed behind it."""
    labels: dict[tuple[str, str], int] = {}
    blocks = blocks_of(function, 0, labels)
    find_live(blocks, lambda block: _after(block, labels), _uses)
    calls = iter([block for block in blocks if block.last is not None and block.last.name == "call"])
    found = {}
    for place, item in enumerate(function.body or ()):
        if isinstance(item, Instruction) and item.name == "call":
            found[place] = [function.registers[number] for number in sorted(next(calls).live_out)]
    return found


def _after(block: Block, labels: Mapping[tuple[str, str], int]) -> list[int]:
    """Return the blocks of the function that may run after *block*; a call comes back."""
    last = block.last
    then = [] if block.then is None else [block.then]
    if last is None or last.name not in ("bra", "brx", "ret", "exit", "trap", "brkpt"):
        return then
    names: Iterable[str] = ()
    if last.name in ("bra", "brx") and isinstance(operand := last.operands[-1], Symbol):
        names = (operand.name,) if last.name == "bra" else block.function.tables.get(operand.name, ())
    known = [labels[block.function.name, name] for name in names if (block.function.name, name) in labels]
    return known + then if last.guard is not None else known


def _uses(block: Block) -> tuple[frozenset[int], frozenset[int]]:
    """Return the registers that *block* reads before it writes them, and those that it writes."""
    needs: set[int] = set()
    sets: set[int] = set()
    for item in block.instructions:
        needs |= {each.number for each in reads(item) if isinstance(each, Register)} - sets
        sets |= {each.number for each in writes(item) if isinstance(each, Register)}
    return frozenset(needs), frozenset(sets)
