"""How long a kernel in PTX takes: what its lanes did, played on an SM.

From the top down; each line imports only from those below it:

    estimate    the time of a launch: sampled blocks played, and the rest worked out from them
    plan        what follows from the kernel, the shape and the card: launches of one shape share it
    alone       what each block of code costs a warp alone: the times that lanes read
    player      the warps of the blocks that are resident on one SM, run after run
    analysis    what an assembler makes of a kernel, which its launches share
    trace       watches a launch: what sampled warps did, and how much all of them did
    sums        atomics that an assembler does once for a warp
    samples     a sampled block, and the traffic of its accesses
    runs        what one block of code is for an SM: runs of arithmetic, and accesses
    wide        loads of shared memory that an assembler makes one of
    residues    what it knows of the registers that addresses are made of
    costs       what an assembler makes of one instruction
    registers   the registers of a thread, within the bounds that the text sets
"""
