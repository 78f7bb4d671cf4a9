"""Blocks that take the same steps: one run of the kernel's function stands for many of them.

A kernel whose function depends on nothing but its arguments and GetBlockIdx() is run once for a group of blocks, with a
number that differs from block to block in place of the index (`core.each`). The run is recorded, and nothing is
computed meanwhile. Then each block has the same instructions at addresses of its own: they are computed block by block,
in the order of the blocks, and their accesses to GM are checked block by block. What happens inside a core is the same
for all: flags, queues and hazards of local memory are judged once.

From the top down:

    groups      which blocks are recorded together, and what each of them does then
    recorder    Recorder: a core that notes what a block does
    plain       whether a kernel's function depends on nothing else
"""
