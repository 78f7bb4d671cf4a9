"""Calls of functions that the card has: printf, assert, and the one that sets a condition of a graph."""

from device_model.ptx.code.calls import call_parts
from device_model.ptx.code.emitter import U32, U64, Emitter
from device_model.ptx.code.flow import callee
from device_model.ptx.code.opcodes import opcode
from device_model.ptx.lanes.conditions import set_condition
from device_model.ptx.lanes.memory import load, store
from device_model.ptx.lanes.printing import assert_fail, vprintf
from device_model.ptx.text.errors import PtxError, Refusal
from device_model.ptx.text.syntax import Instruction, Symbol
from device_model.ptx.text.types import TYPES, Type

_S32 = TYPES["s32"]


@opcode("call", results=0, is_pure=False)
def _call(emit: Emitter, instruction: Instruction) -> None:
    name = callee(instruction)
    results, arguments = call_parts(instruction)
    emit.note_line()
    if name == "vprintf" and len(arguments) == 2:
        text, packed = (_argument(emit, each, U64) for each in arguments)
        count = emit.let(emit.call(vprintf, "at", text, packed))
        for result in results:
            address = emit.names.constant(emit.at(Symbol(result)), U64.dtype)
            emit.do(emit.call(store, "at", repr("local"), address, count))
    elif name == "__assertfail" and len(arguments) == 5:
        types = (U64, U64, U32, U64)
        codes = [_argument(emit, each, type_) for each, type_ in zip(arguments[:4], types, strict=True)]
        emit.do(emit.call(assert_fail, "at", *codes))
    elif name == "cudaGraphSetConditional" and len(arguments) == 2:
        number, value = (_argument(emit, each, type_) for each, type_ in zip(arguments, (U64, U32), strict=True))
        emit.do(emit.call(set_condition, "at", number, value))
    else:
        what, remedy = f"{name} is not supported in kernels", "allocate the memory on the host"
        raise PtxError(instruction.line, what, remedy, kind=Refusal.NOT_SIMULATED)


def _argument(emit: Emitter, name: str, type_: Type) -> str:
    address = emit.names.constant(emit.at(Symbol(name)), U64.dtype)
    return emit.let(emit.call(load, "at", repr("local"), address, emit.names.of(type_.dtype)))
