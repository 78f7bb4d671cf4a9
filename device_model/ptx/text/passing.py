"""Values that functions take, give back and get in registers: they go through variables in parameter memory.

A text may declare the parameters of a function as registers, and may give registers and numbers to a call. Both become
what compilers write: a store to a variable before the call or the return, and a load behind it.
"""

from collections.abc import Callable, Mapping, Sequence

from device_model.ptx.text.errors import PtxError
from device_model.ptx.text.syntax import (
    Address,
    Function,
    Instruction,
    Number,
    Operand,
    Register,
    Space,
    Symbol,
    Variable,
    Vector,
)
from device_model.ptx.text.types import Type

_REMEDY = "give a variable in parameter memory"
Declare = Callable[[Variable], None]


def load(register: Operand, variable: Variable, like: Instruction) -> Instruction:
    """Return the load of *register* from *variable*, in the line of *like* and under its guard."""
    return like._replace(
        name="ld", modifiers=("param", variable.type.name), operands=(register, Address(Symbol(variable.name), 0))
    )


def store(variable: Variable, value: Operand, like: Instruction) -> Instruction:
    """Return the store of *value* to *variable*, in the line of *like* and under its guard."""
    return like._replace(
        name="st", modifiers=("param", variable.type.name), operands=(Address(Symbol(variable.name), 0), value)
    )


def through_memory(call: Instruction, functions: Mapping[str, Function], declare: Declare) -> list[Instruction]:
    """Return a call with what has to stand before and behind it: it has variables only.

    Args:
        call: The call.
        functions: Those that the text has declared so far.
        declare: Gives a new variable a name that nothing else has.

    Raises:
        PtxError: It is not known of which type a number is.
    """
    target = next((each for each in call.operands if not isinstance(each, Vector)), None)
    function = functions.get(target.name) if isinstance(target, Symbol) else None
    before: list[Instruction] = []
    behind: list[Instruction] = []
    operands = []
    is_argument = False
    for operand in call.operands:
        if isinstance(operand, Vector):
            formals: Sequence[Variable] = ()
            if function is not None:
                formals = function.parameters if is_argument else function.results
            parts = []
            for number, part in enumerate(operand.parts):
                if isinstance(part, Register | Number):
                    type_ = _type(call, part, formals[number] if number < len(formals) else None)
                    variable = Variable("passed", Space.PARAM, type_, type_.nbytes, (), call.line)
                    declare(variable)
                    if is_argument:
                        before.append(store(variable, part, call))
                    else:
                        behind.append(load(part, variable, call))
                    part = Symbol(variable.name)
                parts.append(part)
            operand = Vector(tuple(parts))
        else:
            is_argument = True
        operands.append(operand)
    return [*before, call._replace(operands=tuple(operands)), *behind]


def _type(call: Instruction, part: Register | Number, formal: Variable | None) -> Type:
    shown = part.name if isinstance(part, Register) else part.value
    if formal is not None:
        if formal.shape or formal.vector > 1:
            raise PtxError(call.line, f"{shown} is no structure of {formal.nbytes} bytes", _REMEDY)
        return formal.type
    if isinstance(part, Register) and part.type.bits >= 8:
        return part.type
    raise PtxError(call.line, f"the type of {shown} in the call is not known", _REMEDY)
