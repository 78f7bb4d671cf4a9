"""Copies that do not wait, and the barriers in shared memory that wait for them."""

import numpy as np

from device_model.ptx.code.emitter import PRED, U32, U64, Emitter
from device_model.ptx.code.opcodes import opcode
from device_model.ptx.code.translators.memory import space_of
from device_model.ptx.code.translators.shapes import misfit, refuse
from device_model.ptx.lanes import copies, mbarriers, memory
from device_model.ptx.text.syntax import Instruction, Not, Number, Operand, Register
from device_model.ptx.text.types import TYPES

_B64 = TYPES["b64"]
_WAITS = ("commit_group", "wait_group", "wait_all")


@opcode("cp", results=0, is_pure=False)
def _copy(emit: Emitter, instruction: Instruction) -> None:
    kind = instruction.modifiers[:2]
    if instruction.modifiers[0] != "async":
        raise refuse(instruction)
    if any(each in _WAITS for each in instruction.modifiers):
        return  # the bytes are there
    if kind[1:] == ("mbarrier",):
        _arrive_behind_copies(emit, instruction)
    elif kind[1:] == ("bulk",):
        _bulk(emit, instruction)
    elif len(kind) == 2 and kind[1] in ("ca", "cg"):
        _few_bytes(emit, instruction)
    else:
        raise refuse(instruction)


def _few_bytes(emit: Emitter, instruction: Instruction) -> None:
    target, source, size, *more = instruction.operands
    if not isinstance(size, Number) or size.value not in (4, 8, 16):
        raise misfit(instruction, "it copies 4, 8 or 16 bytes")
    if any(each.endswith("cache_hint") for each in instruction.modifiers):
        more = more[:-1]  # a policy of caches
    given = ""
    if more and _is_predicate(more[0]):  # the source is not read
        whole, none = (emit.names.constant(each, U32.dtype) for each in (size.value, 0))
        given = emit.call(np.where, emit.value(more[0], PRED), none, whole)
    elif more:
        given = emit.value(more[0], U32)
    spaces = [each.partition("::")[0] for each in instruction.modifiers]
    if "shared" not in spaces or "global" not in spaces:
        raise misfit(instruction, "it copies from global to shared memory")
    emit.note_line()
    codes = [emit.address(target), emit.address(source), str(size.value), *([given] if given else [])]
    emit.do(emit.call(copies.copy, "at", repr("global"), repr("shared"), *codes))


def _is_predicate(operand: Operand) -> bool:
    return isinstance(operand, Not) or (isinstance(operand, Register) and operand.type is PRED)


def _bulk(emit: Emitter, instruction: Instruction) -> None:
    spaces = [
        each.partition("::")[0] for each in instruction.modifiers if each.partition("::")[0] in ("shared", "global")
    ]
    refused = {"tensor", "prefetch", "reduce", "multicast::cluster"} & {*instruction.modifiers}
    if refused or spaces not in (["shared", "global"], ["global", "shared"]):
        raise refuse(
            instruction, "of bulk copies only those between global memory and the shared memory of a block run"
        )
    target, source, size, *more = instruction.operands
    emit.note_line()
    codes = [emit.address(target), emit.address(source), emit.value(size, U32)]
    if any(each.startswith("mbarrier") for each in instruction.modifiers):
        codes.append(emit.address(more[0]))
    emit.do(emit.call(copies.copy_bulk, "at", repr(spaces[1]), repr(spaces[0]), *codes))


def _arrive_behind_copies(emit: Emitter, instruction: Instruction) -> None:
    if "noinc" not in instruction.modifiers:
        return  # one arrival more, and at once that arrival
    address = instruction.operands[0]
    space = space_of(emit, instruction, address)
    emit.note_line()
    emit.do(emit.call(mbarriers.arrive, "at", repr(space), emit.address(address), _one(emit)))


def _one(emit: Emitter) -> str:
    return emit.names.constant(1, U32.dtype)


def _results(instruction: Instruction) -> int:
    return int(instruction.modifiers[0] not in ("init", "inval", "expect_tx", "complete_tx"))


@opcode("mbarrier", results=_results, is_pure=False)
def _barrier(emit: Emitter, instruction: Instruction) -> None:
    kind = instruction.modifiers[0]
    operands = list(instruction.operands)
    if kind == "pending_count":
        emit.set(operands[0], emit.call(mbarriers.pending, emit.value(operands[1], _B64)), U32)
        return
    if kind not in ("init", "inval", "expect_tx", "complete_tx", "arrive", "arrive_drop", "test_wait", "try_wait"):
        raise refuse(instruction)
    result = operands.pop(0) if _results(instruction) else None
    space = space_of(emit, instruction, operands[0])
    if space not in ("", "shared"):
        raise misfit(instruction, "the barrier is in shared memory")
    address = emit.address(operands.pop(0))
    emit.note_line()
    if kind in ("test_wait", "try_wait"):
        _test(
            emit,
            instruction,
            result,
            operands,
            emit.call(memory.load, "at", repr(space), address, emit.names.of(_B64.dtype)),
        )
    elif kind in ("arrive", "arrive_drop"):
        _arrive(emit, instruction, result, operands, [repr(space), address])
    elif kind == "inval":
        emit.do(emit.call(memory.store, "at", repr(space), address, emit.names.constant(0, _B64.dtype)))
    elif kind == "init":
        new = emit.call(mbarriers.made, "at", emit.value(operands[0], U32))
        emit.do(emit.call(memory.store, "at", repr(space), address, new))
    else:
        change = mbarriers.expect_tx if kind == "expect_tx" else mbarriers.complete_tx
        emit.do(emit.call(change, "at", repr(space), address, emit.value(operands[0], U32)))


def _test(emit: Emitter, instruction: Instruction, result: Operand | None, operands: list[Operand], words: str) -> None:
    """Say whether a phase is over; a lane that waits for it asks again."""
    if "parity" in instruction.modifiers:
        code = emit.call(mbarriers.is_parity_over, words, emit.value(operands[0], U32))
    else:
        code = emit.call(mbarriers.is_over, words, emit.value(operands[0], U64))
    emit.set(result, code, PRED)


def _arrive(
    emit: Emitter, instruction: Instruction, result: Operand | None, operands: list[Operand], where: list[str]
) -> None:
    expects = "expect_tx" in instruction.modifiers
    count = emit.value(operands[0], U32) if operands and not expects else _one(emit)
    expected = [emit.value(operands[0], U32)] if expects else []
    options = {"drops": True} if instruction.modifiers[0] == "arrive_drop" else {}
    code = emit.call(mbarriers.arrive, "at", *where, count, *expected, **options)
    emit.set(result, code, _B64)
