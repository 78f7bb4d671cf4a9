"""Loads, stores, and what orders them or moves caches."""

from device_model.ptx.code.emitter import U64, Emitter
from device_model.ptx.code.opcodes import opcode
from device_model.ptx.code.translators.shapes import refuse, type_of
from device_model.ptx.lanes import memory
from device_model.ptx.text.errors import PtxError
from device_model.ptx.text.syntax import Address, Instruction, Operand, Space, Symbol, Vector

_SPACES = {"global", "shared", "local", "param", "const"}


def space_of(emit: Emitter, instruction: Instruction, operand: Operand) -> str:
    """Return the state space of an access: "" for generic addresses, "global" for constants, too."""
    for modifier in instruction.modifiers:
        space, _, part = modifier.partition("::")
        if space in _SPACES:
            if part == "cluster" or part not in ("", "cta", "entry", "func"):
                raise refuse(instruction, "clusters are not simulated")
            if space == "param" and isinstance(operand, Address) and isinstance(operand.base, Symbol):
                return "local" if emit.space(operand.base) is Space.LOCAL else "param"
            if space == "param" and not emit.block.function.is_entry:
                return "local"
            return "global" if space == "const" else space
    if isinstance(operand, Address) and isinstance(operand.base, Symbol):
        raise PtxError(
            instruction.line, f"{instruction} has the name of a variable and no state space", "write its space"
        )
    return ""


def _parts(instruction: Instruction) -> int:
    """Return the length of the vectors that are moved; 1 if there are none."""
    return next((int(each[1:]) for each in instruction.modifiers if each in ("v2", "v4", "v8")), 1)


@opcode("ld", "ldu", is_pure=False)
def _load(emit: Emitter, instruction: Instruction) -> None:
    if len(instruction.operands) < 2:
        raise PtxError(instruction.line, f"{instruction} needs a result and an address")
    result, source = instruction.operands[:2]
    type_, count = type_of(instruction), _parts(instruction)
    space = space_of(emit, instruction, source)
    emit.note_line()
    load = emit.call(
        memory.load, "at", repr(space), emit.address(source), emit.names.of(type_.dtype), *([str(count)] * (count > 1))
    )
    if count == 1 and not isinstance(result, Vector):
        emit.set(result, load, type_)
        return
    loaded = emit.let(load)
    emit.set_parts(result, [f"{loaded}[{number}]" for number in range(count)] if count > 1 else [loaded], type_)


@opcode("st", results=0, is_pure=False)
def _store(emit: Emitter, instruction: Instruction) -> None:
    if len(instruction.operands) < 2:
        raise PtxError(instruction.line, f"{instruction} needs an address and a value")
    target, value = instruction.operands[:2]
    type_, count = type_of(instruction), _parts(instruction)
    space = space_of(emit, instruction, target)
    if space == "param":
        raise PtxError(instruction.line, f"{instruction}: the parameters of a kernel cannot be written")
    emit.note_line()
    values = emit.parts(value, type_, count) if isinstance(value, Vector) else [emit.value(value, type_)]
    emit.do(emit.call(memory.store, "at", repr(space), emit.address(target), *values))


@opcode("membar", "fence", results=0, is_pure=False)
def _fence(emit: Emitter, _: Instruction) -> None:
    emit.note_line()
    emit.do(emit.call(memory.fence, "at"))


@opcode("prefetch", "prefetchu", "discard", "applypriority", "pmevent", results=0)
def _cache(emit: Emitter, instruction: Instruction) -> None:
    """Do nothing: caches have no bytes of their own."""


@opcode("griddepcontrol", results=0, is_pure=False)
def _order_of_launches(emit: Emitter, instruction: Instruction) -> None:
    """Do nothing: a launch begins when the one before it has ended."""


@opcode("createpolicy")
def _policy(emit: Emitter, instruction: Instruction) -> None:
    """Give a policy of caches, which nobody looks at."""
    emit.set(instruction.operands[0], emit.names.constant(0, U64.dtype), U64)
