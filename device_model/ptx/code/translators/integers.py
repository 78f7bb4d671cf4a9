"""Integers: arithmetic, shifts, logic and fields of bits."""

from collections.abc import Callable
from typing import Any

import numpy as np

from device_model.ptx.code.emitter import PRED, U32, Emitter
from device_model.ptx.code.opcodes import opcode
from device_model.ptx.code.translators import floats
from device_model.ptx.code.translators.shapes import flags, is_whole, misfit, operands, type_of, whole_type
from device_model.ptx.text.syntax import Instruction, Number, Pair
from device_model.ptx.text.types import TYPES, Type
from device_model.ptx.values import bits, integers, packed

_S32 = TYPES["s32"]


def _wide(type_: Type) -> Type:
    return TYPES[f"{type_.family.value}{2 * type_.bits}"]


@opcode("add", "sub")
def _add(emit: Emitter, instruction: Instruction) -> None:
    type_ = type_of(instruction)
    if type_.name in ("s16x2", "u16x2"):
        _pairs(emit, instruction, integers.add if instruction.name == "add" else integers.sub, type_)
        return
    if not is_whole(type_):
        floats.arithmetic(emit, instruction)
        return
    result, a, b = operands(instruction, 3)
    x, y = emit.value(a, type_), emit.value(b, type_)
    if "cc" in instruction.modifiers:
        with_carry = integers.add_carry if instruction.name == "add" else integers.sub_carry
        _carried(emit, instruction, emit.call(with_carry, x, y), type_)
    elif "sat" in instruction.modifiers:
        emit.set(result, emit.call(integers.add if instruction.name == "add" else integers.sub, x, y, sat=True), type_)
    else:
        emit.set(result, f"{x} {'+' if instruction.name == 'add' else '-'} {y}", type_)


@opcode("addc", "subc")
def _add_with_carry(emit: Emitter, instruction: Instruction) -> None:
    type_ = whole_type(instruction)
    _, a, b = operands(instruction, 3)
    with_carry = integers.add_carry if instruction.name == "addc" else integers.sub_carry
    _carried(emit, instruction, emit.call(with_carry, emit.value(a, type_), emit.value(b, type_), emit.carry()), type_)


def _carried(emit: Emitter, instruction: Instruction, code: str, type_: Type) -> None:
    """Set the result, and the carry if the instruction asks for it, to what *code* returns."""
    both = emit.let(code)
    emit.set(instruction.operands[0], f"{both}[0]", type_)
    if "cc" in instruction.modifiers:
        emit.set_carry(f"{both}[1]")


def _pairs(emit: Emitter, instruction: Instruction, function: Callable[..., Any], type_: Type, **options: bool) -> None:
    """Do *function* for both halves of words."""
    result, *given = instruction.operands
    half = emit.names.of(np.dtype("i2" if type_.name == "s16x2" else "u2"))
    codes = [emit.value(each, type_) for each in given]
    emit.set(result, emit.call(packed.by_pair, emit.names.of(function), half, *codes, **options), type_)


@opcode("mul")
def _mul(emit: Emitter, instruction: Instruction) -> None:
    type_ = type_of(instruction)
    if not is_whole(type_):
        floats.arithmetic(emit, instruction)
        return
    result, a, b = operands(instruction, 3)
    x, y = emit.value(a, type_), emit.value(b, type_)
    if "wide" in instruction.modifiers:
        emit.set(result, emit.call(integers.mul_wide, x, y), _wide(type_))
    elif "hi" in instruction.modifiers:
        emit.set(result, emit.call(integers.mul_hi, x, y), type_)
    else:
        emit.set(result, f"{x} * {y}", type_)


@opcode("mad")
def _mad(emit: Emitter, instruction: Instruction) -> None:
    type_ = type_of(instruction)
    if not is_whole(type_):
        floats.arithmetic(emit, instruction)
        return
    result, a, b, c = operands(instruction, 4)
    x, y = emit.value(a, type_), emit.value(b, type_)
    if "cc" in instruction.modifiers:
        code = emit.call(integers.mad_carry, x, y, emit.value(c, type_), "None", **flags(instruction, "hi"))
        _carried(emit, instruction, code, type_)
    elif "wide" in instruction.modifiers:
        emit.set(result, emit.call(integers.mad_wide, x, y, emit.value(c, _wide(type_))), _wide(type_))
    elif "hi" in instruction.modifiers:
        code = emit.call(integers.mad_hi, x, y, emit.value(c, type_), **flags(instruction, "sat"))
        emit.set(result, code, type_)
    else:
        emit.set(result, f"{x} * {y} + {emit.value(c, type_)}", type_)


