"""The bounds of shared and local variables, and which one an access means.

An access means the variable that its address begins at, if that is known.
"""

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import NamedTuple

from device_model.ptx.checks.origins import begins_at, origins_of, pointers_written
from device_model.ptx.code.calls import called
from device_model.ptx.code.frames import Frame, frames_of
from device_model.ptx.text.syntax import Function, Instruction, Module, Space

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
        written: Where in the parameters the pointers are through which it changes global memory; None if that is not
            known.
        meant: By line of PTX: the variable that its access means.
    """

    def __init__(self, module: Module, name: str) -> None:
        functions = called(module, module.functions[name])
        frame = frames_of(module, functions)
        by_key = dict(_named(module, functions, frame))
        self._all = list(by_key.values())
        self.meant: dict[int, Bounds] = {}
        written = pointers_written(functions)
        self.written = None if written is None else [frame.places[name, each][1] for each in written]
        twice: dict[int, int] = {}
        for function in functions:
            origins = origins_of(function)
            for item in function.body or ():
                if isinstance(item, Instruction) and item.name in _ACCESSES:
                    twice[item.line] = twice.get(item.line, 0) + 1
                    variable = begins_at(item, origins)
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
