"""Declarations of variables: their state space, type, alignment, dimensions and initial values."""

from math import prod

from device_model.ptx.text.constants import whole
from device_model.ptx.text.cursor import Cursor
from device_model.ptx.text.errors import PtxError, Refusal
from device_model.ptx.text.initial import initial
from device_model.ptx.text.lexer import Mark
from device_model.ptx.text.syntax import Space, Variable
from device_model.ptx.text.types import TYPES, Type

SPACES = {f".{space.value}": space for space in Space}
_OPAQUE = (".texref", ".samplerref", ".surfref")
_MOST_BYTES = 1 << 40  # of a variable
_WIDEST = 128  # bits of a vector


def declared(at: Cursor) -> list[Variable]:
    """Read the variables of one declaration, with its semicolon."""
    variables = [first := variable(at)]
    while at.accepts(","):
        variables.append(_named(at, first))
    at.expect(";")
    return variables


def check_length(variable: Variable) -> None:
    """Refuse a variable without a length, unless another module or the launch has it."""
    if 0 in variable.shape and not variable.is_extern:
        raise PtxError(variable.line, f"{variable.name} has no length", "write how many elements it has, or .extern")


def variable(at: Cursor) -> Variable:
    """Read one declaration of a variable, up to its end without the semicolon."""
    token = at.take()
    space, bank = SPACES.get(token.text), token.text
    if space is None:
        raise PtxError(token.line, f"{bank} is no state space of a variable")
    align, vector, type_, is_pointer = 0, 1, None, False
    while at.ahead.mark is Mark.DIRECTIVE:
        directive = at.take().text
        if directive == ".align":
            found = _align(at)
            align = align if is_pointer else found  # else it is that of what the pointer is to
        elif directive in (".v2", ".v4", ".v8"):
            vector = int(directive[2:])
        elif directive == ".ptr":
            is_pointer = True
        elif is_pointer and directive in SPACES:
            continue
        elif directive == ".attribute":
            at.expect("(")
            at.skip_to(")")
        elif directive[1:] in TYPES:
            type_ = TYPES[directive[1:]]
        elif directive in _OPAQUE:
            what = f"{directive} is not supported: textures and surfaces are not simulated"
            raise PtxError(token.line, what, kind=Refusal.NOT_SIMULATED)
        else:
            raise at.error(f"{directive} is no directive for a variable", line=token.line)
    if type_ is None or type_.bits < 8:
        raise at.error("the type of the variable is missing", line=token.line)
    if vector > 1 and type_.bits * vector > _WIDEST:
        raise PtxError(token.line, f"{vector} values of type .{type_.name} are more than {_WIDEST} bits")
    like = Variable("", space, type_, align or type_.nbytes * vector, (), token.line, vector, is_pointer=is_pointer)
    return _named(at, like)


def _align(at: Cursor) -> int:
    align = whole(at, 1, 1 << 16)
    if align & align - 1:
        raise at.error(f".align {align} is no power of 2")
    return align


def _named(at: Cursor, like: Variable) -> Variable:
    """Read the name, the dimensions and the initial values of a variable that is otherwise *like* that one."""
    token = at.word("the name of a variable")
    shape: list[int] = []
    while at.accepts("["):
        shape.append(0 if at.ahead.text == "]" else whole(at, 0, _MOST_BYTES))
        at.expect("]")
    variable = Variable(token.text, like.space, like.type, like.align, tuple(shape), token.line, like.vector,
                        is_pointer=like.is_pointer)  # fmt: skip
    if prod(max(1, length) for length in shape) * like.type.nbytes * like.vector > _MOST_BYTES:
        raise PtxError(token.line, f"{token.text} is larger than any memory")
    if at.accepts("="):
        if like.space not in (Space.GLOBAL, Space.CONST):
            what = f"{token.text} is in .{like.space.value} memory, where variables have no initial values"
            raise PtxError(token.line, what, "store to it in the kernel")
        variable.shape, variable.data, variable.relocations = initial(at, variable)
    return variable


def type_of(at: Cursor) -> Type:
    """Read a type, such as .b32."""
    token = at.take()
    type_ = TYPES.get(token.text[1:])
    if type_ is None or token.mark is not Mark.DIRECTIVE:
        raise PtxError(token.line, f"{token.text} is no type")
    return type_
