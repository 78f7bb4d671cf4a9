"""What translators ask of the form of an instruction."""

from device_model.ptx.text.errors import PtxError, Refusal
from device_model.ptx.text.syntax import Instruction, Operand
from device_model.ptx.text.types import TYPES, Family, Type

ROUNDINGS = ("rn", "rz", "rm", "rp", "rna")
_WHOLE = {Family.BITS, Family.UNSIGNED, Family.SIGNED}


def type_of(instruction: Instruction) -> Type:
    """Return the type that an instruction has as its last modifier."""
    type_ = TYPES.get(instruction.modifiers[-1]) if instruction.modifiers else None
    if type_ is None:
        raise PtxError(instruction.line, f"{instruction} has no type that is supported")
    return type_


def whole_type(instruction: Instruction) -> Type:
    """Return the type of an instruction on integers or bits."""
    type_ = type_of(instruction)
    if type_.family not in _WHOLE or type_.name == "b128":
        raise misfit(instruction, f".{type_.name} is no type of integers")
    return type_


def is_whole(type_: Type) -> bool:
    """Whether values of *type_* are integers or bits."""
    return type_.family in _WHOLE and type_.name not in ("tf32", "b128")


def operands(instruction: Instruction, count: int) -> tuple[Operand, ...]:
    """Return the operands, which must be *count* with the result."""
    if len(instruction.operands) != count:
        raise PtxError(instruction.line, f"{instruction} has {count} operands, not {len(instruction.operands)}")
    return instruction.operands


def flags(instruction: Instruction, *names: str) -> dict[str, bool]:
    """Return those of the options *names* that an instruction has."""
    return {name: True for name in names if name in instruction.modifiers}


def rounding(instruction: Instruction) -> dict[str, str]:
    """Return the rounding of an instruction as an option, if it is not the nearest."""
    for name in ROUNDINGS:
        if name in instruction.modifiers:
            return {} if name == "rn" else {"rounding": name}
    return {}


def refuse(instruction: Instruction, why: str = "") -> PtxError:
    """Return the error for an instruction of a form that is not run here."""
    what = f"{instruction} is not supported{why and f': {why}'}"
    return PtxError(instruction.line, what, kind=Refusal.NOT_SIMULATED)


def misfit(instruction: Instruction, why: str) -> PtxError:
    """Return the error for an instruction that no assembler takes."""
    return PtxError(instruction.line, f"{instruction}: {why}")
