"""How many registers of 32 bits a thread needs at the same time.

What an assembler reads from constant memory (parameters, numbers, names of variables) takes none, nor do predicates.
"""

from collections.abc import Mapping, Sequence

from device_model.ptx.code.flow import reads, writes
from device_model.ptx.code.order import order_of
from device_model.ptx.text.syntax import Instruction, Register

_LEAST = 8  # that a thread has
_OWN = 6  # for addresses in between, and what a card keeps
_FULL = 32  # with more, an SM holds fewer threads: loads are moved up no further
_UNIT = 2  # registers are given in such steps


def pressure_of(blocks: Sequence[Sequence[Instruction]], live_out: Sequence[Sequence[Register]]) -> int:
    """Return the registers of a thread that runs *blocks*, behind each of which *live_out* are needed."""
    constant = _constants(blocks)
    written = moved = 0
    for items, needed in zip(blocks, live_out, strict=True):
        written = max(written, _most(items, range(len(items)), needed, constant))
        moved = max(moved, _most(items, order_of(items), needed, constant))
    most = max(written, min(moved, _FULL - _OWN))
    return max(_LEAST, -(-(most + _OWN) // _UNIT) * _UNIT)


def _most(
    items: Sequence[Instruction], order: Sequence[int], needed: Sequence[Register], constant: Mapping[Register, bool]
) -> int:
    """Return the registers that live at the same time in a block whose instructions run in *order*."""
    live = {each: _size(each, constant) for each in needed}
    most = sum(live.values())
    for place in reversed(order):
        for result in writes(items[place]):
            if isinstance(result, Register):
                live.pop(result, None)
        for each in reads(items[place]):
            if isinstance(each, Register):
                live[each] = _size(each, constant)
        most = max(most, sum(live.values()))
    return most


def _size(register: Register, constant: Mapping[Register, bool]) -> int:
    return 0 if constant.get(register) or register.type.bits == 1 else -(-register.type.bits // 32)


def _constants(blocks: Sequence[Sequence[Instruction]]) -> dict[Register, bool]:
    """Return the registers that only hold what is in constant memory."""
    constant: dict[Register, bool] = {}
    for items in blocks:
        for item in items:
            sources = [each for each in reads(item) if isinstance(each, Register)]
            is_kept = (item.name in ("mov", "cvta") and all(constant.get(each) for each in sources)) or (
                item.name == "ld" and "param" in item.modifiers
            )
            if item.name == "mov" and not sources and reads(item):
                is_kept = False  # a special register
            for result in writes(item):
                if isinstance(result, Register):
                    constant[result] = is_kept and constant.get(result, True)
    return constant
