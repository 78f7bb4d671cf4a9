"""Floats of 16, 32 and 64 bits: arithmetic, approximate functions, and tests."""

from collections.abc import Callable
from typing import Any

from device_model.ptx.code.emitter import PRED, Emitter
from device_model.ptx.code.flow import is_newer, reads, writes
from device_model.ptx.code.opcodes import opcode
from device_model.ptx.code.translators.shapes import flags, is_whole, misfit, operands, refuse, rounding, type_of
from device_model.ptx.text.syntax import Instruction, Number, Operand, Register
from device_model.ptx.text.types import Type
from device_model.ptx.values import approximate, comparisons, floats, halves

# What takes a float and makes nothing of the bits of a NaN.
_BLIND = frozenset(("add", "sub", "mul", "fma", "mad", "div", "sqrt", "rcp", "rsqrt", "ex2", "lg2", "sin", "cos",
                    "tanh", "setp", "set", "min", "max", "neg", "abs"))  # fmt: skip
_COMPARISONS = frozenset(("setp", "set"))
_SIGNS = {"add": "+", "sub": "-", "mul": "*"}


def _is_half(type_: Type) -> bool:
    return type_.name in ("f16", "bf16", "f16x2", "bf16x2")


def set_float(emit: Emitter, result: Operand, code: str, type_: Type, *given: str) -> None:
    """Set a result of arithmetic; a NaN gets the bits that the card gives it, if anything may see them.

    Of 64 bits those are the bits of the first NaN in *given*.
    """
    if type_.name in ("f32", "f64") and is_seen(emit, result, type_):
        code = emit.call(floats.canonical, emit.let(code), *(given if type_.name == "f64" else ()))
    emit.set(result, code, type_)


def propagated(emit: Emitter, instruction: Instruction) -> list[str]:
    """Return the operands of 64 bits in the order in which an H200 hands on their NaNs (measured).

    It takes the second operand before the first, and of fma the second, the third and the first. But before that the
    assembler orders two terms or factors: a number in the text becomes the second one, else the register that was
    written last. What a number is that is subtracted gets the other sign.
    """
    type_ = type_of(instruction)
    first, second, *rest = instruction.operands[1:]
    codes = [emit.value(each, type_) for each in (first, second, *rest)]
    if instruction.name == "sub" and isinstance(second, Number):
        codes[1] = f"(-{codes[1]})"
    if _is_second(emit, instruction, first, second):
        codes[:2] = codes[1::-1]
    return [*codes[1:], codes[0]]


def _is_second(emit: Emitter, instruction: Instruction, first: Operand, second: Operand) -> bool:
    """Whether the assembler makes the first of two operands the second one."""
    if isinstance(first, Register) and isinstance(second, Register):
        return is_newer(emit.block.function, instruction, first, second)
    return isinstance(first, Number)


def _is_blind(later: Instruction, type_: Type) -> bool:
    """Whether an instruction makes nothing of the bits of a NaN: of 64 bits arithmetic hands them on."""
    blind = _BLIND if type_.bits == 32 else _COMPARISONS
    return later.name in blind and "xorsign" not in later.modifiers and not is_whole(type_of(later))


def is_seen(emit: Emitter, result: Operand, type_: Type) -> bool:
    """Whether the bits of a NaN in *result* matter to what is behind this instruction."""
    for later in emit.later:
        if result in reads(later) and not _is_blind(later, type_):
            return True
        if later.guard is None and result in writes(later):
            return False
    return emit.lives_on(result)


def arithmetic(emit: Emitter, instruction: Instruction) -> None:
    """Translate add, sub, mul, mad and fma of floats."""
    type_ = type_of(instruction)
    result, *given = instruction.operands
    name = "fma" if instruction.name == "mad" else instruction.name
    if len(given) != (3 if name == "fma" else 2):
        raise misfit(instruction, f"it has {len(given)} operands and a result")
    codes = [emit.value(each, type_) for each in given]
    if _is_half(type_):
        if rounding(instruction):
            raise refuse(instruction, "it rounds to the nearest only")
        options = flags(instruction, "ftz", "sat", "relu")
        emit.set(result, emit.call(getattr(halves, name), *codes, repr(type_.name), **options), type_)
        return
    options_ = {**rounding(instruction), **flags(instruction, "ftz", "sat")}
    is_plain = name in _SIGNS and not options_
    code = f"{codes[0]} {_SIGNS[name]} {codes[1]}" if is_plain else emit.call(getattr(floats, name), *codes, **options_)
    set_float(emit, result, code, type_, *(propagated(emit, instruction) if type_.name == "f64" else ()))


