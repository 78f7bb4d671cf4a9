"""The functions of the driver, by subject: each runs verbs.

The modules:

    early                               what works before cuInit(), and cuInit() itself
    devices contexts                    attributes; primary and own contexts, the stack of each thread
    streams events                      streams and events
    memory pools                        memory of devices and of the host; stream-ordered memory
    managed virtual                     pages that move; addresses and memory apart
    copies batches fills                bytes, rows and planes; several copies in one call
    cuda_arrays                         memory whose layout is the card's own
    modules links                       modules, libraries and kernels; the linker
    device_runtime                      functions in PTX that a text may need
    launches occupancy                  kernels, and functions of the host; how many blocks an SM holds
    nothing                             functions for which there is nothing to do
"""
