"""Atomic operations on memory."""

from device_model.ptx.code.emitter import U64, Emitter
from device_model.ptx.code.opcodes import opcode
from device_model.ptx.code.translators.memory import space_of
from device_model.ptx.code.translators.shapes import misfit, refuse, type_of
from device_model.ptx.lanes.atomics import STEPS, atomic
from device_model.ptx.lanes.pairs import KINDS, atomic_halves, check_aligned
from device_model.ptx.text.errors import PtxError
from device_model.ptx.text.syntax import Instruction, Operand, Vector
from device_model.ptx.text.types import Family, Type

_VECTORS = {"v2", "v4", "v8"}


@opcode("atom", is_pure=False)
def _atom(emit: Emitter, instruction: Instruction) -> None:
    if len(instruction.operands) < 3:
        raise PtxError(instruction.line, f"{instruction} needs a result, an address and an operand")
    result, *operands = instruction.operands
    _change(emit, instruction, result, operands)


@opcode("red", results=0, is_pure=False)
def _red(emit: Emitter, instruction: Instruction) -> None:
    if "async" in instruction.modifiers:
        raise refuse(instruction, "clusters are not simulated")
    if len(instruction.operands) < 2:
        raise PtxError(instruction.line, f"{instruction} needs an address and an operand")
    _change(emit, instruction, None, list(instruction.operands))


def _change(emit: Emitter, instruction: Instruction, result: Operand | None, operands: list[Operand]) -> None:
    address, *given = operands
    operation = next((each for each in instruction.modifiers if each in STEPS), "")
    type_ = type_of(instruction)
    count = next((int(each[1:]) for each in instruction.modifiers if each in _VECTORS), 1)
    _check(instruction, operation, type_, count)
    space = space_of(emit, instruction, address)
    results = result.parts if isinstance(result, Vector) else (result,)
    parts = [emit.parts(each, type_, count) if count > 1 else [emit.value(each, type_)]
             for each in given[: 2 if operation == "cas" else 1]]  # fmt: skip
    if result is not None and len(results) != count:
        raise misfit(instruction, f"it has {count} results")
    emit.note_line()
    where = emit.let(emit.address(address))
    if count > 1:
        emit.do(emit.call(check_aligned, "at", where, str(count * type_.nbytes)))
    for number in range(count):
        codes = [each[number] for each in parts]
        place = f"({where} + {emit.names.constant(number * type_.nbytes, U64.dtype)})" if number else where
        own = results[number] if result is not None else None
        _change_one(emit, own, type_, operation, [repr(space), place, *codes])


def _change_one(emit: Emitter, result: Operand | None, type_: Type, operation: str, codes: list[str]) -> None:
    is_wanted = result is not None and emit.is_needed(result)
    space, place, *given = codes
    if type_.name in KINDS and operation != "exch":
        call = emit.call(atomic_halves, "at", space, repr(operation), place, *given, repr(type_.name), wanted=is_wanted)
    else:
        call = emit.call(atomic, "at", space, repr(operation), place, *given, wanted=is_wanted)
    if is_wanted:
        emit.set(result, call, type_)
    else:
        emit.do(call)


def _check(instruction: Instruction, operation: str, type_: Type, count: int) -> None:
    """Refuse what no card has."""
    if not operation:
        raise refuse(instruction)
    if type_.name in KINDS:
        is_there = operation == "add" or (operation in ("min", "max") and (count > 1 or type_.name.endswith("x2")))
    elif type_.family is Family.FLOAT:
        is_there = operation == "add"
    elif type_.name == "b128":
        is_there = operation in ("cas", "exch")
    else:
        is_there = type_.family in (Family.BITS, Family.UNSIGNED, Family.SIGNED)
    if not is_there or (count > 1 and type_.name not in (*KINDS, "f32")):
        raise refuse(instruction)
