"""The table of instructions: for each one how it is translated.

A translator is a function that takes an `Emitter` and an instruction, and writes Python code. `opcode` puts it into
the table.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from device_model.errors import listed
from device_model.ptx.text.errors import PtxError, Refusal
from device_model.ptx.text.syntax import Instruction

if TYPE_CHECKING:
    from device_model.ptx.code.emitter import Emitter

Translator = Callable[["Emitter", Instruction], None]


@dataclass(frozen=True, slots=True)
class Opcode:
    """One kind of instruction: its translator, how many of its first operands are results, and whether it only
    computes its results.
    """

    translate: Translator
    results: Callable[[Instruction], int]
    is_pure: bool


BUILTINS = frozenset(("vprintf", "__assertfail", "cudaGraphSetConditional"))  # functions that the card has
OPCODES: dict[str, Opcode] = {}
_REFUSED = {
    "tex": "textures", "tld4": "textures", "txq": "textures", "suld": "surfaces", "sust": "surfaces",
    "sured": "surfaces", "suq": "surfaces", "istypep": "textures and surfaces", "tensormap": "tensor maps",
    "wgmma": "instructions of warp groups", "tcgen05": "instructions of the fifth tensor cores",
    "setmaxnreg": "the register counts of warp groups",
    "clusterlaunchcontrol": "clusters", "mapa": "clusters", "getctarank": "clusters", "multimem": "multicast memory",
}  # fmt: skip


def opcode(
    *names: str, results: int | Callable[[Instruction], int] = 1, is_pure: bool = True
) -> Callable[[Translator], Translator]:
    """Make a function the translator of the instructions with these *names*."""
    count = results if callable(results) else lambda _: results

    def add(translate: Translator) -> Translator:
        for name in names:
            assert name not in OPCODES, f"{name} is translated twice"
            OPCODES[name] = Opcode(translate, count, is_pure)
        return translate

    return add


def opcode_of(instruction: Instruction) -> Opcode:
    """Return the kind of *instruction*.

    Raises:
        PtxError: It is none that is run here.
    """
    known = OPCODES.get(instruction.name)
    if known is not None:
        return known
    if instruction.name in _REFUSED:
        what = f"{instruction} is not supported: {_REFUSED[instruction.name]} are not simulated"
        raise PtxError(instruction.line, what, kind=Refusal.NOT_SIMULATED)
    near = [name for name in OPCODES if name[:2] == instruction.name[:2]]
    hint = f"instructions that begin like it: {listed(near)}" if near else ""
    raise PtxError(instruction.line, f"{instruction} is no instruction that is run here", hint)
