"""Control flow: the functions that a kernel reaches as basic blocks, and which registers live where.

A basic block runs from its first instruction to its last without a jump. These instructions are always the last ones
of a block: jumps, calls and returns; barriers; what stops lanes. Those that wait for the lanes of their warp are always
the first ones, because lanes may have to wait there for others.
"""

import bisect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from device_model.ptx.code.opcodes import opcode_of
from device_model.ptx.code.special import CLOCKS
from device_model.ptx.text.errors import PtxError
from device_model.ptx.text.syntax import (
    Address,
    Function,
    Instruction,
    Label,
    Not,
    Operand,
    Pair,
    Register,
    Special,
    Symbol,
    Vector,
)

_ENDS = frozenset(("bra", "brx", "call", "ret", "exit", "trap", "brkpt", "bar", "barrier", "nanosleep"))
_OWN_GUARD = frozenset(("bra", "exit", "trap"))  # what these do with a guard is in how their blocks end
_OF_MATRICES = frozenset(("mma", "ldmatrix", "wmma", "stmatrix", "movmatrix"))  # for all lanes of a warp
_MEETS = _OF_MATRICES | {"shfl", "vote", "match", "redux", "elect"}


@dataclass(slots=True)
class Block:
    """A basic block.

    Attributes:
        number: Its place in the code: blocks at lower places run first.
        function: The function that it belongs to.
        instructions: What it does.
        then: The block behind it; None at the end of a function.
        live_in: The numbers of the registers whose values it needs, or that a later block needs.
        live_out: Those that later blocks need.
    """

    number: int
    function: Function
    instructions: list[Instruction] = field(default_factory=list)
    then: "int | None" = None
    live_in: frozenset[int] = frozenset()
    live_out: frozenset[int] = frozenset()

    @property
    def last(self) -> Instruction | None:
        """Its last instruction, if that is one of those that end a block."""
        last = self.instructions[-1] if self.instructions else None
        return last if last is not None and ends(last) else None

    @property
    def meets(self) -> Instruction | None:
        """Its first instruction, if its lanes wait there for those of their warps."""
        first = self.instructions[0] if self.instructions else None
        return first if first is not None and meets(first) else None


def blocks_of(function: Function, first: int, labels: dict[tuple[str, str], int]) -> list[Block]:
    """Return the blocks of *function*, numbered from *first* on, and note its *labels*: (function, label) -> block.

    An instruction that has effects, or ends a block, and that only some lanes do, is jumped over by the others.
    """
    blocks = [Block(first, function)]

    def begin() -> Block:
        if blocks[-1].instructions:
            blocks.append(Block(first + len(blocks), function))
            blocks[-2].then = blocks[-1].number
        return blocks[-1]

    def add(instruction: Instruction) -> None:
        if meets(instruction) or reads_clock(instruction):  # the time at the beginning of a block is known
            begin()
        blocks[-1].instructions.append(instruction)
        if ends(instruction):
            begin()

    assert function.body is not None, "a function that is run has a body"
    for place, item in enumerate(function.body):
        if isinstance(item, Label):
            labels[function.name, item.name] = begin().number
        elif item.guard is None or item.name in _OWN_GUARD or (not ends(item) and opcode_of(item).is_pure):
            add(item)
        else:
            register, is_turned = item.guard
            behind = f"@{place}"
            add(Instruction("bra", (), (Symbol(behind),), (register, not is_turned), item.line, item.source))
            add(item._replace(guard=None))
            labels[function.name, behind] = begin().number
    return blocks


def ends(instruction: Instruction) -> bool:
    """Whether *instruction* is the last one of its block."""
    return instruction.name in _ENDS and "warp" not in instruction.modifiers


def meets(instruction: Instruction) -> bool:
    """Whether lanes wait at *instruction* for others of their warp."""
    if instruction.name == "bar":
        return "warp" in instruction.modifiers
    return instruction.name in _MEETS and "sync" in instruction.modifiers


def reads_clock(instruction: Instruction) -> bool:
    """Whether *instruction* reads what time it is."""
    return any(isinstance(each, Special) and each.name in CLOCKS for each in instruction.operands)


def names_lanes(instruction: Instruction) -> bool:
    """Whether the last operand of an instruction at which lanes meet says which ones."""
    return instruction.name not in _OF_MATRICES


def pointer_of(call: Instruction) -> Register | None:
    """Return the register with the address of the function that is called; None if the call has its name."""
    return next((each for each in call.operands if isinstance(each, Register)), None)


def callee(call: Instruction) -> str:
    """Return the name of the function that is called."""
    target = next((each for each in call.operands if isinstance(each, Symbol)), None)
    if target is None or pointer_of(call) is not None:
        raise PtxError(call.line, "the call has no name of a function")
    return target.name


def operands_of(operand: Operand) -> Iterable[Register | Special]:
    """Yield the registers in *operand*."""
    match operand:
        case Register() | Special():
            yield operand
        case Address(base):
            if isinstance(base, Register):
                yield base
        case Not(inner):
            yield inner
        case Pair(first, second):
            yield from (each for each in (first, second) if each is not None)
        case Vector(parts):
            for part in parts:
                yield from operands_of(part)


def writes(instruction: Instruction) -> list[Register | Special]:
    """Return the registers that *instruction* writes."""
    results = instruction.operands[: opcode_of(instruction).results(instruction)]
    return [each for operand in results for each in operands_of(operand)]


def is_newer(function: Function, instruction: Instruction, one: Register, other: Register) -> bool:
    """Whether *one* was written after *other*, in the order of the text before *instruction*."""
    body = function.body or []
    end = bisect.bisect_left(body, instruction.line, key=lambda item: item.line)
    while body[end] is not instruction:
        end += 1
    for item in reversed(body[:end]):
        if isinstance(item, Instruction):
            written = writes(item)
            if one in written or other in written:
                return one in written
    return False


def reads(instruction: Instruction) -> list[Register | Special]:
    """Return the registers that *instruction* reads; with a guard also those that it may leave as they are."""
    count = opcode_of(instruction).results(instruction)
    read = [each for operand in instruction.operands[count:] for each in operands_of(operand)]
    return read if instruction.guard is None else [instruction.guard[0], *read, *writes(instruction)]


def find_live(blocks: Sequence[Block], successors: Callable[[Block], Iterable[int]],
              uses: Callable[[Block], tuple[frozenset[int], frozenset[int]]]) -> None:  # fmt: skip
    """Set which registers live before and behind each of *blocks*.

    Args:
        blocks: All blocks, by number.
        successors: The numbers of the blocks that may run behind one.
        uses: The registers that a block reads before it writes them, and those that it writes in all its lanes.
    """
    facts = [uses(block) for block in blocks]
    before: list[list[int]] = [[] for _ in blocks]
    after = [tuple(successors(block)) for block in blocks]
    for block, targets in zip(blocks, after, strict=True):
        for target in targets:
            before[target].append(block.number)
    for block, (needs, _) in zip(blocks, facts, strict=True):
        block.live_in = needs
    to_do = [block.number for block in blocks]
    while to_do:
        block = blocks[to_do.pop()]
        needs, sets = facts[block.number]
        block.live_out = frozenset().union(*(blocks[target].live_in for target in after[block.number]))
        live_in = needs | (block.live_out - sets)
        if live_in != block.live_in:
            block.live_in = live_in
            to_do += before[block.number]
