"""The emitter: translators write Python code with it, one function for each basic block.

The function gets the active lanes, `at`. Values are arrays with an axis for blocks and one for threads; each axis has
the length 1 where a value is the same along it. A register that the block reads before it writes it comes from
`at.get(number)`. One that a later block needs goes to `at.put(number, value)`. All others are local variables, so a
value that nobody needs any more costs nothing.
"""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from device_model.ptx.code.flow import Block, reads, writes
from device_model.ptx.code.names import Names
from device_model.ptx.code.special import CLOCKS
from device_model.ptx.lanes.clocks import clock
from device_model.ptx.text.errors import PtxError
from device_model.ptx.text.syntax import (
    Address,
    Instruction,
    Not,
    Number,
    Operand,
    Register,
    Sink,
    Space,
    Special,
    Symbol,
    Vector,
)
from device_model.ptx.text.types import TYPES, Family, Type

U64, U32, PRED = TYPES["u64"], TYPES["u32"], TYPES["pred"]


class Kernel(Protocol):
    """What an emitter asks about the whole kernel."""

    carry: int  # the number of the carry flag

    def number(self, block: Block, register: Register) -> int:
        """Return the number of a register in the kernel."""

    def special(self, name: str, line: int) -> tuple[int, Type]:
        """Return the number and the type of a special register."""

    def place(self, function: str, name: str) -> tuple[Space, int] | None:
        """Return the state space of a variable, and where in it the variable is."""

    def address(self, function: str, symbol: Symbol, line: int) -> int:
        """Return the address of a variable in its state space, or that of a function."""


