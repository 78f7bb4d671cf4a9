"""What PTX text says: a module with its functions, variables and instructions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from math import prod
from typing import NamedTuple

from device_model.ptx.text.types import Type


class Space(Enum):
    """The state spaces that variables are in."""

    GLOBAL = "global"
    CONST = "const"
    SHARED = "shared"
    LOCAL = "local"
    PARAM = "param"


class Location(NamedTuple):
    """A line of the source: the number of its file in the module, its line and its column."""

    file: int
    line: int
    column: int


class Register:
    """A register of a function; two of one name in two scopes are two."""

    __slots__ = ("name", "number", "type")

    def __init__(self, number: int, name: str, type_: Type) -> None:
        self.number = number  # in its function, from 0
        self.name = name
        self.type = type_

    def __repr__(self) -> str:
        return self.name


class Special(NamedTuple):
    """A register that the card gives its value to, such as %tid.x."""

    name: str


class Number(NamedTuple):
    """A number in the text. *bits* are those of a float that is given in hexadecimal, of this *width*."""

    value: int | float
    bits: int | None = None
    width: int = 0


class Symbol(NamedTuple):
    """The address of a variable or a function, or the name of a label."""

    name: str
    offset: int = 0


class Address(NamedTuple):
    """What brackets hold: an address and an offset."""

    base: "Register | Symbol | Number"
    offset: int = 0


class Not(NamedTuple):
    """The opposite of a predicate, or a number with its sign turned."""

    operand: "Register | Special"


class Pair(NamedTuple):
    """Two results with a bar between them; None where one is not wanted."""

    first: "Register | None"
    second: "Register | None"


class Vector(NamedTuple):
    """Operands in braces, or in parentheses."""

    parts: tuple["Operand", ...]


class Sink(NamedTuple):
    """A result that nobody wants: `_`."""


Operand = Register | Special | Number | Symbol | Address | Not | Pair | Vector | Sink


class Instruction(NamedTuple):
    """One instruction.

    Attributes:
        name: Its first word, such as "ld".
        modifiers: The other ones, without their dots.
        operands: The results first.
        guard: The predicate without which it does nothing, and whether that is turned around.
        line: Its line in the text.
        source: The line of the source that it was made from.
    """

    name: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: tuple[Register, bool] | None
    line: int
    source: Location | None

    def __str__(self) -> str:
        return ".".join((self.name, *self.modifiers))


class Label(NamedTuple):
    """A place in a function; the name is made unique in it."""

    name: str
    line: int


class Relocation(NamedTuple):
    """Bytes of a variable that hold an address: byte *at*, so many *bytes*, of a symbol."""

    at: int
    nbytes: int
    symbol: Symbol
    is_generic: bool
    shift: int = 0  # of the address to the right, for a mask of one byte


@dataclass(slots=True)
class Variable:
    """A variable: *shape* is (0,) where the size is given by the launch or another module."""

    name: str
    space: Space
    type: Type
    align: int
    shape: tuple[int, ...]
    line: int
    vector: int = 1
    data: bytes = b""  # of its start; zeros follow
    relocations: Sequence[Relocation] = ()
    is_extern: bool = False
    is_pointer: bool = False
    is_register: bool = False  # a parameter of a function that the function has in a register

    @property
    def nbytes(self) -> int:
        """Its bytes."""
        return self.type.nbytes * self.vector * prod(self.shape)


@dataclass(slots=True)
class Function:
    """A kernel or a function.

    Attributes:
        name: Its name.
        is_entry: Whether it is a kernel.
        parameters: What it takes.
        results: What it gives back.
        body: Its instructions and labels; None if another module has them.
        registers: All its registers, by number.
        variables: The variables that it declares, by name.
        tables: The lists of labels or prototypes, by name.
        limits: Its performance directives: `maxntid`, `reqntid`, `minnctapersm`, `maxnreg` and others.
        line: The line of its name.
        back: The register that has the place to which it returns, if its text stores that on a stack.
    """

    name: str
    is_entry: bool
    line: int
    parameters: list[Variable] = field(default_factory=list)
    results: list[Variable] = field(default_factory=list)
    body: list[Instruction | Label] | None = None
    registers: list[Register] = field(default_factory=list)
    variables: dict[str, Variable] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    limits: dict[str, tuple[int, ...]] = field(default_factory=dict)
    back: Register | None = None


@dataclass(eq=False)
class Module:
    """A text: its version and target, its variables, functions and kernels, and the files that its lines are of.

    The parser makes it, and nothing changes it.
    """

    version: tuple[int, int]
    target: str
    address_bits: int
    variables: Mapping[str, Variable]
    functions: Mapping[str, Function]
    files: Mapping[int, str]

    @property
    def entries(self) -> dict[str, Function]:
        """Its kernels."""
        return {name: each for name, each in self.functions.items() if each.is_entry}

    @cached_property
    def functions_with_addresses(self) -> list[str]:
        """The functions whose addresses are taken: by an instruction, or by the first value of a variable.

        They are kept, because a module may have hundreds of kernels, and each asks when it is compiled.
        """
        taken = {relocation.symbol.name for each in self.variables.values() for relocation in each.relocations}
        for function in self.functions.values():
            for item in function.body or ():
                if isinstance(item, Instruction) and item.name != "call":
                    taken |= {operand.name for operand in item.operands if isinstance(operand, Symbol)}
            for names in function.tables.values():
                taken |= {*names}
        return [name for name, function in self.functions.items() if name in taken and function.body is not None]
