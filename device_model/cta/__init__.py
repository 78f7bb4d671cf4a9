"""Thread-block kernels: blocks of warps, run with NumPy and timed warp by warp.

A block runs once; each NumPy operation on its registers is one instruction of all its warps, and appends one row.
From the top down; each room imports only from those below it:

    launch              a launch of a kernel, as the work of an operation of a device
    advice              what a launch would save without conflicts, with a stage more, with more blocks on an SM
    runner              runs the blocks of a kernel
    report              occupancy, traffic by level, bank conflicts and hidden copies of a launch
    stores              which thread wrote which bytes of global memory, and when
    products            ldmatrix, mma and products of whole tiles, on registers
    pipeline            cuda::pipeline: stages made of groups of copies, or of mbarriers
    warps atomics       shuffles and votes; atomic operations
    printing            printf
    links               slots between stages, handed over by groups of copies or mbarriers
    copies barriers     cp.async and its groups; syncthreads, syncwarp, named barriers, mbarriers
    tensors             arguments in global memory and arrays in shared memory, and their indices
    places              the bytes that the threads reach with an index: loads and stores
    memories            a shared array; an allocation in global memory
    traffic             bank conflicts and sectors of an access, kept by pattern
    indices             tid, warp, lane, block, where
    shadows             the last accesses of the bytes of a memory
    roles strands       parts of a block with programs of their own, and the greenlets in which these run
    registers           arrays over the threads whose operations are instructions
    block               Block: the instructions, the active threads and the findings of one block
    order               what the threads of a block know of each other's accesses
    histories           what blocks did with shared memory, so that it is checked once
    rules names         the rules that a kernel can break; numbers and types
    timing/         when warps issue their rows, and how long blocks take
        card                the blocks of a launch, spread over the SMs
        history             what those warps did and when, for those who ask
        sm                  the warps of the blocks that are resident on one SM
        memory occupancy    the L2 and DRAM, as one SM sees them; how many blocks an SM holds
    banks               bank conflicts in shared memory, and sectors of global memory, from addresses
    swizzle             where the elements of a tile go, so that banks do not conflict
    fragments           how the lanes of a warp hold matrices; ldmatrix; a product of whole tiles
    tensor              the tensor core's rule for one mma, bit for bit
    instructions        Row: one instruction of the warps of a block; Op, Unit
    spec                SmSpec: limits, latencies and rates of the SMs of a card

Read tensors.py and registers.py first.
"""
