"""Loops: which registers decide what a round does, and whether the loop can be a wait for others or for a time.

A loop is all blocks of code from its head to the last jump back there. A counter that nothing asks decides nothing: a
loop that only counts how often it has looked makes no progress.
"""

from collections.abc import Callable, Sequence

from device_model.ptx.code.flow import Block, ends, meets, reads, reads_clock, writes
from device_model.ptx.code.opcodes import opcode_of
from device_model.ptx.lanes.program import Loop
from device_model.ptx.text.syntax import Instruction, Register

STRONG = frozenset(("volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"))  # accesses that may meet others
_LOADS = frozenset(("ld", "ldu"))
_FENCES = frozenset(("membar", "fence"))
_LAST = frozenset(("ret", "exit"))
_READS = frozenset(("atom", "mbarrier", "nanosleep", "call", "ld"))  # what others may change
Number = Callable[[Block, Register], int]


def takes_time(block: Block) -> bool:
    """Whether a block of code reads the time, or lets time pass."""
    return any(item.name == "nanosleep" or reads_clock(item) for item in block.instructions)


def touches_nothing(first: Block) -> bool:
    """Whether a kernel that begins with this block ends with it, and leaves nothing behind: it only computes values."""
    last = first.last
    return (
        last is not None
        and last.name in _LAST
        and last.guard is None
        and all(map(_only_computes, first.instructions[:-1]))
    )


def _only_computes(item: Instruction) -> bool:
    return not (_acts(item) or item.name in _LOADS or reads_clock(item))


def loop_of(blocks: Sequence[Block], number: Number, *, calls: bool) -> Loop:
    """Return the loop of *blocks*, the first of which is its head.

    Args:
        blocks: Its code.
        number: Gives the number of a register in the kernel.
        calls: Whether it calls functions of the module; then every register counts.
    """
    items = [(block, item) for block in blocks for item in block.instructions]
    wanted = _wanted(items, number)
    sets = {number(block, each): None for block, item in items for each in writes(item) if isinstance(each, Register)}
    live = sorted(blocks[0].live_in)
    decides = live if calls else [each for each in live if each in wanted and each in sets]
    reads_memory = any(map(_reads, blocks))
    is_fixed = reads_memory and not decides
    asked = [
        number(block, each)
        for block, item in items
        if _meets_others(item)
        for each in writes(item)
        if isinstance(each, Register)
    ]
    polls = is_fixed or any(each in wanted for each in asked) or any(map(takes_time, blocks))
    is_pure = not calls and all(_is_pure(item) for _, item in items)
    is_timed = any(reads_clock(item) for _, item in items)
    return Loop(blocks[0].number, blocks[-1].number, decides, reads_memory, polls, is_timed, is_pure)


def _wanted(items: Sequence[tuple[Block, Instruction]], number: Number) -> dict[int, None]:
    """Return the registers on which it depends where lanes go, and what they change."""
    wanted: dict[int, None] = {}
    found = -1
    while found < len(wanted):
        found = len(wanted)
        for block, item in items:
            own = [number(block, each) for each in writes(item) if isinstance(each, Register)]
            if _acts(item) or any(each in wanted for each in own):
                wanted |= {number(block, each): None for each in reads(item) if isinstance(each, Register)}
    return wanted


def _acts(item: Instruction) -> bool:
    return ends(item) or (item.name not in _LOADS | _FENCES and not opcode_of(item).is_pure)


def _meets_others(item: Instruction) -> bool:
    """Whether *item* reads what others are meant to change while it runs."""
    return item.name in ("atom", "mbarrier") or (item.name in _LOADS and bool(STRONG & {*item.modifiers}))


def _is_pure(item: Instruction) -> bool:
    if meets(item):
        return False
    return (
        item.name in _LOADS
        or item.name in ("bra", "nanosleep")
        or item.name in _FENCES
        or (opcode_of(item).is_pure and not ends(item))
    )


def _reads(block: Block) -> bool:
    """Whether a block reads what others may change."""
    return any(item.name in _READS and not {"param", "const"} & {*item.modifiers} for item in block.instructions)