@opcode("madc")
def _mad_with_carry(emit: Emitter, instruction: Instruction) -> None:
    type_ = whole_type(instruction)
    _, *given = operands(instruction, 4)
    codes = [emit.value(each, type_) for each in given]
    code = emit.call(integers.mad_carry, *codes, emit.carry(), **flags(instruction, "hi"))
    _carried(emit, instruction, code, type_)


@opcode("mul24", "mad24")
def _mul24(emit: Emitter, instruction: Instruction) -> None:
    type_ = whole_type(instruction)
    result, *given = instruction.operands
    half = "hi" if "hi" in instruction.modifiers else "lo"
    function: Callable[..., Any] = getattr(integers, f"{instruction.name}_{half}")
    codes = [emit.value(each, type_) for each in given]
    emit.set(result, emit.call(function, *codes, **flags(instruction, "sat")), type_)


@opcode("div")
def _div(emit: Emitter, instruction: Instruction) -> None:
    type_ = type_of(instruction)
    if not is_whole(type_):
        floats.divide(emit, instruction)
        return
    result, a, b = operands(instruction, 3)
    emit.set(result, emit.call(integers.div, emit.value(a, type_), emit.value(b, type_)), type_)


@opcode("rem", "sad")
def _plain(emit: Emitter, instruction: Instruction) -> None:
    type_ = whole_type(instruction)
    result, *given = instruction.operands
    function: Callable[..., Any] = getattr(integers, instruction.name)
    emit.set(result, emit.call(function, *(emit.value(each, type_) for each in given)), type_)


@opcode("abs", "neg")
def _sign(emit: Emitter, instruction: Instruction) -> None:
    type_ = type_of(instruction)
    if not is_whole(type_):
        floats.sign(emit, instruction)
        return
    result, a = operands(instruction, 2)
    function = integers.abs_ if instruction.name == "abs" else integers.neg
    emit.set(result, emit.call(function, emit.value(a, type_)), type_)


@opcode("min", "max")
def _extreme(emit: Emitter, instruction: Instruction) -> None:
    type_ = type_of(instruction)
    function = integers.minimum if instruction.name == "min" else integers.maximum
    if type_.name in ("s16x2", "u16x2"):
        _pairs(emit, instruction, function, type_, **flags(instruction, "relu"))
    elif not is_whole(type_):
        floats.extreme(emit, instruction)
    else:
        result, a, b = operands(instruction, 3)
        code = emit.call(function, emit.value(a, type_), emit.value(b, type_), **flags(instruction, "relu"))
        emit.set(result, code, type_)


# Bits


@opcode("and", "or", "xor")
def _logic(emit: Emitter, instruction: Instruction) -> None:
    type_ = type_of(instruction)
    result, a, b = operands(instruction, 3)
    sign = {"and": "&", "or": "|", "xor": "^"}[instruction.name]
    emit.set(result, f"{emit.value(a, type_)} {sign} {emit.value(b, type_)}", type_)


@opcode("not")
def _not(emit: Emitter, instruction: Instruction) -> None:
    type_ = type_of(instruction)
    result, a = operands(instruction, 2)
    emit.set(result, f"~{emit.value(a, type_)}", type_)


@opcode("cnot", "brev")
def _of_one(emit: Emitter, instruction: Instruction) -> None:
    type_ = whole_type(instruction)
    result, a = operands(instruction, 2)
    emit.set(result, emit.call(getattr(bits, instruction.name), emit.value(a, type_)), type_)


@opcode("clz", "popc")
def _counted(emit: Emitter, instruction: Instruction) -> None:
    result, a = operands(instruction, 2)
    emit.set(result, emit.call(getattr(bits, instruction.name), emit.value(a, whole_type(instruction))), U32)


@opcode("bfind")
def _find(emit: Emitter, instruction: Instruction) -> None:
    result, a = operands(instruction, 2)
    code = emit.call(bits.bfind, emit.value(a, whole_type(instruction)), **flags(instruction, "shiftamt"))
    emit.set(result, code, U32)


@opcode("fns")
def _find_nth(emit: Emitter, instruction: Instruction) -> None:
    result, mask, base, offset = operands(instruction, 4)
    code = emit.call(bits.fns, emit.value(mask, U32), emit.value(base, U32), emit.value(offset, _S32))
    emit.set(result, code, U32)


