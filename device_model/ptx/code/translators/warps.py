"""Exchanges, votes, matches and reductions of the lanes of a warp."""

from device_model.ptx.code.emitter import PRED, U32, Emitter
from device_model.ptx.code.opcodes import opcode
from device_model.ptx.code.translators.shapes import type_of
from device_model.ptx.lanes import warps
from device_model.ptx.text.errors import PtxError, Refusal
from device_model.ptx.text.syntax import Instruction, Operand, Pair
from device_model.ptx.text.types import TYPES

_B32 = TYPES["b32"]
_EVERYBODY = 0xFFFFFFFF


def _members(emit: Emitter, instruction: Instruction, operands: int) -> str:
    """Return the code of the mask of lanes: the last operand, or all lanes in the form without sync."""
    if "sync" in instruction.modifiers and len(instruction.operands) == operands + 1:
        return emit.value(instruction.operands[-1], U32)
    if "sync" in instruction.modifiers or len(instruction.operands) != operands:
        raise PtxError(instruction.line, f"{instruction} with {len(instruction.operands)} operands")
    return emit.names.constant(_EVERYBODY, U32.dtype)


def _mode(instruction: Instruction, *modes: str) -> str:
    mode = next((each for each in modes if each in instruction.modifiers), None)
    if mode is None:
        raise PtxError(instruction.line, f"{instruction} is none of {', '.join(modes)}")
    return mode


def _two(emit: Emitter, result: Operand, code: str, type_name: str) -> None:
    """Give *result*, a register or two with a bar between them, the two parts of what *code* returns."""
    both = emit.let(code)
    first, second = (result.first, result.second) if isinstance(result, Pair) else (result, None)
    emit.set(first, f"{both}[0]", TYPES[type_name])
    if second is not None:
        emit.set(second, f"{both}[1]", PRED)


@opcode("shfl", is_pure=False)
def _shuffle(emit: Emitter, instruction: Instruction) -> None:
    _members(emit, instruction, 4)
    result, value, by, limits = instruction.operands[:4]
    mode = _mode(instruction, "up", "down", "bfly", "idx")
    code = emit.call(
        warps.shuffle, "at", repr(mode), emit.value(value, _B32), emit.value(by, U32), emit.value(limits, U32)
    )
    _two(emit, result, code, "b32")


@opcode("vote", is_pure=False)
def _vote(emit: Emitter, instruction: Instruction) -> None:
    members = _members(emit, instruction, 2)
    result, predicate = instruction.operands[:2]
    mode = _mode(instruction, "ballot", "all", "any", "uni")
    given = emit.value(predicate, PRED)
    if mode == "ballot":
        emit.set(result, emit.call(warps.ballot, "at", given, members), _B32)
    else:
        emit.set(result, emit.call(warps.vote, "at", repr(mode), given, members), PRED)


@opcode("match", is_pure=False)
def _match(emit: Emitter, instruction: Instruction) -> None:
    members = _members(emit, instruction, 2)
    result, value = instruction.operands[:2]
    given = emit.value(value, type_of(instruction))
    if _mode(instruction, "any", "all") == "any":
        emit.set(result, emit.call(warps.match, "at", given, members), _B32)
    else:
        _two(emit, result, emit.call(warps.match_all, "at", given, members), "b32")


@opcode("redux", is_pure=False)
def _reduce(emit: Emitter, instruction: Instruction) -> None:
    members = _members(emit, instruction, 2)
    result, value = instruction.operands[:2]
    type_ = type_of(instruction)
    if type_.name not in ("u32", "s32", "b32"):
        what = f"{instruction} is not supported: it needs a card after sm_90"
        raise PtxError(instruction.line, what, kind=Refusal.NEWER_TARGET)
    mode = _mode(instruction, "add", "min", "max", "and", "or", "xor")
    emit.set(result, emit.call(warps.reduce, "at", repr(mode), emit.value(value, type_), members), type_)


@opcode("activemask", is_pure=False)
def _active(emit: Emitter, instruction: Instruction) -> None:
    emit.set(instruction.operands[0], emit.call(warps.active, "at"), _B32)


@opcode("elect", is_pure=False)
def _elect(emit: Emitter, instruction: Instruction) -> None:
    members = _members(emit, instruction, 1)
    _two(emit, instruction.operands[0], emit.call(warps.elect, "at", members), "b32")
