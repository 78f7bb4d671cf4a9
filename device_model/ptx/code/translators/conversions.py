"""Conversions and comparisons."""

from device_model.ptx.code.emitter import PRED, Emitter
from device_model.ptx.code.opcodes import opcode
from device_model.ptx.code.translators.floats import is_seen, set_float
from device_model.ptx.code.translators.shapes import flags, is_whole, operands, refuse, rounding, type_of
from device_model.ptx.text.syntax import Instruction, Not, Operand, Pair, Register
from device_model.ptx.text.types import TYPES, Type
from device_model.ptx.values import comparisons, conversions, eighths, halves, packed

_INTEGRAL = ("rni", "rzi", "rmi", "rpi")
_COMPARISONS = frozenset((*comparisons.ORDERED, *comparisons.UNORDERED, "num", "nan"))
_LOGIC = {"and": "&", "or": "|", "xor": "^"}
_PAIRS = ("f16x2", "bf16x2")


@opcode("cvt")
def _convert(emit: Emitter, instruction: Instruction) -> None:
    if instruction.modifiers[0] == "pack":
        _pack(emit, instruction)
        return
    if any(each in eighths.KINDS for each in instruction.modifiers[-2:]):
        _eighths(emit, instruction)
        return
    to, source = (TYPES.get(each) for each in instruction.modifiers[-2:])
    if to is None or source is None:
        raise refuse(instruction)
    result, *given = instruction.operands
    if to.name in ("f16x2", "bf16x2") and len(given) == 2:
        codes = [emit.value(each, source) for each in given]
        options = {**rounding(instruction), **flags(instruction, "relu", "satfinite")}
        emit.set(result, emit.call(conversions.pair, *codes, repr(to.name), **options), to)
        return
    result, operand = operands(instruction, 2)
    code = emit.value(operand, source)
    if to.name == "tf32":
        options = {"rounding": next((each for each in ("rna", "rn", "rz") if each in instruction.modifiers), "rna")}
        emit.set(result, emit.call(conversions.to_tf32, code, **options, **flags(instruction, "relu", "satfinite")), to)
    elif is_whole(source):
        _from_integer(emit, instruction, result, code, to)
    elif is_whole(to):
        how = next((each for each in _INTEGRAL if each in instruction.modifiers), "rzi")
        call = emit.call(
            conversions.float_to_integer, code, repr(source.name), emit.names.of(to.dtype), rounding=how,
            **flags(instruction, "ftz"),
        )  # fmt: skip
        emit.set(result, call, to)
    else:
        _between_floats(emit, instruction, result, code, source, to)


def _eighths(emit: Emitter, instruction: Instruction) -> None:
    """Convert to or from pairs of floats of 8 bits."""
    to, source = instruction.modifiers[-2:]
    result, *given = instruction.operands
    options = flags(instruction, "relu")
    if to in eighths.KINDS and (source, len(given)) in (("f32", 2), ("f16x2", 1)):
        codes = [emit.value(each, TYPES[source]) for each in given]
        function = eighths.to_eighths if source == "f32" else eighths.halves_to_eighths
        emit.set(result, emit.call(function, *codes, repr(to), **options), TYPES["b16"])
    elif to == "f16x2" and len(given) == 1:
        code = emit.call(eighths.to_halves, emit.value(given[0], TYPES["b16"]), repr(source), **options)
        emit.set(result, code, TYPES[to])
    else:
        raise refuse(instruction)


def _pack(emit: Emitter, instruction: Instruction) -> None:
    """Put two integers, each clamped, into the lower part of a word, and the lower part of c above them."""
    _, saturates, to, source, *base = instruction.modifiers
    result, a, b, *c = instruction.operands
    if saturates != "sat" or to not in ("u16", "s16", "u8", "s8") or source != "s32" or len(base) != len(c):
        raise refuse(instruction)
    type_ = TYPES[to]
    narrow = emit.names.of(type_.dtype)
    codes = [emit.call(conversions.integer_to_integer, emit.value(each, TYPES["s32"]), narrow, sat=True)
             for each in (a, b)]  # fmt: skip
    bits, word = emit.names.of(TYPES[f"u{type_.bits}"].dtype), emit.names.of(TYPES["u32"].dtype)
    high, low = (emit.let(f"{code}.view({bits}).astype({word})") for code in codes)
    shift, twice = (emit.names.constant(each, TYPES["u32"].dtype) for each in (type_.bits, 2 * type_.bits))
    code = f"({high} << {shift}) | {low}"
    if c and type_.bits == 8:
        code = f"({emit.value(c[0], TYPES['u32'])} << {twice}) | {code}"
    emit.set(result, code, TYPES["u32"])