@opcode("shl", "shr")
def _shift(emit: Emitter, instruction: Instruction) -> None:
    type_ = whole_type(instruction)
    result, a, count = operands(instruction, 3)
    x = emit.value(a, type_)
    if isinstance(count, Number) and isinstance(count.value, int) and 0 <= count.value < type_.bits:
        sign = "<<" if instruction.name == "shl" else ">>"
        emit.set(result, f"{x} {sign} {emit.names.constant(count.value, type_.dtype)}", type_)
    else:
        emit.set(result, emit.call(getattr(bits, instruction.name), x, emit.value(count, U32)), type_)


@opcode("shf")
def _funnel(emit: Emitter, instruction: Instruction) -> None:
    result, a, b, count = operands(instruction, 4)
    function = bits.shf_l if "l" in instruction.modifiers else bits.shf_r
    codes = [emit.value(each, U32) for each in (a, b, count)]
    emit.set(result, emit.call(function, *codes, wrap="wrap" in instruction.modifiers), U32)


@opcode("bfe")
def _extract(emit: Emitter, instruction: Instruction) -> None:
    type_ = whole_type(instruction)
    result, a, position, length = operands(instruction, 4)
    emit.set(
        result, emit.call(bits.bfe, emit.value(a, type_), emit.value(position, U32), emit.value(length, U32)), type_
    )


@opcode("bfi")
def _insert(emit: Emitter, instruction: Instruction) -> None:
    type_ = whole_type(instruction)
    result, a, b, position, length = operands(instruction, 5)
    codes = [emit.value(a, type_), emit.value(b, type_), emit.value(position, U32), emit.value(length, U32)]
    emit.set(result, emit.call(bits.bfi, *codes), type_)


@opcode("prmt")
def _permute(emit: Emitter, instruction: Instruction) -> None:
    result, a, b, selector = operands(instruction, 4)
    codes = [emit.value(each, U32) for each in (a, b, selector)]
    mode = next((each for each in instruction.modifiers if each != "b32"), None)
    emit.set(result, emit.call(bits.prmt, *codes, **({} if mode is None else {"mode": mode})), U32)


@opcode("lop3")
def _logic_of_three(emit: Emitter, instruction: Instruction) -> None:
    result, a, b, c, table, *more = instruction.operands
    word = next((each for each in instruction.modifiers if each in ("and", "or")), None)
    if not isinstance(table, Number) or len(more) != (word is not None):
        raise misfit(instruction, "its table is a number")
    codes = [emit.value(each, U32) for each in (a, b, c)]
    code = emit.let(emit.call(bits.lop3, *codes, str(int(table.value) & 255)))
    given = emit.let(emit.value(more[0], PRED)) if more else None
    first, second = (result.first, result.second) if isinstance(result, Pair) else (result, None)
    emit.set(first, code, U32)
    if given is not None:
        is_any = f"({code} != {emit.names.constant(0, U32.dtype)})"
        emit.set(second, f"{is_any} {'&' if word == 'and' else '|'} {given}", PRED)


@opcode("bmsk", "szext")
def _masked(emit: Emitter, instruction: Instruction) -> None:
    type_ = whole_type(instruction)
    result, a, b = operands(instruction, 3)
    code = emit.call(
        getattr(bits, instruction.name), emit.value(a, type_), emit.value(b, U32), wrap="wrap" in instruction.modifiers
    )
    emit.set(result, code, type_)


@opcode("dp4a", "dp2a")
def _dot(emit: Emitter, instruction: Instruction) -> None:
    result, a, b, c = operands(instruction, 4)
    first, second = instruction.modifiers[-2:]
    type_ = _S32 if "s32" in (first, second) else U32
    options = {"a_signed": first == "s32", "b_signed": second == "s32", **flags(instruction, "hi")}
    function = packed.dp4a if instruction.name == "dp4a" else packed.dp2a
    codes = [emit.value(a, U32), emit.value(b, U32), emit.value(c, type_)]
    emit.set(result, emit.call(function, *codes, **options), type_)


# Choices


@opcode("selp")
def _select(emit: Emitter, instruction: Instruction) -> None:
    type_ = type_of(instruction)
    result, a, b, predicate = operands(instruction, 4)
    code = emit.call(np.where, emit.value(predicate, PRED), emit.value(a, type_), emit.value(b, type_))
    emit.set(result, code, type_)


@opcode("slct")
def _select_by_sign(emit: Emitter, instruction: Instruction) -> None:
    type_, by = TYPES[instruction.modifiers[-2]], type_of(instruction)
    result, a, b, c = operands(instruction, 4)
    codes = [emit.value(a, type_), emit.value(b, type_), emit.value(c, by)]
    emit.set(result, emit.call(bits.slct, *codes, **flags(instruction, "ftz")), type_)
