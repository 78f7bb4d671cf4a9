"""Moves between registers, and between the kinds of addresses."""

import numpy as np

from device_model.ptx.code.emitter import PRED, U64, Emitter
from device_model.ptx.code.opcodes import opcode
from device_model.ptx.code.translators.shapes import type_of
from device_model.ptx.lanes.memory import LOCAL, PARAM, SHARED
from device_model.ptx.text.errors import PtxError
from device_model.ptx.text.syntax import Instruction, Space, Symbol, Vector
from device_model.ptx.text.types import TYPES, Type
from device_model.ptx.values.bits import wide

_WINDOWS = {"shared": SHARED, "local": LOCAL, "param": PARAM, "global": 0, "const": 0}


@opcode("mov")
def _move(emit: Emitter, instruction: Instruction) -> None:
    result, value = instruction.operands
    type_ = type_of(instruction)
    if type_.name == "b128":
        _move_wide(emit, instruction, type_)
    elif isinstance(value, Vector):
        emit.set(result, _packed(emit, value, type_), type_)
    elif isinstance(result, Vector):
        _unpack(emit, result, emit.value(value, type_), type_)
    else:
        emit.set(result, emit.value(value, type_), type_)


def _move_wide(emit: Emitter, instruction: Instruction, type_: Type) -> None:
    """Move 128 bits: from or to two words, or from one register to another."""
    result, value = instruction.operands
    if isinstance(value, Vector):
        low, high = emit.parts(value, U64, 2)
        emit.set(result, emit.call(wide, low, high, emit.names.of(type_.dtype)), type_)
    elif isinstance(result, Vector):
        code = emit.let(emit.value(value, type_))
        emit.set_parts(result, [f"{code}['low']", f"{code}['high']"], U64)
    else:
        emit.set(result, emit.value(value, type_), type_)


def _packed(emit: Emitter, vector: Vector, type_: Type) -> str:
    """Return the code of a value that has the parts of *vector*, the first one in its lowest bits."""
    part = _part_type(emit, vector, type_)
    whole = emit.names.of(TYPES[f"u{type_.bits}"].dtype)
    codes = []
    for number, operand in enumerate(vector.parts):
        code = f"{emit.value(operand, part)}.astype({whole})"
        shift = emit.names.constant(number * part.bits, TYPES[f"u{type_.bits}"].dtype)
        codes.append(f"({code} << {shift})" if number else code)
    return " | ".join(codes)


def _unpack(emit: Emitter, vector: Vector, value: str, type_: Type) -> None:
    """Give the parts of *vector* the bits of *value*."""
    part = _part_type(emit, vector, type_)
    whole = TYPES[f"u{type_.bits}"].dtype
    value = emit.let(value)
    for number, operand in enumerate(vector.parts):
        shifted = f"({value} >> {emit.names.constant(number * part.bits, whole)})" if number else value
        emit.set(operand, f"{shifted}.astype({emit.names.of(part.dtype)})", part)


def _part_type(emit: Emitter, vector: Vector, type_: Type) -> Type:
    part = TYPES.get(f"b{type_.bits // len(vector.parts)}")
    if part is None or type_.bits > 64:
        raise PtxError(emit.line, f"a value of type .{type_.name} has not {len(vector.parts)} parts")
    return part


@opcode("cvta")
def _convert_address(emit: Emitter, instruction: Instruction) -> None:
    result, value = instruction.operands
    space = next((each.partition("::")[0] for each in instruction.modifiers if each.partition("::")[0] in _WINDOWS), "")
    if not space:
        raise PtxError(instruction.line, f"{instruction} names no state space")
    if space == "param" and isinstance(value, Symbol) and emit.space(value) is Space.LOCAL:
        space = "local"
    code = emit.value(value, U64)
    window = emit.names.constant(_WINDOWS[space], np.dtype("u8"))
    if _WINDOWS[space]:
        code = f"{code} - {window}" if "to" in instruction.modifiers else f"{code} + {window}"
    emit.set(result, code, U64)


@opcode("isspacep")
def _is_in_space(emit: Emitter, instruction: Instruction) -> None:
    result, value = instruction.operands
    space = instruction.modifiers[0].partition("::")[0]
    top = f"({emit.value(value, U64)} >> {emit.names.constant(56, np.dtype('u8'))})"
    if space == "global":
        code = f"{top} < {emit.names.constant(PARAM >> 56, np.dtype('u8'))}"
    elif space in ("shared", "local", "param"):
        code = f"{top} == {emit.names.constant(_WINDOWS[space] >> 56, np.dtype('u8'))}"
    else:  # constants are in global memory, but no address of one is generic unless it was converted
        code = emit.names.constant(False, np.dtype(np.bool_))
    emit.set(result, code, PRED)
