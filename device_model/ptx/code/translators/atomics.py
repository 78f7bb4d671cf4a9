"""Atomic operations on memory."""

from device_model.ptx.code.emitter import Emitter
from device_model.ptx.code.opcodes import opcode
from device_model.ptx.code.translators.memory import space_of
from device_model.ptx.code.translators.shapes import type_of
from device_model.ptx.lanes.atomics import STEPS, atomic
from device_model.ptx.text.errors import PtxError
from device_model.ptx.text.syntax import Instruction, Operand, Vector
from device_model.ptx.text.types import Family


@opcode("atom", is_pure=False)
def _atom(emit: Emitter, instruction: Instruction) -> None:
    if len(instruction.operands) < 3:
        raise PtxError(instruction.line, f"{instruction} needs a result, an address and an operand")
    result, *operands = instruction.operands
    _change(emit, instruction, result, operands)


@opcode("red", results=0, is_pure=False)
def _red(emit: Emitter, instruction: Instruction) -> None:
    if "async" in instruction.modifiers:
        raise PtxError(instruction.line, f"{instruction} is not supported: clusters are not simulated")
    if len(instruction.operands) < 2:
        raise PtxError(instruction.line, f"{instruction} needs an address and an operand")
    _change(emit, instruction, None, list(instruction.operands))


def _change(emit: Emitter, instruction: Instruction, result: Operand | None, operands: list[Operand]) -> None:
    address, *given = operands
    operation = next((each for each in instruction.modifiers if each in STEPS), None)
    type_ = type_of(instruction)
    if operation is None or isinstance(given[0], Vector):
        raise PtxError(instruction.line, f"{instruction} is not supported")
    space = space_of(emit, instruction, address)
    is_wanted = result is not None and emit.is_needed(result)
    if type_.family is Family.BRAIN or type_.name.endswith("x2") or (type_.name == "b128"):
        raise PtxError(instruction.line, f"{instruction} is not supported")
    emit.note_line()
    codes = [emit.value(each, type_) for each in given[: 2 if operation == "cas" else 1]]
    call = emit.call(atomic, "at", repr(space), repr(operation), emit.address(address), *codes, wanted=is_wanted)
    if is_wanted:
        emit.set(result, call, type_)
    else:
        emit.do(call)
