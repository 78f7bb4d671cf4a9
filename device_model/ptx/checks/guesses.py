"""Guesses: loads of what a compare-and-swap of the same address then checks.

A loop around a compare-and-swap begins with a plain load. What that gives need not be right, because the `cas` says
what was there. So the load does not race with atomic operations.
"""

from collections.abc import Iterable

from device_model.ptx.code.flow import writes
from device_model.ptx.text.syntax import Address, Function, Instruction, Operand, Register, Symbol

_COPIES = frozenset(("mov", "cvta"))
_OWN = frozenset(("local", "param", "const"))  # what no other thread changes


def guesses(function: Function) -> Iterable[int]:
    """Yield the lines of the loads whose address a `cas` of *function* has, too."""
    items = [item for item in function.body or () if isinstance(item, Instruction)]
    copied = _copied(items)
    checked = [_place(item, copied) for item in items if item.name == "atom" and "cas" in item.modifiers]
    for item in items:
        if item.name == "ld" and not _OWN & {*item.modifiers} and _place(item, copied) in checked:
            yield item.line


def _copied(items: Iterable[Instruction]) -> dict[Operand, Operand]:
    """Return the registers that are written once, and with the value of another one or the address of a variable."""
    writers: dict[Operand, list[Instruction]] = {}
    for item in items:
        for register in writes(item):
            writers.setdefault(register, []).append(item)
    return {
        register: made[0].operands[1]
        for register, made in writers.items()
        if len(made) == 1 and made[0].name in _COPIES and isinstance(made[0].operands[1], Register | Symbol)
    }


def _place(item: Instruction, copied: dict[Operand, Operand]) -> tuple[Operand, int]:
    """Return where the address of an access begins, and its offset."""
    base, offset = next(each for each in item.operands if isinstance(each, Address))
    place: Operand = base
    while place in copied:
        place = copied[place]
    if isinstance(place, Symbol):
        return Symbol(place.name), offset + place.offset
    return place, offset
