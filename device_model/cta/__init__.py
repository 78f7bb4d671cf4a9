"""Thread-block kernels: blocks of warps, run with NumPy and timed warp by warp.

A block runs once; each NumPy operation on its registers is one instruction of all its warps, and appends one row.
From the top down; each line imports only from those below it. Each room begins with its own map:

    launch          a launch of a kernel, as the work of an operation of a device
    advice          what a launch would save without conflicts, with a stage more, with more blocks on an SM
    runner          runs the blocks of a kernel
    stores          which thread wrote which bytes of global memory, and when
    language/       what a kernel is written with: registers, tensors, copies, barriers, products, pipelines
    block           Block: the instructions, the active threads and the findings of one block
    checks/         whether the accesses of a block are ordered: the hazards
    report          what a launch made of the card: occupancy, traffic, conflicts, copies that were hidden
    names           numbers and texts

The times of rows come from device_model/sm.

Read language/tensors.py and language/registers.py first.
"""
