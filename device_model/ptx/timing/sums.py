"""Atomics that an assembler does once for a warp: of integers, at an address that is the same in all lanes.

The lanes then sum up their numbers first. The assembler must see that the address is one: it comes from parameters,
from the number of the block and from constants only.
"""

from collections import Counter
from collections.abc import Sequence

from device_model.ptx.code.flow import reads, writes
from device_model.ptx.code.order import Kind, kind_of
from device_model.ptx.text.syntax import Address, Instruction, Register, Special

_TYPES = frozenset(("u32", "s32", "b32"))
_LANES = ("%tid", "%laneid", "%lanemask", "%warpid", "%clock", "%globaltimer")  # differ in a block
_ACROSS = frozenset(("shfl", "vote", "match", "activemask", "elect"))


def sums_of(items: Sequence[Instruction], uses: Counter[Register]) -> list[int]:
    """Return the lines of the atomics among *items*, all of a function, that are done once for a warp."""
    atomics = [item for item in items if _is_plain(item, uses)]
    if not atomics:
        return []
    varying = _varying(items)
    return [item.line for item in atomics if not any(each in varying for each in _bases(item))]


def _is_plain(item: Instruction, uses: Counter[Register]) -> bool:
    """Return whether *item* is an atomic of integers whose result nothing reads."""
    results = [each for each in writes(item) if isinstance(each, Register)]
    return (
        kind_of(item) is Kind.ATOM and not _TYPES.isdisjoint(item.modifiers) and not any(uses[each] for each in results)
    )


def _bases(item: Instruction) -> list[object]:
    return [each.base for each in item.operands if isinstance(each, Address)]


def _varying(items: Sequence[Instruction]) -> dict[object, None]:
    """Return the registers that may differ between the lanes of a block."""
    varying: dict[object, None] = {}
    before = -1
    while len(varying) != before:
        before = len(varying)
        for item in items:
            if _differs(item, varying):
                varying.update(dict.fromkeys(each for each in writes(item) if isinstance(each, Register)))
    return varying


def _differs(item: Instruction, varying: dict[object, None]) -> bool:
    is_read = kind_of(item) in (Kind.LOAD, Kind.ATOM) or item.name in _ACROSS
    is_lane = any(isinstance(each, Special) and each.name.startswith(_LANES) for each in item.operands)
    return is_read or is_lane or any(each in varying for each in reads(item))
