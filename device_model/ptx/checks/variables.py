"""The bounds of shared and local variables, and which one an access means.

An address comes from the name of a variable by moves, additions and subtractions. If all ways to it begin at one
variable, the access means that one. Where a way begins at none, such as at a pointer from memory, or at two, nothing is
said.
"""

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import NamedTuple

from device_model.ptx.code.flow import writes
from device_model.ptx.code.frames import Frame, frames_of
from device_model.ptx.text.syntax import (
    Address,
    Function,
    Instruction,
    Module,
    Operand,
    Register,
    Space,
    Symbol,
)

_KEEP = frozenset(("mov", "selp", "cvta", "cvt"))  # the result is one of the operands
_ADD = frozenset(("add", "sub", "mad", "or", "and"))  # one of the operands is the address, the others count
_ACCESSES = frozenset(("ld", "st", "atom", "red"))


class Bounds(NamedTuple):
    """A variable: its name, its space ("shared" or "local"), and its bytes in that space."""

    name: str
    space: str
    start: int
    stop: int


class Variables:
    """The variables of the kernel *name*.

    Attributes:
        meant: By line of PTX: the variable that its access means.
    """

    def __init__(self, module: Module, name: str) -> None:
        functions = reached(module, module.functions[name])
        frame = frames_of(module, functions)
        by_key = dict(_named(module, functions, frame))
        self._all = list(by_key.values())
        self.meant: dict[int, Bounds] = {}
        twice: dict[int, int] = {}
        for function in functions:
            origins = _origins(function)
            for item in function.body or ():
                if isinstance(item, Instruction) and item.name in _ACCESSES:
                    twice[item.line] = twice.get(item.line, 0) + 1
                    variable = _of_access(item, origins)
                    if variable is None:
                        continue
                    found = by_key.get((function.name, variable)) or by_key.get(("", variable))
                    if found is not None:
                        self.meant[item.line] = found
        self.meant = {line: each for line, each in self.meant.items() if twice[line] == 1}

    def describe(self, space: str, address: int, nbytes: int) -> str:
        """Return which bytes of which variable these are."""
        for each in self._all:
            if each.space == space and each.start <= address < each.stop:
                return f"{each.name}, bytes {address - each.start}:{address - each.start + nbytes},"
        return f"{space} memory, bytes {address}:{address + nbytes},"


def outside(bounds: Bounds, address: int, nbytes: int) -> str:
    """Say where *address* is, which is not in *bounds*, and by how much."""
    size = bounds.stop - bounds.start
    if address < bounds.start:
        return f"{nbytes} bytes that begin {bounds.start - address} bytes before {bounds.name}, which has {size} bytes"
    end = address + nbytes - bounds.stop
    return f"{nbytes} bytes that end {end} bytes behind {bounds.name}, which has {size} bytes"


def reached(module: Module, entry: Function) -> list[Function]:
    """Return *entry* and what it calls, in the order in which they are laid out."""
    found: list[Function] = []

    def visit(function: Function) -> None:
        if function in found:
            return
        found.append(function)
        for item in function.body or ():
            if isinstance(item, Instruction) and item.name == "call":
                target = next((each for each in item.operands if isinstance(each, Symbol)), None)
                if target is not None and target.name in module.functions and module.functions[target.name].body:
                    visit(module.functions[target.name])

    visit(entry)
    return found


def _named(module: Module, functions: Sequence[Function], frame: Frame) -> Iterable[tuple[tuple[str, str], Bounds]]:
    """Yield the variables that have a size, each with its function ("" for the module)."""
    tables = [("", module.variables), *((function.name, function.variables) for function in functions)]
    for function, variables in tables:
        for variable in variables.values():
            place = frame.places.get((function, variable.name))
            if place is not None and variable.nbytes and place[0] in (Space.SHARED, Space.LOCAL):
                start = place[1]
                bounds = Bounds(_readable(variable.name), place[0].value, start, start + variable.nbytes)
                yield (function, variable.name), bounds


def _readable(name: str) -> str:
    """Return the name in the source of a variable of a function, such as `s` for `_ZZ1kE1s`."""
    if name.startswith("_ZZ"):
        at = name.rfind("E")
        length = "".join(takewhile(str.isdigit, name[at + 1 :]))
        if at > 0 and length:
            return name[at + 1 + len(length) :][: int(length)]
    return name


def _origins(function: Function) -> dict[Register, str]:
    """Return the variable that the value of a register begins at, for each register of which that is known."""
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
    """Return the registers whose values begin at one variable, whichever instruction has written them."""
    sure = {register: next(iter(names)) for register, names in all_of.items() if len(names) == 1}
    count = -1
    while count != (count := len(sure)):
        for item in items:
            sources = [each for each in _sources(item) if isinstance(each, Symbol) or each in sure]
            is_known = len(sources) == len(_sources(item)) if item.name in _KEEP else len(sources) == 1
            if not is_known or item.name not in _KEEP | _ADD:
                for register in writes(item):
                    if isinstance(register, Register):
                        sure.pop(register, None)
    return sure


def _sources(item: Instruction) -> list[Operand]:
    """Return the operands that an address can come from."""
    if item.name not in _KEEP | _ADD:
        return []
    given = item.operands[1:3] if item.name == "selp" else item.operands[1:]
    return [each for each in given if item.name in _KEEP or isinstance(each, Register | Symbol)]


def _names(operand: Operand, all_of: dict[Register, dict[str, None]]) -> Iterable[str]:
    if isinstance(operand, Symbol):
        return (operand.name,)
    return all_of.get(operand, ()) if isinstance(operand, Register) else ()


def _of_access(item: Instruction, origins: dict[Register, str]) -> str | None:
    """Return the variable that the address of *item* begins at."""
    base = next((each.base for each in item.operands if isinstance(each, Address)), None)
    if isinstance(base, Symbol):
        return base.name
    return origins.get(base) if isinstance(base, Register) else None
