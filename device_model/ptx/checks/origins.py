"""Where addresses begin: at a variable, or at a pointer that is a parameter.

An address comes from a name by moves, additions and subtractions. What a parameter holds is another name than that of
the parameter: in a function of the kernel, parameters are variables with addresses of their own. If all ways to a
register begin at one name, its value does. Where a way begins at none, such as at a pointer from memory, or at two,
nothing is known.
"""

from collections.abc import Iterable, Sequence

from device_model.ptx.code.flow import writes
from device_model.ptx.text.syntax import Address, Function, Instruction, Operand, Register, Symbol

_KEEP = frozenset(("mov", "selp", "cvta", "cvt", "ld"))  # the result is one of the operands
_ADD = frozenset(("add", "sub", "mad", "or", "and"))  # one of the operands is the address, the others count
_POINTER = 8  # bytes
_CHANGES = frozenset(("st", "atom", "red", "cp"))


def origins_of(function: Function) -> dict[Register, str]:
    """Return the name that the value of a register begins at, for each register of which that is known."""
    items = [item for item in function.body or () if isinstance(item, Instruction)]
    all_of: dict[Register, dict[str, None]] = {}
    count = -1
    while count != (count := sum(map(len, all_of.values()))):
        for item in items:
            names = {name: None for operand in _sources(item) for name in _names(operand, all_of)}
            for register in writes(item):
                if isinstance(register, Register):
                    all_of.setdefault(register, {}).update(names)
    return _sure(items, all_of)


def _sure(items: Sequence[Instruction], all_of: dict[Register, dict[str, None]]) -> dict[Register, str]:
    """Return the registers whose values begin at one name, whichever instruction has written them."""
    sure = {register: next(iter(names)) for register, names in all_of.items() if len(names) == 1}
    count = -1
    while count != (count := len(sure)):
        for item in items:
            sources = [each for each in _sources(item) if isinstance(each, Symbol) or each in sure]
            is_known = len(sources) == len(_sources(item)) if item.name in _KEEP else len(sources) == 1
            if not sources or not is_known:
                for register in writes(item):
                    if isinstance(register, Register):
                        sure.pop(register, None)
    return sure


def _sources(item: Instruction) -> list[Operand]:
    """Return the operands that an address can come from."""
    if item.name == "ld" and "param" in item.modifiers:
        bases = [each.base for each in item.operands if isinstance(each, Address)]
        return [Symbol(_held_in(base.name)) for base in bases if isinstance(base, Symbol)]
    if item.name not in _KEEP | _ADD:
        return []
    given = item.operands[1:3] if item.name == "selp" else item.operands[1:]
    return [each for each in given if item.name in _KEEP or isinstance(each, Register | Symbol)]


def _held_in(parameter: str) -> str:
    """Return the name of what *parameter* holds, which no variable can have."""
    return f"[{parameter}]"


def _names(operand: Operand, all_of: dict[Register, dict[str, None]]) -> Iterable[str]:
    if isinstance(operand, Symbol):
        return (operand.name,)
    return all_of.get(operand, ()) if isinstance(operand, Register) else ()


def begins_at(item: Instruction, origins: dict[Register, str]) -> str | None:
    """Return the name that the address of *item* begins at; None if that is not known."""
    base = next((each.base for each in item.operands if isinstance(each, Address)), None)
    if isinstance(base, Symbol):
        return base.name
    return origins.get(base) if isinstance(base, Register) else None


def pointers_written(functions: Sequence[Function]) -> list[str] | None:
    """Return the parameters through which the kernel changes global memory; None if that is not known."""
    entry = functions[0]
    if len(functions) > 1:
        return None
    origins, found = origins_of(entry), []
    names = {_held_in(each.name): each.name for each in entry.parameters if each.nbytes == _POINTER}
    for item in entry.body or ():
        if not isinstance(item, Instruction) or item.name not in _CHANGES or {"shared", "local"} & {*item.modifiers}:
            continue
        name = begins_at(item, origins)
        if name not in names and name not in entry.variables:
            return None
        found.append(name)
    return [name for held, name in names.items() if held in found]
