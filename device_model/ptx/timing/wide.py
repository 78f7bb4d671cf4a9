"""Loads of shared memory that an assembler makes one of: 8 or 16 bytes side by side, from one register and constants.

The bytes must begin at a multiple of their number, as the assembler can see. Loads that may meet stores of other
threads stay as they are. Of addresses in global memory it knows too little, since they come from parameters.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from device_model.ptx.code.flow import writes
from device_model.ptx.code.loops import STRONG
from device_model.ptx.code.order import Kind, kind_of, memory_of
from device_model.ptx.text.syntax import Address, Instruction
from device_model.ptx.text.types import TYPES
from device_model.ptx.timing.residues import WIDEST, Known, residue_of

_VECTORS = {"v2": 2, "v4": 4, "v8": 8}


class _Piece(NamedTuple):
    """Which bytes a load wants: *nbytes* at *offset* of the *base* that was written *times* before."""

    base: object
    times: int
    offset: int
    nbytes: int
    address: Address


def together(items: Sequence[Instruction], group: Sequence[int], known: Known) -> list[tuple[list[int], int]]:
    """Return the places *group* of accesses, those side by side that one access does, each time with its bytes.

    The bytes of an access that stays as it is are 0.
    """
    pieces = _pieces(items, group)
    if len(pieces) < 2:
        return [([place], 0) for place in group]
    found: dict[int, tuple[list[int], int]] = {}  # by first place
    for width in (WIDEST, WIDEST // 2):
        for places in _slots(pieces, width, known):
            found[places[0]] = places, width
            for place in places:
                del pieces[place]
    others = {place for places, _ in found.values() for place in places[1:]}
    return [found.get(place, ([place], 0)) for place in group if place not in others]


def _slots(pieces: dict[int, _Piece], width: int, known: Known) -> list[list[int]]:
    """Return the places of pieces that fill *width* bytes at a multiple of it."""
    slots: dict[tuple[object, int, int], dict[int, _Piece]] = {}
    for place, piece in pieces.items():
        modulus, remainder = residue_of(piece.address, known)
        if modulus >= width:
            begin = piece.offset - remainder % width
            slots.setdefault((piece.base, piece.times, begin), {})[place] = piece
    return [list(own) for own in slots.values() if len(own) > 1 and _filled(own.values()) == width]


def _filled(pieces: Iterable[_Piece]) -> int:
    return sum({each.offset: each.nbytes for each in pieces}.values())


def _pieces(items: Sequence[Instruction], group: Sequence[int]) -> dict[int, _Piece]:
    """Return what the loads of *group* want that can be parts of wider ones; traffic is kept by line."""
    if kind_of(items[group[0]]) is not Kind.LOAD or memory_of(items[group[0]]) != "shared":
        return {}
    lines, own = Counter(each.line for each in items), {*group}
    times: Counter[object] = Counter()
    found = {}
    for place, item in enumerate(items):
        if place in own and item.guard is None and lines[item.line] == 1 and not STRONG & {*item.modifiers}:
            address = item.operands[1]
            if item.name == "ld" and isinstance(address, Address) and _nbytes(item) in (4, 8):
                found[place] = _Piece(address.base, times[address.base], address.offset, _nbytes(item), address)
        times.update(writes(item))
    return found


def _nbytes(item: Instruction) -> int:
    vector = next((_VECTORS[each] for each in item.modifiers if each in _VECTORS), 1)
    return vector * next((TYPES[each].nbytes for each in item.modifiers if each in TYPES), 0)
