"""The numbers of the SMs of a card: limits, latencies and rates, from the `[sm]` table of a profile.

Times are in cycles of an SM. Fields that end in `_permille` are thousandths: of a cycle, or of what their comment says.
A profile (`device_model/profiles`) gives the source of each value.
"""

from device_model.frozen import Frozen
from device_model.kernel.ranges import Count, Few


class SmSpec(Frozen):
    """The SMs of a card; how many there are is `Cores.count`."""

    khz: Count
    # Limits.
    block_threads: Few
    block_shared_static: Count  # bytes of shared memory that a block may have
    block_shared: Count  # the same, if the kernel asked for more than the static limit
    block_shared_reserved: int  # bytes that the card takes in addition, for each block
    thread_registers: Count
    warps: Few  # of an SM, as the next ones
    blocks: Few
    registers: Count
    register_unit: Count  # a warp gets registers in units of so many
    shared: Count  # bytes
    l2_bytes: Count
    # Latencies: from the issue of an instruction to the issue of one that needs its result.
    math_permille: Count  # FMA, ALU
    sfu: Count
    mma: Count
    lds: Count  # loads from shared memory, ldmatrix: this, and the next two
    lds_join: int  # for each join of the registers of a load of 8 or 16 bytes (banks.Traffic)
    phase: Count  # for each phase
    l2_permille: Count
    dram_permille: Count
    barrier_permille: Count  # from the last arrival at a barrier
    named_barrier_permille: Count  # from the last arrival at one with a name and a number of threads
    mbarrier_permille: Count  # from the last arrival at an mbarrier to the end of a wait for its phase
    wide: Count  # products of integers
    predicate: Count  # from a comparison to the instruction that it decides
    double: Count
    convert: Count  # between integers and floats
    special: Count  # a special register such as the thread's number
    branch: Count  # to the next instruction
    shuffle: Count
    vote: Count
    atomic_shared: Count
    l1: Count  # a load that L1 has
    launch: Count  # from the launch of a block to its first instruction, with its constants
    group: int  # from the arrival of the last copy of a group to the end of wait_group
    # Rates: cycles between two instructions of one scheduler, of one warp, or of the SM.
    alu_interval: Count  # of a scheduler
    sfu_interval: Count
    mma_interval_permille: Count
    mma_warp_permille: Count  # of a warp
    convert_interval: Count
    half_interval_permille: Count  # floats of 16 bits
    pair_interval_permille: Count  # pairs of such
    double_interval_permille: Count
    shuffle_interval: Count  # of the SM, as the next ones
    atomic_lane_permille: Count  # for each further lane of an address in an atomic of a warp
    load_line_permille: Count  # for each line of 128 bytes that a load asks the L2 for
    l1_tag_permille: Count  # for each line that a load looks up in L1
    store_line_permille: Count  # for each line that a store gives to the L2
    block_warp: Count  # between the launches of two blocks, for each warp
    store_warp_permille: Count
    store_sector_permille: Count  # of the SM, for each sector of a store to global memory
    copy_warp: Count  # the loop around cp.async, with its address arithmetic and branch
    copy_extra: int  # of the SM, for each cp.async of a warp besides its phases
    barrier_arrival: int  # of a block or an mbarrier, for each warp
    # Memory that all SMs share, and L1.
    l1_bytes: Count  # with shared memory
    l2_sectors: Count  # a cycle, from the L2 to all SMs
    l2_slices: Few  # lines of 128 bytes are dealt out to them
    l2_parts_permille: Count  # sectors a cycle that the L2 takes if only a part of each is written
    atomic_pass_permille: (
        Count  # of a slice, for each sector of an atomic of a warp, and each further lane of an address
    )
    atomic_line_permille: Count  # of a slice, for an atomic of a warp that has summed up its lanes
    dram_write_permille: Count  # bytes of DRAM that a written byte costs, in bytes that are read
    sm_bytes_permille: Count  # bytes per 1000 cycles from the L2 to one SM
    dram_bytes_permille: Count  # bytes per 1000 cycles from DRAM to all SMs
    dram_spread: int  # mean deviation of the latency of DRAM
    dram_queue_permille: int  # part of the time of the outstanding bytes that a fully used DRAM adds to its latency
