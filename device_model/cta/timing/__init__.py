"""How long blocks of threads take: rows of instructions are played on an SM, and blocks spread over the card.

From the top down; each module imports only from those below it:

    card        the blocks of a launch, spread over the SMs
    history     what those warps did and when, for those who ask
    sm          the warps of the blocks that are resident on one SM
    memory      the L2 and DRAM, as one SM sees them
    occupancy   how many blocks an SM holds

Imports the rows and the numbers of SMs, and nothing else of cta.
"""
