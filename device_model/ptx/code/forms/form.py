"""A form of an instruction: which modifiers it takes in which order, and which operands.

A line of a table has the names of instructions, their modifiers, and their operands, results first. Behind a minus sign
stands a form that PTX has and that is not simulated.

Modifiers: `a|b` is one of the two, and `a?` may be left out. Those in brackets stand in any order, as assemblers take
them. `xorsign.abs` are two modifiers in one piece. Words in capitals are in `_MACROS`.

Operands: the name of a type is a value of it. `t` has the last type of the instruction, `s` the one before it, and `w`
is twice as wide as `t`. `+` lets a register be wider than the type, and `_` says that the result may be `_`. `/` stands
between two results with a bar between them, of which the second may be missing; with `&` it may not. Braces stand
around the values of a vector; empty ones hold whatever the instruction makes of them. `x` may also be the name of a
variable or a special register. `mem` is an address in brackets, `mem@shared` one in shared memory, `num` a number,
`label` and `table` are names of those, `policy` is there with `.L2::cache_hint` only, and `*` is anything. `?` says
that the operand may be missing.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from device_model.ptx.code.forms import effects, values

_MACROS = {
    "RND": "rn|rz|rm|rp",
    "INT": "u16|u32|u64|s16|s32|s64",
    "CMP": "eq|ne|lt|le|gt|ge",
    "FCMP": "eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan",
    "LOG": "and|or|xor",
    "HALF": "f16|f16x2|bf16|bf16x2",
    "SCOPE": "cta|cluster|gpu|sys",
    "SPACE": "const|global|local|param|param::entry|param::func|shared|shared::cta",
    "WINDOW": "const|global|local|param|param::entry|shared|shared::cta",
    "SHARED": "shared|shared::cta",
    "OUT": "global|local|param|param::func|shared|shared::cta",
    "ANY": "b8|b16|b32|b64|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64",
    "KEEP1": "L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate",
    "KEEP2": "L2::evict_normal|L2::evict_first|L2::evict_last",
    "AHEAD": "L2::64B|L2::128B|L2::256B",
    "HINT": "L2::cache_hint",
    "F8": "e4m3x2|e5m2x2",
    "UCMP": "eq|ne|lt|le|gt|ge|lo|ls|hi|hs",
    "EACH": "u8|u16|u32|u64|s8|s16|s32|s64",
    "INTEGRAL": "rni|rzi|rmi|rpi",
    "ORDER": "relaxed|acquire|release|acq_rel",
    "ROUT": "relaxed|release",
    "GS": "global|shared|shared::cta",
    "PRIORITY": "L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged",
    "EIGHTH": "e4m3|e5m2|e3m2|e2m3|e2m1",
    "SPARSE": "f16|bf16|tf32|e4m3|e5m2|s8|u8|s4|u4",
    "SUM": "f16|f32|s32",
    "SP": "sp|sp::ordered_metadata",
    "MANY": "multicast::cluster",
    "SMALL": "e2m1x2|e2m3x2|e3m2x2|ue8m0x2",
    "RESTRICT": "sync_restrict::shared::cluster|sync_restrict::shared::cta",
    "TX": "mbarrier::complete_tx::bytes",
    "ARITH": "add|min|max|inc|dec|and|or|xor|exch|cas",
}
_WORD = re.compile(rf"\b({'|'.join(_MACROS)})\b(?!::)")
_SHAPE = re.compile(r"m\d+n\d+k\d+")
_LINE = re.compile(r"(?P<lacks>- )?(?P<names>[\w ]+?) +: (?P<modifiers>.*?) *:(?: (?P<operands>.*))?")


class Slot(NamedTuple):
    """A place for one of some modifiers, each of them one word or more."""

    words: tuple[tuple[str, ...], ...]
    is_optional: bool

    def taken(self, modifiers: Sequence[str], at: int) -> int:
        """Return how many modifiers this place takes from *at* on: 0 if none fits."""
        for words in self.words:
            if tuple(modifiers[at : at + len(words)]) == words:
                return len(words)
        return int(self.words == (("SHAPE",),) and at < len(modifiers) and bool(_SHAPE.fullmatch(modifiers[at])))


class Form(NamedTuple):
    """A form: its modifiers as groups of places that stand in any order, its operands, and whether it is simulated."""

    text: str
    groups: tuple[tuple[Slot, ...], ...]
    operands: tuple[str, ...]
    is_simulated: bool

    def fits(self, modifiers: Sequence[str]) -> tuple[int, bool]:
        """Return how many of the first *modifiers* fit, and whether these are all and none is missing."""
        at = 0
        for group in self.groups:
            left = list(group)
            while slot := next((each for each in left if each.taken(modifiers, at)), None):
                at += slot.taken(modifiers, at)
                left.remove(slot)
            if not all(each.is_optional for each in left):
                return at, False
        return at, at == len(modifiers)

    def words(self) -> set[str]:
        """Return all modifiers that the form may have."""
        return {word for group in self.groups for slot in group for words in slot.words for word in words}


def _form(line: str) -> tuple[list[str], Form]:
    """Return the names of the instructions in a line of a table, and the form that they have."""
    match = _LINE.fullmatch(line)
    assert match is not None, f"{line!r} is no form"
    modifiers = _WORD.sub(lambda each: _MACROS[each[0]], match["modifiers"])
    groups = [
        tuple(_slot(text) for text in (inner or alone).split())
        for inner, alone in re.findall(r"\[([^]]*)\]|([^\s\[\]]+)", modifiers)
    ]
    operands = tuple((match["operands"] or "").split())
    return match["names"].split(), Form(match["modifiers"], tuple(groups), operands, not match["lacks"])


def _slot(text: str) -> Slot:
    words = sorted((tuple(each.split(".")) for each in text.rstrip("?").split("|")), key=len, reverse=True)
    return Slot(tuple(words), text.endswith("?"))


def _forms() -> dict[str, list[Form]]:
    found: dict[str, list[Form]] = {}
    for line in (*values.TABLE.strip().splitlines(), *effects.TABLE.strip().splitlines()):
        names, form = _form(line)
        for name in names:
            found.setdefault(name, []).append(form)
    return found


FORMS = _forms()


@lru_cache(maxsize=4096)
def forms_of(name: str, modifiers: tuple[str, ...]) -> list[Form]:
    """Return the forms that an instruction with these modifiers may have."""
    return [form for form in FORMS[name] if form.fits(modifiers)[1]]
