"""Products of matrices by tensor cores, and the moves of such matrices."""

import re

from device_model.ptx.code.emitter import U64, Emitter
from device_model.ptx.code.opcodes import opcode
from device_model.ptx.code.translators.memory import space_of
from device_model.ptx.code.translators.shapes import flags, misfit, operands, refuse
from device_model.ptx.lanes import tensor, tiles
from device_model.ptx.text.syntax import Instruction, Operand, Vector
from device_model.ptx.text.types import TYPES, Type
from device_model.sm.fragments import Layout

_B32 = TYPES["b32"]
_KINDS = {"f16": "float16", "bf16": "bfloat16", "tf32": "tfloat32", "s8": "int8", "u8": "uint8", "f64": "float64"}
_SUMS = {"f16": "float16", "f32": "float32", "s32": "int32", "f64": "float64"}
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
_MATRICES = {"x1": 1, "x2": 2, "x4": 4}
_OF_WMMA = {"m16n16k16": ("f16", "bf16", "s8", "u8"), "m32n8k16": ("f16", "bf16", "s8", "u8"),
            "m8n32k16": ("f16", "bf16", "s8", "u8"), "m16n16k8": ("tf32",), "m8n8k4": ("f64",)}  # fmt: skip
_SUMS_OF = {"f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "s8": ("s32",), "u8": ("s32",), "f64": ("f64",)}
_SIDES = {"a": (0, 2), "b": (2, 1), "c": (0, 1), "d": (0, 1)}  # rows and columns, among m, n and k


def _register_type(name: str) -> Type:
    """Return the type of the registers that hold elements of a type."""
    return TYPES[name] if name in ("f32", "s32", "f64") else _B32


def _registers(emit: Emitter, operand: Operand, name: str, count: int | None, instruction: Instruction) -> str:
    """Return the code of the registers of a matrix as a tuple."""
    parts = operand.parts if isinstance(operand, Vector) else (operand,)
    if count is not None and len(parts) != count:
        raise misfit(instruction, f"a matrix of .{name} has {count} registers, not {len(parts)}")
    return f"({', '.join(emit.value(part, _register_type(name)) for part in parts)},)"


def _set(emit: Emitter, result: Operand, code: str, type_: Type) -> None:
    """Give the registers of a matrix what *code* returns, which is a list."""
    made = emit.let(code)
    parts = result.parts if isinstance(result, Vector) else (result,)
    for number, part in enumerate(parts):
        emit.set(part, f"{made}[{number}]", type_)


def _count(layout: Layout, name: str) -> int:
    """Return how many registers a matrix of this layout has."""
    size = TYPES[name].nbytes
    return layout.places * size // _register_type(name).nbytes


def _kind_names(instruction: Instruction, a: str, b: str, sums: tuple[str, ...]) -> None:
    """Refuse types that are not multiplied together, or not summed so."""
    whole = ("s8", "u8")
    if a not in _KINDS or (a != b and not (a in whole and b in whole)) or any(each not in _SUMS_OF[a] for each in sums):
        raise refuse(instruction, "these types are not multiplied here")


@opcode("mma", is_pure=False)
def _mma(emit: Emitter, instruction: Instruction) -> None:
    result, *given = operands(instruction, 4)
    modifiers = instruction.modifiers
    d, a, b, c = modifiers[-4:] if len(modifiers) > 6 else ("",) * 4
    shape = next((each for each in modifiers if _SHAPE.fullmatch(each)), "")
    _kind_names(instruction, a, b, (c, d))
    form = tensor.FORMS.get((shape, tensor.nbytes(_KINDS[a])))
    if form is None or c != d or tuple(each for each in modifiers if each in ("row", "col")) != ("row", "col"):
        raise refuse(instruction, "this shape is not multiplied here")
    codes = [
        _registers(emit, operand, name, _count(layout, name), instruction)
        for operand, layout, name in zip(given, form, (a, b, c), strict=True)
    ]
    kinds = repr((_KINDS[a], _KINDS[b]))
    code = emit.call(tensor.mma, "at", repr(shape), kinds, *codes, repr(_SUMS[c]), **flags(instruction, "satfinite"))
    _set(emit, result, code, _register_type(d))


@opcode("wmma", results=lambda each: int("store" not in each.modifiers), is_pure=False)
def _wmma(emit: Emitter, instruction: Instruction) -> None:
    shape = next((each for each in instruction.modifiers if each in _OF_WMMA), "")
    match = _SHAPE.fullmatch(shape)
    if match is None:
        raise refuse(instruction, "this shape is not multiplied here")
    sizes = int(match[1]), int(match[2]), int(match[3])
    if instruction.modifiers[0] == "mma":
        _wmma_product(emit, instruction, shape, sizes)
    else:
        _wmma_move(emit, instruction, sizes)


def _wmma_product(emit: Emitter, instruction: Instruction, shape: str, sizes: tuple[int, int, int]) -> None:
    names = [each for each in instruction.modifiers if each in TYPES]
    result, *given = operands(instruction, 4)
    d, a, b, c = names if len(names) == 4 else (names[0], "f16", "f16", names[-1])
    _kind_names(instruction, a, b, (c, d))
    if a not in _OF_WMMA[shape] or (d, c) == ("f16", "f32"):
        raise refuse(instruction, "these types are not multiplied here")
    codes = [_registers(emit, each, name, None, instruction) for each, name in zip(given, (a, b, c), strict=True)]
    kinds = repr((_KINDS[a], _KINDS[b]))
    sums = repr(_SUMS[c]), repr(_SUMS[d])
    options = flags(instruction, "satfinite")
    _set(emit, result, emit.call(tensor.wmma, "at", repr(sizes), kinds, *codes, *sums, **options), _register_type(d))


def _wmma_move(emit: Emitter, instruction: Instruction, sizes: tuple[int, int, int]) -> None:
    kind, side = instruction.modifiers[:2]
    name = instruction.modifiers[-1]
    if kind not in ("load", "store") or side not in _SIDES or name not in {*_KINDS, *_SUMS}:
        raise refuse(instruction)
    first, second, *more = instruction.operands
    registers, address = (first, second) if kind == "load" else (second, first)
    matrix = tuple(sizes[each] for each in _SIDES[side])
    is_row = "row" in instruction.modifiers
    space = space_of(emit, instruction, address)
    where = emit.address(address)
    if more:
        stride = f"{emit.value(more[0], _B32)}.astype({emit.names.of(U64.dtype)})"
    else:
        stride = emit.names.constant(matrix[1] if is_row else matrix[0], U64.dtype)
    dtype = emit.names.of((_B32 if name == "tf32" else TYPES[name]).dtype)
    emit.note_line()
    if kind == "load":
        count = len(registers.parts) if isinstance(registers, Vector) else 1

        code = emit.call(
            tiles.wmma_load, "at", repr(space), where, stride, repr(matrix), dtype, str(count), is_row=is_row
        )
        _set(emit, registers, code, _register_type(name))
    else:
        given = _registers(emit, registers, name, None, instruction)

        emit.do(
            emit.call(tiles.wmma_store, "at", repr(space), where, stride, repr(matrix), dtype, given, is_row=is_row)
        )


@opcode("ldmatrix", is_pure=False)
def _load_matrix(emit: Emitter, instruction: Instruction) -> None:
    result, address = operands(instruction, 2)
    count = _matrices(instruction)
    space = repr(space_of(emit, instruction, address))
    where = emit.address(address)
    emit.note_line()
    code = emit.call(tiles.ldmatrix, "at", space, where, str(count), transposed="trans" in instruction.modifiers)
    parts = result.parts if isinstance(result, Vector) else (result,)
    if len(parts) != count:
        raise misfit(instruction, f"it has {count} registers, not {len(parts)}")
    _set(emit, result, code, _B32)


@opcode("stmatrix", results=0, is_pure=False)
def _store_matrix(emit: Emitter, instruction: Instruction) -> None:
    address, registers = operands(instruction, 2)
    given = _registers(emit, registers, "b16", _matrices(instruction), instruction)
    space = repr(space_of(emit, instruction, address))
    where = emit.address(address)
    emit.note_line()
    emit.do(emit.call(tiles.stmatrix, "at", space, where, given, transposed="trans" in instruction.modifiers))


def _matrices(instruction: Instruction) -> int:
    """Return how many matrices are moved."""
    count = next((_MATRICES[each] for each in instruction.modifiers if each in _MATRICES), 0)
    if not count or "m8n8" not in instruction.modifiers or instruction.modifiers[-1] != "b16":
        raise refuse(instruction, "it moves 1, 2 or 4 matrices of .m8n8 and .b16")
    return count


@opcode("movmatrix", is_pure=False)
def _move_matrix(emit: Emitter, instruction: Instruction) -> None:
    result, register = operands(instruction, 2)
    if "trans" not in instruction.modifiers:
        raise refuse(instruction)
    emit.set(result, emit.call(tiles.movmatrix, "at", emit.value(register, _B32)), _B32)
