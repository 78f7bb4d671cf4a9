"""Rows: the instructions of a block of threads, in program order.

Running a block appends rows, and `timing` plays them. A row is one instruction of some warps of the block, or several
of the same kind in a row, because a NumPy operation on registers of shape (threads, n) stands for n instructions of
each warp. Rows are plain slotted records: a block makes thousands of them.
"""

from collections.abc import Hashable
from dataclasses import KW_ONLY, dataclass
from enum import IntEnum
from types import CodeType, MappingProxyType


class Unit(IntEnum):
    """The part of an SM that executes an instruction, after a scheduler has issued it."""

    FMA = 0  # floating-point multiply and add, 32 lanes per scheduler
    ALU = 1  # integers, comparisons, selections, moves
    SFU = 2  # exp2, log2, reciprocal, sine: and conversions between types
    TENSOR = 3
    LSU = 4  # loads, stores, shuffles and atomics, in shared or global memory; cp.async
    SYNC = 5  # barriers, groups of copies, phases
    DOUBLE = 6  # floating-point multiply and add of 64 bits


class Op(IntEnum):
    """What an instruction does, as far as its time depends on it."""

    FMA = 0
    ALU = 1
    SFU = 2
    MMA = 3  # mma.m16n8k16
    LDS_32 = 4  # a load of 4 bytes per lane from shared memory
    LDS_64 = 5
    LDS_128 = 6
    LDMATRIX = 7
    STS = 8  # a store to shared memory
    ATOMS = 9  # an atomic operation in shared memory
    SHUFFLE = 10  # also votes
    LDG = 11  # a load from global memory
    STG = 12
    ATOMG = 13
    CP_ASYNC = 14  # a copy from global to shared memory that the warp does not wait for
    COMMIT = 15  # makes a group of the copies since the last commit
    WAIT_GROUP = 16  # waits until at most `number` groups of the warp are pending
    BARRIER = 17  # waits for `number` warps at barrier `key`
    ARRIVE = 18  # arrives in phase `number` of mbarrier `key`
    COPY_ARRIVE = 19  # arrives in it when all copies that the warp has issued are done
    WAIT_PHASE = 20  # waits until phase `number` of mbarrier `key` is complete
    SYNC_WARP = 21  # waits for the other lanes of its warp


UNIT = MappingProxyType(
    {
        Op.FMA: Unit.FMA, Op.ALU: Unit.ALU, Op.SFU: Unit.SFU, Op.MMA: Unit.TENSOR, Op.LDS_32: Unit.LSU,
        Op.LDS_64: Unit.LSU, Op.LDS_128: Unit.LSU, Op.LDMATRIX: Unit.LSU, Op.STS: Unit.LSU, Op.ATOMS: Unit.LSU,
        Op.SHUFFLE: Unit.LSU, Op.LDG: Unit.LSU, Op.STG: Unit.LSU, Op.ATOMG: Unit.LSU, Op.CP_ASYNC: Unit.LSU,
        Op.COMMIT: Unit.SYNC, Op.WAIT_GROUP: Unit.SYNC, Op.BARRIER: Unit.SYNC, Op.ARRIVE: Unit.SYNC,
        Op.COPY_ARRIVE: Unit.SYNC, Op.WAIT_PHASE: Unit.SYNC, Op.SYNC_WARP: Unit.SYNC,
    }
)  # fmt: skip
SECTOR = 32  # bytes: global memory is read and written in sectors


@dataclass(eq=False, slots=True)
class Row:
    """One instruction of the warps of a block.

    Attributes:
        op: What it does; `unit` is the unit that does it.
        name: What it is called in reports: "add", "cp.async.cg".
        warps: The warps that issue it: bit w is set for warp w of the block.
        count: How many instructions each of these warps issues.
        chains: If each of them needs the result of one before, how many such chains take turns; 0 if none does.
            Copies: 1 if they are those of a loop, which computes the address of each from the one before.
        phases: Passes of shared memory that each instruction of a warp takes, 1 if no banks conflict; a tuple has one
            number for each warp of the block.
        conflicts: How many of these it takes because banks conflict, in the same form.
        sectors: Sectors of 32 bytes of global memory that each warp moves in all, in the same form.
        misses: How many of these are not in the L2 cache, in the same form.
        reads: Ids of the registers that it needs.
        writes: Ids of the registers that hold its results.
        number: WAIT_GROUP: how many groups may be pending. BARRIER: how many warps it waits for. Phases: which one.
        key: The barrier: 0 for syncthreads, a number for a named one, the identity of an mbarrier.
    """

    op: Op
    name: str
    warps: int
    code: CodeType  # with `lasti` the line that issued it
    lasti: int
    _: KW_ONLY
    count: int = 1
    chains: int = 0
    phases: int | tuple[int, ...] = 1
    conflicts: int | tuple[int, ...] = 0
    sectors: int | tuple[int, ...] = 0
    misses: int | tuple[int, ...] = 0
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    number: int = 0
    key: Hashable = 0

    @property
    def unit(self) -> Unit:
        """The unit that executes it."""
        return UNIT[self.op]

    @staticmethod
    def of_warp(value: int | tuple[int, ...], warp: int) -> int:
        """Return *value*, which is `phases` or of its form, of one warp."""
        return value if isinstance(value, int) else value[warp]

    def of_warps(self, value: int | tuple[int, ...]) -> int:
        """Return the sum of *value*, which is `phases` or of its form, over the warps that issue it."""
        if isinstance(value, int):
            return value * self.warps.bit_count()
        return sum(each for warp, each in enumerate(value) if self.warps >> warp & 1)

    def __repr__(self) -> str:
        times = f" x {self.count}" if self.count > 1 else ""
        return f"<Row {self.name}{times} ({self.unit.name}) of warps {self.warps:#x}>"
