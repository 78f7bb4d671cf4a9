"""The functions of cuda.bindings.runtime, over those of the driver.

That package has the vendor's runtime in it, which asks a real driver for tables that are not documented. So its
functions are replaced one by one, below the layer that makes them Python's: its structures, its enums and its way of
passing arguments stay. Each function that the package has is answered; what is not simulated is 801 by name.

The modules:

    replacing                           functions in the place of the package's
    devices events                      the current device, its properties; events and streams, the last error
    memory copies kernels               memory and facts about it; copies and fills; kernels of libraries
    arrays                              CUDA arrays, and copies to and from them
    graphs structures                   nodes of graphs, and structures that the driver has in another form
    entries                             what each call does besides its verb: contexts, codes, the last error
    table                               the functions as data, which functions.txt has
"""
