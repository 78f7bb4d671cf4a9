"""The order in which a warp issues the instructions of a block of code.

Loads go up as far as what they need and the stores before them allow, as an assembler moves them: then a warp waits
once for all of them.
"""

from collections.abc import Sequence
from enum import Enum

from device_model.ptx.code.flow import reads, writes
from device_model.ptx.text.syntax import Instruction, Register


class Kind(Enum):
    """What a warp does next."""

    MATH = "a run of arithmetic"
    LOAD = "loads"
    STORE = "stores"
    ATOM = "atomics"
    BARRIER = "a barrier"
    FENCE = "a fence for other blocks"


LOADS = frozenset(("ld", "ldu", "ldmatrix"))
_STORES = frozenset(("st", "stmatrix"))
_ATOMS = frozenset(("atom", "red"))
_WIDE = frozenset(("gl", "gpu", "sys"))


def kind_of(item: Instruction) -> Kind:
    """Return what *item* is."""
    if item.name in LOADS:
        return Kind.MATH if "param" in item.modifiers else Kind.LOAD
    if item.name in _STORES:
        return Kind.STORE
    if item.name in _ATOMS:
        return Kind.ATOM
    if item.name in ("bar", "barrier") and "warp" not in item.modifiers:
        return Kind.BARRIER
    if item.name in ("membar", "fence") and _WIDE & {*item.modifiers}:
        return Kind.FENCE
    return Kind.MATH


def memory_of(item: Instruction) -> str:
    """Return the state space of an access; "" for generic addresses."""
    return next((each.partition("::")[0] for each in item.modifiers
                 if each.partition("::")[0] in ("global", "shared", "local", "const", "param")), "")  # fmt: skip


def order_of(items: Sequence[Instruction]) -> list[int]:
    """Return the places of *items* in the order in which a warp issues them.

    Each gets a level: how many loads, one behind the other, it waits for. In a level what loads need comes first.
    """
    level: dict[Register, int] = {}  # of the value in it
    stores: dict[str, int] = {}
    levels: list[int] = []
    floor = 0
    for item in items:
        kind, space = kind_of(item), memory_of(item)
        own = max((level.get(each, 0) for each in reads(item) if isinstance(each, Register)), default=0)
        own = max(own, floor)
        if kind is Kind.LOAD:
            own = max(own, stores.get(space, -1) + 1)
        elif kind in (Kind.STORE, Kind.ATOM):
            own = stores[space] = max(own, stores.get(space, 0))
        elif kind in (Kind.BARRIER, Kind.FENCE):
            own = floor = max([*levels, own]) + 1
            floor += 1
        levels.append(own)
        for each in writes(item):
            if isinstance(each, Register):
                level[each] = own + (kind in (Kind.LOAD, Kind.ATOM))
    needed: set[Register] = set()
    early = [False] * len(items)
    for place in reversed(range(len(items))):
        item = items[place]
        own_writes = [each for each in writes(item) if isinstance(each, Register)]
        early[place] = kind_of(item) is Kind.LOAD or any(each in needed for each in own_writes)
        if early[place]:
            needed.difference_update(own_writes)
            needed.update(each for each in reads(item) if isinstance(each, Register))
    last = len(items) - 1
    rank = {Kind.LOAD: 1, Kind.MATH: 2, Kind.STORE: 3, Kind.ATOM: 3, Kind.BARRIER: 4, Kind.FENCE: 4}

    def key(place: int) -> tuple[int, int, int]:
        kind = kind_of(items[place])
        is_end = place == last and items[place].name in ("bra", "brx", "ret", "exit", "call")
        return (max(levels), 5, place) if is_end else (
            levels[place], 0 if early[place] and kind is Kind.MATH else rank[kind], place)  # fmt: skip

    return sorted(range(len(items)), key=key)
