"""What the functions of the driver share.

The modules:

    exports                 the library in this process; its functions import what follows when they are called
    answering               what C calls: a function for each signature, written as source
    calls                   from C to a coroutine, and back
    state                   the driver of a simulation, and the contexts of a thread
    images wrappers linked  what programs hand over as code of kernels; PTX in a wrapper, which looks like machine
                            code; texts that become one
    standins                PTX that stands for machine code
    versions                the version of the driver
    brief                   calls for which there is no verb
    handles codes texts     handles of objects, codes of failures, texts for C
    locations               places of memory: a device, or the host
    names                   names of streams and memory, from variables of the program
"""
