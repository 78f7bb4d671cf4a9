"""Cards of NVIDIA, through cuda.bindings. What all cards share is in acl_py.card.

The modules, from the top down:

    opening          from the options of a run to a runtime
    runtime          modules in PTX, and which verbs a card does not do
    contexts         the context with its graphs; access to other cards
    activities       when the card has done an operation, by the vendor's records
    work             what call each kind of work makes
    graphs           executables of graphs, and their launches
    codes compiled   CUDA C and calls of libraries that kernels in Python bring; the cache of what is compiled
    kernels host_functions
                     kernels in PTX; Python functions in streams and graphs
    memory pages dlpack
                     managed memory and pools; advice about its pages; memory for other libraries
    driver           the functions of the driver, and what its codes mean
"""
