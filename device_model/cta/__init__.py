"""Thread-block kernels: blocks of warps, run with NumPy and timed warp by warp.

A block runs once; each NumPy operation on its registers is one instruction of all its warps, and appends one row.
From the top down; each room imports only from those below it:

    timing/         when warps issue their rows, and how long blocks take
        card                the blocks of a launch, spread over the SMs
        sm                  the warps of the blocks that are resident on one SM
        memory occupancy    the L2 and DRAM, as one SM sees them; how many blocks an SM holds
    banks           bank conflicts in shared memory, and sectors of global memory, from addresses
    swizzle         where the elements of a tile go, so that banks do not conflict
    fragments       how the lanes of a warp hold matrices; ldmatrix; a product of whole tiles
    tensor          the tensor core's rule for one mma, bit for bit
    instructions    Row: one instruction of the warps of a block; Op, Unit
    spec            SmSpec: limits, latencies and rates of the SMs of a card
"""