def _from_integer(emit: Emitter, instruction: Instruction, result: Operand, code: str, to: Type) -> None:
    if not is_whole(to):
        options = {**rounding(instruction), **flags(instruction, "sat")}
        emit.set(result, emit.call(conversions.integer_to_float, code, repr(to.name), **options), to)
    elif "sat" in instruction.modifiers:
        emit.set(result, emit.call(conversions.integer_to_integer, code, emit.names.of(to.dtype), sat=True), to)
    else:
        emit.set(result, f"{code}.astype({emit.names.of(to.dtype)})", to)


def _between_floats(
    emit: Emitter, instruction: Instruction, result: Operand, code: str, source: Type, to: Type
) -> None:
    how = next((each for each in _INTEGRAL if each in instruction.modifiers), None)
    options = {
        **({"rounding": how} if how else rounding(instruction)),
        **flags(instruction, "ftz", "sat", "relu", "satfinite"),
    }
    if (source.name, to.name) == ("f32", "f64") and not options and not is_seen(emit, result, to):
        emit.set(result, f"{code}.astype({emit.names.of(to.dtype)})", to)
        return
    call = emit.call(conversions.float_to_float, code, repr(source.name), repr(to.name), **options)
    if (source.name, to.name) in conversions.HANDED_ON:
        emit.set(result, call, to)
        return
    set_float(emit, result, call, to, *((code,) if source == to else ()))


@opcode("setp")
def _setp(emit: Emitter, instruction: Instruction) -> None:
    code, word, other = _compared(emit, instruction)
    result = instruction.operands[0]
    first, second = (result.first, result.second) if isinstance(result, Pair) else (result, None)
    code = emit.let(code)
    if type_of(instruction).name in _PAIRS:
        for place, each in enumerate((first, second)):
            own = f"{code}[..., {place}]"
            emit.set(each, own if word is None else f"{own} {_LOGIC[word]} {other}", PRED)
        return
    if word is not None and other is not None:
        sign = _LOGIC[word]
        emit.set(first, f"{code} {sign} {other}", PRED)
        if second is not None:
            emit.set(second, f"~{code} {sign} {other}", PRED)
        return
    emit.set(first, code, PRED)
    if second is not None:
        emit.set(second, f"~{code}", PRED)


@opcode("set")
def _set(emit: Emitter, instruction: Instruction) -> None:
    code, word, other = _compared(emit, instruction)
    is_pair = type_of(instruction).name in _PAIRS
    if word is not None:
        code = emit.call(comparisons.combine, code, f"{other}[..., None]" if is_pair else str(other), repr(word))
    to = TYPES.get(instruction.modifiers[-2])
    if to is None or (to.name in _PAIRS and not is_pair) or (is_pair and to.bits != 32):
        raise refuse(instruction)
    if is_pair and is_whole(to):
        halves_ = emit.call(comparisons.as_value, code, emit.names.of(TYPES["u16"].dtype))
        emit.set(instruction.operands[0], emit.call(packed.word_of, halves_), to)
    elif to.name in ("f16", "bf16", *_PAIRS):
        emit.set(instruction.operands[0], emit.call(halves.as_value, code, repr(to.name)), to)
    else:
        emit.set(instruction.operands[0], emit.call(comparisons.as_value, code, emit.names.of(to.dtype)), to)


def _compared(emit: Emitter, instruction: Instruction) -> tuple[str, str | None, str | None]:
    """Return the code of a comparison, and the operation and the predicate that it is combined with."""
    type_ = type_of(instruction)
    operator = next((each for each in instruction.modifiers if each in _COMPARISONS), None)
    word = next((each for each in instruction.modifiers if each in _LOGIC), None)
    _, a, b, *more = instruction.operands
    if operator is None or len(more) != (word is not None) or type_.name in ("s16x2", "u16x2"):
        raise refuse(instruction)
    x, y = emit.value(a, type_), emit.value(b, type_)
    options = flags(instruction, "ftz")
    if type_.name in ("f16", "bf16", *_PAIRS):
        code = emit.call(halves.compare, x, y, repr(type_.name), repr(operator), **options)
    elif is_whole(type_) and operator in _SIGNS:
        code = f"{x} {_SIGNS[operator]} {y}"
    elif type_.name in ("f32", "f64") and operator in _FLOAT_SIGNS and not options:
        code = f"{x} {_FLOAT_SIGNS[operator]} {y}"
    else:
        code = emit.call(comparisons.compare, x, y, repr(operator), **options)
    if word is None:
        return code, None, None
    predicate = more[0]
    assert isinstance(predicate, Register | Not), "the operand is a predicate"
    return emit.let(code), word, emit.let(emit.value(predicate, PRED))


_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<", "ls": "<=", "hi": ">",
          "hs": ">="}  # fmt: skip
_FLOAT_SIGNS = {"eq": "==", "neu": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
