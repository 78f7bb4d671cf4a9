"""SIMD instructions of video, for whole words: compilers make them of intrinsics such as `__vsadu4`."""

from device_model.ptx.code.emitter import U32, Emitter
from device_model.ptx.code.opcodes import opcode
from device_model.ptx.code.translators.shapes import flags, operands
from device_model.ptx.text.syntax import Instruction
from device_model.ptx.values import video

_NAMES = [f"{name}{lanes}" for name in (*video.OPERATIONS, "vset") for lanes in (2, 4)]


@opcode(*_NAMES)
def _simd(emit: Emitter, instruction: Instruction) -> None:
    result, *given = operands(instruction, 4)
    operation, nbytes = instruction.name[:-1], 4 // int(instruction.name[-1])
    types = [each for each in instruction.modifiers if each in ("u32", "s32")]
    if operation == "vset":
        operation = next(each for each in instruction.modifiers if each in video.COMPARISONS)
        types.insert(0, "u32")
    dtypes = repr(tuple(f"{type_[0].replace('s', 'i')}{nbytes}" for type_ in types))
    codes = [emit.value(each, U32) for each in given]
    code = emit.call(video.simd, *codes, repr(operation), dtypes, **flags(instruction, "sat", "add"))
    emit.set(result, code, U32)
