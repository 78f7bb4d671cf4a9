"""AI cores: kernels in the manner of Ascend C, run with NumPy, timed pipe by pipe, with their hazards named.

From the top down; each room imports only from those below it:

    launch          makes a kernel an operation of a device
    shaping/        from shapes to cores
        tiling          a length over blocks and tiles; tiling keys
        selector        which kind of kernel goes through the rows of a matrix
        balance         units of unequal size over cores, longest first
        tune            a kernel with each choice of tile and depth: a table
        advice          what a launch did wrong with memory, and what that cost
    runner          runs a kernel on its blocks
    blas            while blocks run, BLAS has one thread
    cube/           mmad loads im2col unit_flags fixpipe; matmul, matmul_cube and matmul_tiling are made of them
    vector/         unit masks banks elementwise math casts fill gather reduce select sort
    flags/          order between instructions
        sync            flags, event ids, barriers
        crossing        flags between cores, SyncAll
        queues          TPipe, TQue, TQueBind, TBuf
        stages          pipelines of stages, with queues or with raw events
        pool            buffers that rest before they are handed out again
    moving/         copies: DataCopy, DataCopyPad; atomics: copies that are combined with what is in GM
    timing/         play gm bandwidth l2: when instructions run, pipe by pipe
    core/           one core
        names           pipes, events between them, positions of tensors
        spec            CoreSpec: what the cores of a device have, and how long things take there
        program         Instruction, Program: what a core was asked to do
        findings        what is said about mistakes; the errors of kernels
        hazards         which access to bytes is not ordered behind an earlier one
        memories        local memories, and allocations in GM
        machine         Core: issues instructions, knows what pipes know of each other; Strand: a block as a coroutine
        tensors         LocalTensor, GlobalTensor, GlobalBuffer
        blocks          GetBlockIdx and what else a kernel asks about where it runs
        debug           printf, DumpTensor, assert_

Read core/program.py and core/machine.py first.
"""
