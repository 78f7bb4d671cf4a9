"""The check of operands against a form: how many there are, of which kinds, and of which types registers are."""

from collections.abc import Mapping
from typing import NamedTuple

from device_model.ptx.code.forms.form import Form
from device_model.ptx.code.opcodes import opcode_of
from device_model.ptx.code.special import special_type
from device_model.ptx.text.syntax import (
    Address,
    Function,
    Instruction,
    Label,
    Module,
    Not,
    Number,
    Operand,
    Pair,
    Register,
    Sink,
    Space,
    Special,
    Symbol,
    Vector,
)
from device_model.ptx.text.types import TYPES, Family, Type

_WHOLE = (Family.BITS, Family.UNSIGNED, Family.SIGNED)
# Which registers hold a value of a family: those without a type hold any, and a value without a type is in any.
_HOLDERS = {
    Family.BITS: (*_WHOLE, Family.FLOAT, Family.BRAIN),
    Family.UNSIGNED: _WHOLE,
    Family.SIGNED: _WHOLE,
    Family.FLOAT: (Family.BITS, Family.FLOAT),
    Family.BRAIN: (Family.BITS, Family.BRAIN),
    Family.PREDICATE: (Family.PREDICATE,),
}
_SPACES = {"global": Space.GLOBAL, "const": Space.CONST, "shared": Space.SHARED, "local": Space.LOCAL,
           "param": Space.PARAM}  # fmt: skip
_WIDEST = 128  # bits that one access moves
_LENGTHS = {"v2": 2, "v4": 4, "v8": 8}


class Misfit(Exception):  # noqa: N818 - it is an answer: the next form may fit
    """An operand does not fit a form: *place* is how many before it do."""

    def __init__(self, place: int, what: str) -> None:
        super().__init__(place, what)
        self.place = place
        self.what = what


class Names(NamedTuple):
    """The names that the instructions of a function may have."""

    function: Function
    variables: Mapping[str, Space]
    functions: Mapping[str, Function]
    labels: frozenset[str]


def names_of(module: Module, function: Function) -> Names:
    """Return the names that are known in *function*."""
    inner = {name: each.space for name, each in function.variables.items()}
    outer = {name: each.space for name, each in module.variables.items()}
    labels = frozenset(item.name for item in function.body or () if isinstance(item, Label))
    return Names(function, {**outer, **inner}, module.functions, labels)


def check_operands(names: Names, form: Form, item: Instruction) -> None:
    """Check all operands of *item*.

    Raises:
        Misfit: One does not fit *form*, or there are too many or too few.
    """
    if form.operands == ("*",):
        return
    results = opcode_of(item).results(item)
    for place, (kind, operand) in enumerate(zip(_chosen(form, item), item.operands, strict=True)):
        what = _Operand(names, item, place < results).misfit(kind, operand)
        if what:
            raise Misfit(place + 1, f"{what} (operand {place + 1})")


def _chosen(form: Form, item: Instruction) -> list[str]:
    """Return the kinds of the operands, without those that may be missing and are."""
    count = len(item.operands)
    kinds = [each for each in form.operands if each != "policy" or "L2::cache_hint" in item.modifiers]
    least, most = sum(not each.endswith("?") for each in kinds), len(kinds)
    for kind in [each for each in reversed(kinds) if each.endswith("?")]:
        if len(kinds) > count:
            kinds.remove(kind)
    if len(kinds) != count:
        raise Misfit(0, f"it has {least if least == most else f'{least} to {most}'} operands, not {count}")
    return [each.rstrip("?") for each in kinds]


