"""How long blocks of threads take: rows of instructions are played on an SM, and blocks spread over the card.

From the top down; each line imports only from those below it:

    card                the blocks of a launch, spread over the SMs
    history             what those warps did and when, for those who ask
    warps               the warps of the blocks that are resident on one SM
    schedulers          its schedulers and units, which warps use in the order of time
    memory occupancy    the L2 and DRAM, as one SM sees them; how many blocks an SM holds
    traffic             bank conflicts and sectors of an access, kept by pattern
    fragments           how the lanes of a warp hold matrices; ldmatrix; a product of whole tiles
    tensor_core         the tensor core's rule for one mma, bit for bit
    banks               bank conflicts in shared memory, and sectors of global memory, from addresses
    instructions        the rows
    names spec          numbers and types; the numbers of SMs

All kinds of kernels whose blocks run on SMs use it: those of cta, and those in PTX.
"""
