"""The language of thread-block kernels: its functions issue rows of the block that runs, and check its accesses.

From the top down; each line imports only from those below it:

    products            ldmatrix, mma and products of whole tiles, on registers
    pipeline            cuda::pipeline: stages made of groups of copies, or of mbarriers
    warps atomics       shuffles and votes; atomic operations
    printing            printf
    links               slots between stages, handed over by groups of copies or mbarriers
    copies barriers     cp.async and its groups; syncthreads, syncwarp, named barriers, mbarriers
    tensors             arguments in global memory and arrays in shared memory, and their indices
    places              the bytes that the threads reach with an index: loads and stores
    memories            a shared array; an allocation in global memory
    indices             tid, warp, lane, block, where
    registers           arrays over the threads whose operations are instructions
    roles               parts of a block with programs of their own
    strands             roles as strands, each with active threads of its own
    swizzle             where the elements of a tile go, so that banks do not conflict

Read tensors.py and registers.py first.
"""
