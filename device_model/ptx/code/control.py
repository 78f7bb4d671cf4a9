"""How blocks end: jumps, calls, barriers and stops."""

from typing import TYPE_CHECKING, Any

import numpy as np

from device_model.ptx.code.emitter import PRED, U32, U64, Emitter
from device_model.ptx.code.flow import Block, pointer_of
from device_model.ptx.code.opcodes import opcode, opcode_of
from device_model.ptx.lanes import ends
from device_model.ptx.lanes.clocks import sleep
from device_model.ptx.lanes.group import Array, Lanes
from device_model.ptx.lanes.program import End
from device_model.ptx.text.errors import PtxError
from device_model.ptx.text.syntax import Instruction, Operand, Register, Symbol
from device_model.ptx.text.types import TYPES

if TYPE_CHECKING:
    from device_model.ptx.code.compiler import Compiler

_S64 = TYPES["s64"]


def end_of(compiler: "Compiler", emit: Emitter, block: Block) -> tuple[End, str | None]:
    """Return how *block* ends, and the code of what it returns for that."""
    last = block.last
    then = -1 if block.then is None else block.then
    if last is None and block.then is not None:
        return ends.Goto(then), None
    if last is None:
        return _return(compiler, block, None)
    emit.line = last.line
    guard = None
    if last.guard is not None:
        register, is_turned = last.guard
        guard = emit.let(("~" if is_turned else "") + emit.value(register, PRED))
    elif last.name not in ("bra", "brx", "ret", "exit", "trap", "brkpt", "call") and block.then is None:
        raise PtxError(last.line, f"the function ends behind {last}")
    match last.name:
        case "bra":
            target = compiler.target(block, last)
            return (ends.Goto(target), None) if guard is None else (ends.Branch(target, then), guard)
        case "brx":
            places = dict(enumerate(compiler.targets(block, last)))
            end = ends.Indexed(places, "brx.idx has no label for its index", last.line)
            return end, emit.value(last.operands[0], U32)
        case "exit":
            return ends.Exit(then), guard
        case "ret":
            return _return(compiler, block, guard)
        case "trap" | "brkpt":
            return ends.Trap(then, last.name, last.line), guard
        case "call":
            return _call(compiler, emit, block, last)
        case "nanosleep":
            opcode_of(last).translate(emit, last)
            return ends.Sleep(then), None
    return _barrier(emit, last, then)


def _return(compiler: "Compiler", block: Block, guard: str | None) -> tuple[End, str | None]:
    function = block.function
    then = -1 if block.then is None else block.then
    if function.is_entry:
        return ends.Exit(then), guard
    assert guard is None, "a return that only some lanes make is jumped over"
    return ends.Return(), f"at.get({compiler.returns[function.name]})"


def _call(compiler: "Compiler", emit: Emitter, block: Block, call: Instruction) -> tuple[End, str | None]:
    then = -1 if block.then is None else block.then
    names, pointer = compiler.targets_of_call(block, call), pointer_of(call)
    if not names and pointer is None:
        opcode_of(call).translate(emit, call)
        return ends.Goto(then), None
    for name in names:
        emit.put(compiler.returns[name], emit.names.constant(then, _S64.dtype))
    if pointer is None:
        return ends.Goto(compiler.first[names[0]]), None
    places = {compiler.address(block.function.name, Symbol(name), call.line): compiler.first[name] for name in names}
    what = "a call of an address that no function has that fits it"
    return ends.Indexed(places, what, call.line), emit.value(pointer, U64)


def _barrier(emit: Emitter, barrier: Instruction, then: int) -> tuple[End, str | None]:
    modifiers = [each for each in barrier.modifiers if each not in ("cta", "aligned", "all")]
    operands = list(barrier.operands)
    kind = modifiers[0] if modifiers else ""
    if kind == "red":
        return _reduction(emit, barrier, modifiers, operands, then)
    if kind not in ("sync", "arrive") or not 1 <= len(operands) <= 2:
        raise PtxError(barrier.line, f"{barrier} with {len(operands)} operands is no barrier")
    if kind == "arrive" and len(operands) == 1:
        raise PtxError(barrier.line, f"{barrier} needs a number of threads")
    emit.note_line()
    number, *counts = (emit.value(each, U32) for each in operands)
    end = ends.Barrier(then, arrives=kind == "arrive")
    return end, f"({number}, {counts[0] if counts else None}, None, None)"


def _reduction(
    emit: Emitter, barrier: Instruction, modifiers: list[str], operands: list[Operand], then: int
) -> tuple[End, str | None]:
    operation = modifiers[1]
    if operation not in ("popc", "and", "or") or not 3 <= len(operands) <= 4 or not isinstance(operands[0], Register):
        raise PtxError(barrier.line, f"{barrier} is no reduction at a barrier")
    result, number, *counts, predicate = operands
    assert isinstance(result, Register)
    reduce = Reduction(emit.kernel.number(emit.block, result), operation, result.type.dtype)
    name = f"r{len(emit.names.values)}"  # a line may have several
    emit.names.values[name] = reduce
    emit.note_line()
    count = emit.value(counts[0], U32) if counts else "None"
    return ends.Barrier(then), f"({emit.value(number, U32)}, {count}, {emit.value(predicate, PRED)}, {name})"


class Reduction:
    """Sets a register to the result of a reduction at a barrier."""

    __slots__ = ("dtype", "number", "operation")

    def __init__(self, number: int, operation: str, dtype: np.dtype[Any]) -> None:
        self.number = number
        self.operation = operation
        self.dtype = dtype

    def __call__(self, lanes: Lanes, true: Array, count: Array) -> None:
        """Set the register of *lanes*, of whose blocks *true* of *count* lanes gave true."""
        value: Array = true
        if self.operation != "popc":
            value = true == count if self.operation == "and" else true > 0
        lanes.put(self.number, np.broadcast_to(value.astype(self.dtype), lanes.shape))


@opcode("bra", "brx", "ret", "exit", "trap", "brkpt", results=0, is_pure=False)
def _end(emit: Emitter, instruction: Instruction) -> None:
    """Do nothing: the block ends with it."""


@opcode("bar", "barrier", results=lambda each: int("red" in each.modifiers), is_pure=False)
def _meeting(emit: Emitter, instruction: Instruction) -> None:
    """Do nothing: lanes have met before, and what they stored is seen."""


@opcode("nanosleep", results=0, is_pure=False)
def _sleep(emit: Emitter, instruction: Instruction) -> None:
    emit.do(emit.call(sleep, "at", emit.value(instruction.operands[0], U32)))
