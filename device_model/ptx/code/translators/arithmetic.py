"""Integers, logic and floats."""

import numpy as np

from device_model.ptx.code.emitter import PRED, U32, Emitter
from device_model.ptx.code.opcodes import opcode
from device_model.ptx.code.translators.memory import type_of
from device_model.ptx.text.syntax import Instruction, Pair
from device_model.ptx.text.types import TYPES


@opcode("add", "sub")
def _add(emit: Emitter, instruction: Instruction) -> None:
    result, a, b = instruction.operands
    type_ = type_of(instruction)
    sign = "+" if instruction.name == "add" else "-"
    emit.set(result, f"{emit.value(a, type_)} {sign} {emit.value(b, type_)}", type_)


@opcode("mul")
def _mul(emit: Emitter, instruction: Instruction) -> None:
    result, a, b = instruction.operands
    type_ = type_of(instruction)
    if "wide" in instruction.modifiers:
        wide = TYPES[f"{type_.family.value}{2 * type_.bits}"]
        code = f"np_multiply({emit.value(a, type_)}, {emit.value(b, type_)}, dtype={emit.names.of(wide.dtype)})"
        emit.names.values["np_multiply"] = np.multiply
        emit.set(result, code, wide)
    else:
        emit.set(result, f"{emit.value(a, type_)} * {emit.value(b, type_)}", type_)


@opcode("mad", "fma")
def _mad(emit: Emitter, instruction: Instruction) -> None:
    result, a, b, c = instruction.operands
    type_ = type_of(instruction)
    emit.set(result, f"{emit.value(a, type_)} * {emit.value(b, type_)} + {emit.value(c, type_)}", type_)


@opcode("shl")
def _shl(emit: Emitter, instruction: Instruction) -> None:
    result, a, b = instruction.operands
    type_ = type_of(instruction)
    emit.set(result, f"{emit.value(a, type_)} << {emit.value(b, U32)}.astype({emit.names.of(type_.dtype)})", type_)


@opcode("and", "or", "xor")
def _logic(emit: Emitter, instruction: Instruction) -> None:
    result, a, b = instruction.operands
    type_ = type_of(instruction)
    sign = {"and": "&", "or": "|", "xor": "^"}[instruction.name]
    emit.set(result, f"{emit.value(a, type_)} {sign} {emit.value(b, type_)}", type_)


_COMPARE = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "lo": "<",
    "ls": "<=",
    "hi": ">",
    "hs": ">=",
}


@opcode("setp")
def _setp(emit: Emitter, instruction: Instruction) -> None:
    result, a, b = instruction.operands
    type_ = type_of(instruction)
    code = emit.let(f"{emit.value(a, type_)} {_COMPARE[instruction.modifiers[0]]} {emit.value(b, type_)}")
    if isinstance(result, Pair):
        emit.set(result.first, code, PRED)
        emit.set(result.second, f"~{code}", PRED)
    else:
        emit.set(result, code, PRED)