class Emitter:
    """Writes the code of one block.

    Args:
        kernel: Knows the registers and variables of the kernel.
        names: The constants and functions of the kernel.
        block: The block.
    """

    def __init__(self, kernel: "Kernel", names: Names, block: Block) -> None:
        self.kernel = kernel
        self.names = names
        self.block = block
        self.guard: str | None = None
        self.line = 0  # of the text of PTX
        self._lines: list[tuple[int, str]] = []  # of Python code, each with its line of PTX
        self._locals: dict[int, str] = {}  # of a register
        self._views: dict[tuple[str, str], str] = {}
        self._written: set[int] = set()
        self._count = 0
        self._place = 0
        self._notes_lines = False
        self.python_lines: list[int] = []

    # Reading

    def value(self, operand: Operand, type_: Type) -> str:
        """Return the code of *operand* as a value of *type_*."""
        match operand:
            case Register():
                return self._as(self._local(self._number(operand)), operand.type, type_)
            case Special(name):
                number, own = self.kernel.special(name, self.line)
                name = self._new(self.call(clock, "at", repr(name))) if name in CLOCKS else self._local(number)
                return self._as(name, own, type_)
            case Number():
                return self._constant(operand, type_)
            case Not(inner):
                return f"~{self.value(inner, type_)}"
            case Symbol():
                if type_.bits not in (32, 64):
                    raise PtxError(self.line, f"an address does not fit type .{type_.name}")
                return self.names.constant(self.at(operand) % (1 << type_.bits), type_.dtype)
        raise PtxError(self.line, f"{operand} is no value here")

    def parts(self, operand: Operand, type_: Type, count: int) -> list[str]:
        """Return the code of each of the *count* parts of a vector."""
        if not isinstance(operand, Vector) or len(operand.parts) != count:
            raise PtxError(self.line, f"a vector of {count} is missing")
        return [self.value(part, type_) for part in operand.parts]

    def address(self, operand: Operand, what: str = "an address in brackets") -> str:
        """Return the code of an address, as an array of 64 bits without a sign."""
        if not isinstance(operand, Address):
            raise PtxError(self.line, f"{what} is missing")
        base, offset = operand
        if isinstance(base, Symbol):
            return self.names.constant((self.at(base) + offset) % 2**64, U64.dtype)
        if isinstance(base, Number):
            return self.names.constant((int(base.value) + offset) % 2**64, U64.dtype)
        wide = self.value(base, U64 if base.type.bits == 64 else U32)
        if base.type.bits == 32:
            wide = f"{wide}.astype({self.names.of(U64.dtype)})"
        return f"({wide} + {self.names.constant(offset % 2**64, U64.dtype)})" if offset else wide

    def at(self, symbol: Symbol) -> int:
        """Return the address of a variable in its state space."""
        return self.kernel.address(self.block.function.name, symbol, self.line)

    def space(self, symbol: Symbol) -> Space | None:
        """Return the state space of a variable; None if there is no such variable."""
        place = self.kernel.place(self.block.function.name, symbol.name)
        return None if place is None else place[0]

    def _number(self, register: Register) -> int:
        return self.kernel.number(self.block, register)

    def _local(self, number: int) -> str:
        name = self._locals.get(number)
        if name is None:
            name = self._new(f"at.get({number})")
            self._locals[number] = name
        return name

    def _as(self, name: str, own: Type, type_: Type) -> str:
        """Return the code of the local *name*, which holds a value of type *own*, as *type_*."""
        if own.dtype == type_.dtype:
            return name
        if (own.family is Family.PREDICATE) != (type_.family is Family.PREDICATE) or own.bits < type_.bits:
            raise PtxError(self.line, f"a register of type .{own.name} is no operand of type .{type_.name}")
        key = name, type_.dtype.str
        if key not in self._views:
            how = "view" if own.bits == type_.bits else "astype"
            inner = name
            if how == "astype" and own.dtype.kind == "f":
                inner = f"{name}.view({self.names.of(TYPES[f'b{own.bits}'].dtype)})"
            if how == "astype" and type_.family is Family.FLOAT:
                bits = TYPES[f"b{type_.bits}"]
                inner = f"{inner}.astype({self.names.of(bits.dtype)})"
                how = "view"
            self._views[key] = self._new(f"{inner}.{how}({self.names.of(type_.dtype)})")
        return self._views[key]

    def _constant(self, number: Number, type_: Type) -> str:
        value, bits, width = number
        if type_.family is Family.PREDICATE:
            return self.names.constant(bool(value), type_.dtype)
        if isinstance(value, float):
            if bits is not None and width == type_.bits:
                raw = np.array(bits, f"u{width // 8}").view(type_.dtype)
                return self.names.constant(raw, type_.dtype)
            if type_.family is Family.FLOAT:
                return self.names.constant(value, type_.dtype)
            raise PtxError(self.line, f"{value} is no operand of type .{type_.name}")
        raw = np.array(value % (1 << min(type_.bits, 64)), f"u{type_.nbytes}").view(type_.dtype)
        return self.names.constant(raw, type_.dtype)

    # Writing

    def let(self, code: str) -> str:
        """Give *code* a name, and return that."""
        return code if code.isidentifier() else self._new(code)

    def do(self, code: str) -> None:
        """Write a statement."""
        self._lines.append((self.line, code))

    def note_line(self) -> None:
        """Write which line of PTX runs, because what follows may be told about it."""
        self._notes_lines = True
        self.do(f"launch.line = {self.line}")

    def call(self, function: Callable[..., Any], *arguments: str, **options: object) -> str:
        """Return the code of a call of *function*."""
        named = [f"{name}={value!r}" for name, value in options.items()]
        return f"{self.names.of(function)}({', '.join([*arguments, *named])})"

    def set(self, operand: Operand | None, code: str, type_: Type) -> None:
        """Give the register *operand* the value of *code*, which is of *type_*.

        A wider register gets the value extended, with its sign if the type has one.
        """
        if operand is None or isinstance(operand, Sink):
            self._new(code)
            return
        if not isinstance(operand, Register):
            raise PtxError(self.line, "the result is no register")
        own = operand.type
        if own.bits < type_.bits or (own.family is Family.PREDICATE) != (type_.family is Family.PREDICATE):
            raise PtxError(self.line, f"{operand} of type .{own.name} cannot hold a value of type .{type_.name}")
        name = self.let(code)
        if own.dtype != type_.dtype:
            if own.bits > type_.bits and type_.family in (Family.FLOAT, Family.BRAIN):
                name = self._new(f"{name}.view({self.names.of(TYPES[f'b{type_.bits}'].dtype)})")
            if own.bits > type_.bits:
                name = self._new(f"{name}.astype({self.names.of(TYPES[f'b{own.bits}'].dtype)})")
            if own.dtype != TYPES[f"b{own.bits}"].dtype or own.bits == type_.bits:
                name = self._new(f"{name}.view({self.names.of(own.dtype)})")
        if self.guard is not None:
            name = self._new(f"{self.names.of(np.where)}({self.guard}, {name}, {self._local(self._number(operand))})")
        number = self._number(operand)
        self._locals[number] = name
        self._written.add(number)

    def set_parts(self, operand: Operand, codes: list[str], type_: Type) -> None:
        """Give the parts of the vector *operand* the values of *codes*."""
        if not isinstance(operand, Vector) or len(operand.parts) != len(codes):
            raise PtxError(self.line, f"a vector of {len(codes)} results is missing")
        for part, code in zip(operand.parts, codes, strict=True):
            self.set(part, code, type_)

    def carry(self) -> str:
        """Return the code of the carry flag."""
        return self._local(self.kernel.carry)

    def set_carry(self, code: str) -> None:
        """Set the carry flag."""
        self.put(self.kernel.carry, code)

    def is_needed(self, operand: Operand) -> bool:
        """Whether anything reads the register *operand* after this instruction."""
        if not isinstance(operand, Register):
            return False
        for later in self.later:
            if operand in reads(later):
                return True
            if operand in writes(later):
                return False
        return self.lives_on(operand)

    @property
    def later(self) -> list[Instruction]:
        """The instructions of the block behind this one."""
        return self.block.instructions[self._place + 1 :]

    def lives_on(self, operand: Operand) -> bool:
        """Whether a later block needs the register *operand*."""
        return isinstance(operand, Register) and self._number(operand) in self.block.live_out

    def put(self, number: int, code: str) -> None:
        """Set the register of this number, which has no name in PTX."""
        self._locals[number] = self.let(code)
        self._written.add(number)

    def _new(self, code: str) -> str:
        name = f"v{self._count}"
        self._count += 1
        self._lines.append((self.line, f"{name} = {code}"))
        return name

    # One instruction, and the whole block

    def instruction(
        self, place: int, instruction: Instruction, translate: Callable[["Emitter", Instruction], None]
    ) -> None:
        """Write the code of *instruction*, which is at *place* in the block."""
        self.line = instruction.line
        self._place = place
        self.guard = None
        if instruction.guard is not None:
            register, is_turned = instruction.guard
            predicate = self.value(register, PRED)
            self.guard = self.let(f"~{predicate}" if is_turned else predicate)
        translate(self, instruction)
        self.guard = None

    def source(self, name: str, result: str | None) -> str:
        """Return the text of the function, which returns *result*; `python_lines` then has its lines of PTX."""
        for number in sorted(self._written & self.block.live_out):
            self.do(f"at.put({number}, {self._locals[number]})")
        self.do(f"return {result}")
        if self._notes_lines:
            self._lines.insert(0, (self.line, "launch = at.group.launch"))
        self.python_lines = [self.line, *(line for line, _ in self._lines)]
        return f"def {name}(at):\n" + "".join(f"    {code}\n" for _, code in self._lines)
