"""What the functions of the driver share.

The modules:

    exports                 the library in this process, and its callbacks
    calls                   from C to a coroutine, and back
    state                   the driver of a simulation, and the contexts of a thread
    images                  what programs hand over as code of kernels
    handles codes texts     handles of objects, codes of failures, texts for C
    names                   names of streams and memory, from variables of the program
"""
