"""Whether the accesses of a launch are ordered: a mistake that a card survives is a finding.

    hazards     the watch that finds them: one for each launch that is checked
    lines       what the text says about each access and each barrier
    guesses     loads of what a compare-and-swap then checks
    origins     which variable or parameter an address comes from
    variables   the bounds of shared and local variables, and which one an access means
    picking     which of the lanes of an access have to be looked at
    order       what threads know of each other's accesses
    flags       what blocks know of each other by locks and flags
    fences      the same, where fences stand around these
    arrivals    who waits at which barrier
    shadows     the last accesses of the bytes of a memory
    shared      the checks of shared memory
    world       the checks of global memory
    races       how accesses that are not ordered become findings
    rules       the rules, and what a finding about PTX says

What is not seen: threads that use locks, flags or atomic operations between their accesses are taken to be ordered,
whatever address these have. Fences are asked for between blocks only, and behind the load of a flag a barrier of the
block is enough. An exchange of a warp orders its accesses as `bar.warp.sync` does, which CUDA does not promise. Nobody
waits for threads that have ended, as on a card.
"""