@opcode("fma")
def _fma(emit: Emitter, instruction: Instruction) -> None:
    arithmetic(emit, instruction)


def divide(emit: Emitter, instruction: Instruction) -> None:
    """Translate div of floats."""
    type_ = type_of(instruction)
    result, a, b = operands(instruction, 3)
    codes = emit.value(a, type_), emit.value(b, type_)
    for mode, function in (("approx", floats.div_approx), ("full", floats.div_full)):
        if mode in instruction.modifiers:
            set_float(emit, result, emit.call(function, *codes, **flags(instruction, "ftz")), type_)
            return
    options = {**rounding(instruction), **flags(instruction, "ftz")}
    set_float(emit, result, emit.call(floats.div, *codes, **options), type_, *codes)


@opcode("sqrt", "rcp")
def _root(emit: Emitter, instruction: Instruction) -> None:
    type_ = type_of(instruction)
    result, a = operands(instruction, 2)
    code = emit.value(a, type_)
    if "approx" in instruction.modifiers:
        _approximate(emit, instruction)
        return
    options = {**rounding(instruction), **flags(instruction, "ftz")}
    set_float(emit, result, emit.call(getattr(floats, instruction.name), code, **options), type_, code)


@opcode("rsqrt", "ex2", "lg2", "sin", "cos", "tanh")
def _approximate(emit: Emitter, instruction: Instruction) -> None:
    type_ = type_of(instruction)
    result, a = operands(instruction, 2)
    code = emit.value(a, type_)
    name = instruction.name
    options = flags(instruction, "ftz") if name != "tanh" else {}
    if _is_half(type_) and name in ("ex2", "tanh"):
        emit.set(result, emit.call(getattr(halves, name), code, repr(type_.name), **options), type_)
        return
    if type_.name == "f64" and name in ("rcp", "rsqrt"):
        emit.set(result, emit.call(getattr(approximate, f"{name}_f64"), code), type_)
        return
    if type_.name != "f32":
        raise refuse(instruction)
    function: Callable[..., Any] = getattr(approximate, name)
    set_float(emit, result, emit.call(function, code, **options), type_)


def sign(emit: Emitter, instruction: Instruction) -> None:
    """Translate abs and neg of floats.

    The assembler changes only the sign of a number in the text, whose NaN it makes quiet, and of an f32 behind a guard.
    """
    type_ = type_of(instruction)
    result, a = operands(instruction, 2)
    module: Any = halves if _is_half(type_) else floats
    function = module.abs_ if instruction.name == "abs" else module.neg
    kind = (repr(type_.name),) if _is_half(type_) else ()
    given = emit.value(a, type_)
    options = flags(instruction, "ftz")
    code = emit.call(function, given, *kind, **options)
    if type_.name == "f32" and isinstance(a, Number):
        emit.set(result, emit.call(floats.quiet, code), type_)
    elif type_.name == "f32" and emit.guard is not None and not options:
        emit.set(result, code, type_)
    else:
        set_float(emit, result, code, type_, given)


def extreme(emit: Emitter, instruction: Instruction) -> None:
    """Translate min and max of floats."""
    type_ = type_of(instruction)
    result, *given = instruction.operands
    codes = [emit.value(each, type_) for each in given]
    module: Any = halves if _is_half(type_) else comparisons
    function = module.minimum if instruction.name == "min" else module.maximum
    kind = (repr(type_.name),) if _is_half(type_) else ()
    options = flags(instruction, "ftz")
    if "NaN" in instruction.modifiers:
        options["nan"] = True
    if "xorsign" in instruction.modifiers:
        options["xorsign"] = True
    if "abs" in instruction.modifiers and not _is_half(type_):
        options["absolute"] = True
    code = emit.call(function, *codes[:2], *kind, *codes[2:], **options)
    set_float(emit, result, code, type_, *(propagated(emit, instruction) if type_.name == "f64" else ()))


@opcode("copysign")
def _copysign(emit: Emitter, instruction: Instruction) -> None:
    type_ = type_of(instruction)
    result, a, b = operands(instruction, 3)
    # PTX gives the sign of a to b.
    emit.set(result, emit.call(floats.copysign, emit.value(a, type_), emit.value(b, type_)), type_)


@opcode("testp")
def _test(emit: Emitter, instruction: Instruction) -> None:
    result, a = operands(instruction, 2)
    kind = instruction.modifiers[0]
    if kind not in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
        raise refuse(instruction)
    emit.set(result, emit.call(comparisons.test, emit.value(a, type_of(instruction)), repr(kind)), PRED)
