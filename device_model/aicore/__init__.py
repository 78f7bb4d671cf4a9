"""AI cores: kernels in the manner of Ascend C, run with NumPy, timed pipe by pipe, their hazards named.

The core of it, each importing only from those above:

    names.py        pipes, events between them, positions of tensors
    spec.py         CoreSpec: what the cores of a device have, and how long things take there
    program.py      Instruction, Program: what a core was asked to do
    findings.py     what is said about mistakes; the errors of kernels
    hazards.py      who touched which bytes last, and what is not ordered behind it
    memories.py     local memories and allocations in GM
    machine.py      Core: issues instructions, knows what pipes know of each other; Strand: a block as a coroutine
    tensors.py      LocalTensor, GlobalTensor, GlobalBuffer
    sync.py         flags, event ids, barriers
    crossing.py     flags between cores, SyncAll
    queues.py       TPipe, TQue, TQueBind, TBuf
    copies.py       DataCopy, DataCopyPad
    atomics.py      SetAtomicAdd, Max, Min: copies that are combined with what is in GM
    blocks.py       GetBlockIdx and what else a kernel asks about where it runs
    debug.py        printf, DumpTensor, assert_

Above them: vector instructions (masks.py, banks.py, vector*.py), the cube (cube*.py, im2col.py, unit_flags.py,
fixpipe.py; matmul*.py), times (timing/play.py, gm.py, bandwidth.py, l2.py), runner.py, which runs a kernel on its
blocks, and launch.py, which makes that an operation of a device. From shapes to cores:

    tiling.py       a length over blocks and tiles; tiling keys
    selector.py     which kind of kernel goes through the rows of a matrix
    balance.py      units of unequal size over cores, longest first
    pool.py         buffers that rest before they are handed out again
    stages.py       pipelines of stages, with queues or with raw events
    tune.py         a kernel with each choice of tile and depth: a table
    advice.py       what a launch did wrong with memory, and what that cost

Read program.py and machine.py first.
"""
