"""A real card under the verbs: the same program and checks, and calls of the vendor's driver in place of the model.

The modules, from the top down:

    opening          from the options of a run to a runtime on a card
    bridge           how tasks wait for it
    ending           the end of a run
    runtime          what the model is asked for elsewhere, and which verbs a card does not do
    contexts         the context and the card, as verbs see them
    activities times when the card has done an operation, by the vendor's records or by events
    streams          what the host knows of the work of a stream
    work             what call each kind of work makes
    graphs           executables of graphs, and their launches
    codes compiled   CUDA C and calls of libraries that kernels in Python bring; the cache of what is compiled
    kernels host_functions
                     kernels in PTX; Python functions in their turn in a stream
    words            words of memory that streams write and wait for
    events memory pages
                     events; memory with the card's addresses; advice to the driver about managed pages
    dlpack           this memory for other libraries
    driver clock     the driver's functions and codes; real time
"""
