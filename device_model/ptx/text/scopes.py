"""The names between two braces: registers, variables and labels."""

import re

from device_model.ptx.text.syntax import Function, Register
from device_model.ptx.text.types import Type

_OF_RANGE = re.compile(r"(.*?)(0|[1-9]\d{0,8})")


class Scope:
    """The names between two braces; a name that is not there is looked up in the scope outside."""

    def __init__(self, outer: "Scope | None") -> None:
        self.outer = outer
        self.registers: dict[str, Register] = {}
        self.ranges: dict[str, tuple[int, Type]] = {}  # by prefix: how many, of which type
        self.variables: dict[str, str] = {}  # the unique names of variables
        self.labels: dict[str, str] = {}  # the unique names of labels

    def add(self, name: str, type_: Type, function: Function) -> Register:
        """Return a new register of *function*."""
        register = self.registers[name] = Register(len(function.registers), name, type_)
        function.registers.append(register)
        return register

    def find(self, name: str, function: Function) -> Register | str | None:
        """Return a register of *function*, or the unique name of a variable; None if there is neither."""
        scope: Scope | None = self
        while scope is not None:
            known = scope.registers.get(name) or scope._of_range(name, function) or scope.variables.get(name)
            if known is not None:
                return known
            scope = scope.outer
        return None

    def label(self, name: str) -> str | None:
        """Return the unique name of a label; None if there is none."""
        scope: Scope | None = self
        while scope is not None and name not in scope.labels:
            scope = scope.outer
        return None if scope is None else scope.labels[name]

    def _of_range(self, name: str, function: Function) -> Register | None:
        """Return a new register whose name is in one of the ranges."""
        match = _OF_RANGE.fullmatch(name)
        length, type_ = (0, None) if match is None else self.ranges.get(match[1], (0, None))
        if match is None or type_ is None or int(match[2]) >= length:
            return None
        return self.add(name, type_, function)