class _Operand(NamedTuple):
    """What is known about the operand of an instruction that is looked at."""

    names: Names
    item: Instruction
    is_result: bool

    def misfit(self, kind: str, operand: Operand) -> str:
        """Return what is wrong with *operand*, which should be of this kind; "" if nothing is."""
        if kind in ("*", "{}"):
            return ""
        if kind.startswith("mem"):
            return self._address(operand, kind[4:])
        if kind == "num":
            return "" if isinstance(operand, Number) and isinstance(operand.value, int) else "a whole number is missing"
        if kind == "label":
            if not isinstance(operand, Symbol):
                return "a label is missing"
            is_there = operand.name in self.names.labels
            return "" if is_there else f"{operand.name} is no label of this function"
        if kind == "table":
            is_there = isinstance(operand, Symbol) and operand.name in self.names.function.tables
            return "" if is_there else "the name of a .branchtargets is missing"
        if kind[0] == "{":
            return self._vector(kind[1:-1], operand)
        if kind == "x":
            return self._any(operand)
        first, _, second = kind.replace("&", "/").partition("/")
        if second and isinstance(operand, Pair):
            parts = (first, operand.first), (second, operand.second)
            return next((what for each, part in parts if part and (what := self._one(each, part))), "")
        return "the second result is missing" if "&" in kind else self._one(first, operand)

    def _type(self, kind: str) -> Type:
        types = [each for each in self.item.modifiers if each in TYPES]
        if kind == "t":
            return TYPES[types[-1]]
        if kind == "policy":
            return TYPES["b64"]
        if kind == "s":
            return TYPES[types[-2]]
        if kind == "w":
            return TYPES[f"{TYPES[types[-1]].family.value}{2 * TYPES[types[-1]].bits}"]
        return TYPES[kind]

    def _one(self, kind: str, operand: Operand) -> str:
        """Check a value, or a register for one."""
        type_, may_be_wider = self._type(kind.rstrip("+_")), "+" in kind
        match operand:
            case Register():
                return _register_misfit(operand, type_, may_be_wider=may_be_wider)
            case Sink():
                return "" if self.is_result and kind.endswith("_") else "_ does not stand here"
            case _ if self.is_result:
                return "the result is no register"
            case Not(inner) if type_.family is Family.PREDICATE:
                return self._one(kind, inner)
            case Number():
                return _number_misfit(operand, type_)
            case Special() if self.item.name == "cvt":
                return _special_misfit(operand, type_, self.item.line)
            case Special():
                special_type(operand.name, self.item.line)
                return f"{operand.name} is a special register: move it into another one first"
            case Symbol():
                return self._unknown(operand) or f"{operand.name} is no register"
        return f"a value of type .{type_.name} is missing"

    def _any(self, operand: Operand) -> str:
        """Check an operand of mov or cvta."""
        if isinstance(operand, Symbol) and not self.is_result:
            return self._unknown(operand)
        if isinstance(operand, Vector):
            return self._packed(operand)
        if isinstance(operand, Special) and not self.is_result:
            return _special_misfit(operand, self._type("t"), self.item.line)
        return self._one("t", operand)

    def _packed(self, vector: Vector) -> str:
        """Check the parts of a vector that are one value together."""
        type_, count = self._type("t"), len(vector.parts)
        if type_.family is not Family.BITS:
            return f"a value of type .{type_.name} has no parts: write .b{type_.bits}"
        if count not in (1, 2, 4):
            return f"a vector of {count} is no value of type .{type_.name}"
        for part in vector.parts:
            if isinstance(part, Symbol):
                return self._unknown(part) or f"{part.name} is no register"
            if isinstance(part, Register) and part.type.bits * count != type_.bits:
                return f"{count} registers of type .{part.type.name} are no value of type .{type_.name}"
        return ""

    def _vector(self, kind: str, operand: Operand) -> str:
        length = next((_LENGTHS[each] for each in self.item.modifiers if each in _LENGTHS), None)
        parts = operand.parts if isinstance(operand, Vector) else (operand,)
        if length is not None and (len(parts) != length or not isinstance(operand, Vector)):
            return f"a vector of {length} is missing"
        is_open = self.is_result and isinstance(operand, Vector)  # for places that are not wanted
        if length is not None and length * self._type(kind.rstrip("+")).bits > _WIDEST:
            return f"{length} values of type .{self._type(kind.rstrip('+')).name} are more than {_WIDEST} bits"
        return next((what for part in parts if (what := self._one(kind + "_" * is_open, part))), "")

    def _address(self, operand: Operand, space_name: str) -> str:
        if not isinstance(operand, Address):
            return "an address in brackets is missing"
        base = operand.base
        named = [each.partition("::")[0] for each in self.item.modifiers]
        space = next((_SPACES[each] for each in (space_name, *named) if each in _SPACES), None)
        if isinstance(base, Register):
            is_address = base.type.family in _WHOLE and base.type.bits in (32, 64)
            return "" if is_address else f"the register {base.name} of type .{base.type.name} holds no address"
        if isinstance(base, Symbol):
            return self._unknown(base) or self._place(base, space)
        return ""

    def _place(self, base: Symbol, space: Space | None) -> str:
        """Check that a variable is in the state space of the instruction, and may be written."""
        own = self.names.variables.get(base.name)
        if own is None:
            return f"{base.name} is no variable"
        if space is not None and own is not space:
            return f"{base.name} is in .{own.value} memory, not in .{space.value}"
        is_given = any(each.name == base.name for each in self.names.function.parameters)
        return f"{base.name} is a parameter, which is not written" if is_given and self.item.name == "st" else ""

    def _unknown(self, symbol: Symbol) -> str:
        is_known = symbol.name in self.names.variables or symbol.name in self.names.functions
        return "" if is_known else f"{symbol.name} is not declared in the module"


def _register_misfit(register: Register, wanted: Type, *, may_be_wider: bool) -> str:
    """Say so unless a register has room for a value of type *wanted*, or more where it may."""
    own = register.type
    is_plain = wanted.family not in (Family.FLOAT, Family.BRAIN) or own.family is Family.BITS
    has_room = own.bits == wanted.bits or (may_be_wider and _WIDEST > own.bits > wanted.bits and is_plain)
    if has_room and own.family in _HOLDERS[wanted.family]:
        return ""
    return f"the register {register.name} of type .{own.name} holds no value of type .{wanted.name}"


def _number_misfit(number: Number, type_: Type) -> str:
    is_float = isinstance(number.value, float)
    if type_.family is Family.FLOAT and type_.bits in (32, 64):
        return (
            "" if is_float else f"{number.value} is no number of type .{type_.name}: write it with a point, or as 0f.."
        )
    if type_.family in (Family.FLOAT, Family.BRAIN):
        return f"{number.value} is no register: type .{type_.name} has no numbers"
    if is_float and (type_.family is not Family.BITS or number.width != type_.bits):
        return f"{number.value} is no number of type .{type_.name}"
    return ""


def _special_misfit(special: Special, type_: Type, line: int) -> str:
    own = special_type(special.name, line)
    is_cut = own.bits == 64 and type_.bits < 64 and special.name != "%gridid"  # which had 32 bits once
    if (own.family is Family.PREDICATE) != (type_.family is Family.PREDICATE) or own.bits < type_.bits or is_cut:
        return f"{special.name} of type .{own.name} is no value of type .{type_.name}"
    return ""
