"""A real card under the verbs: the same program and checks, and calls of the vendor's driver in place of the model.

The modules, from the top down:

    opening          from the options of a run to a runtime on a card
    cuda/ npu/       cards of NVIDIA, through cuda.bindings; cards of Ascend, through the module acl
    bridge           how tasks wait for a card
    runtime          what the model is asked for elsewhere
    ending           the end of a run
    contexts         the context and the card, as verbs see them
    work             what call each kind of work makes
    host_functions   Python functions in their turn in a stream
    times words      when operations took place, by events; words of memory that streams write and wait for
    events memory    events; memory with the card's addresses
    streams          what the host knows of the work of a stream
    driver clock     what is asked of a vendor's driver; real time
"""
