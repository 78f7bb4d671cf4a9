"""Numbers of SMs that only kernels in PTX need.

Times are in cycles of an SM. A comment names the measured kernel that a number was read from: the same kernel at
another size, and others like it, would refute it.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rates:
    """Latencies and rates of an H200."""

    math: int = 4  # FMA and ALU: float_chain takes 4 for each fma
    wide: int = 5  # products of integers
    predicate: int = 13  # from a comparison to what it decides: collatz takes 46 cycles a round
    double: int = 8
    convert: int = 12  # between floats and integers
    special: int = 24  # %tid and the like, read through the LSU
    branch: int = 2  # from a jump to the next instruction: float_chain, besides its fmas
    shuffle: int = 24
    atomic_shared: int = 40  # from an atomic on shared memory to its result
    l1: int = 34  # a load that L1 has
    l1_bytes: int = 262144  # with shared memory
    line: float = 1.6  # of the SM, for each line of 128 bytes that a load asks the L2 for: strided by 33
    store_line: float = 4.2  # for each line that a store does not fill: transpose
    l2_sectors: float = 140.0  # a cycle, from the L2 to all SMs: add of 2**20, strided by 7
    atomic_address: float = 0.47  # of the L2, for each address of an atomic of a warp in a line: hist_shared of 2**18
    atomic_line: float = 2.0  # of the L2, for each atomic of a warp on a line; assumed
    write_dram: float = 1.15  # bytes of DRAM that a written byte costs more than a read one: library.traffic
    launch: int = 400  # from the launch of a block to its first instruction, with constants: add of 2**16
    block: int = 18  # of an SM, between the launches of two blocks, for each warp: add of 2**24


RATES = Rates()
