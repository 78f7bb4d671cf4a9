"""Cards of Ascend, through pyACL, the vendor's module `acl`. What all cards share is in acl_py.card.

The modules, from the top down:

    opening          from the options of a run to a runtime
    runtime          which verbs pyACL has functions for; failures of streams
    contexts         the context, with its default stream; access to other cards; ids
    callbacks        Python functions in threads that process the reports of streams
    streams holds    copies and fills outside all streams; streams that wait for callbacks of the program
    events notifies  the three classes of events; binary semaphores
    driver           the functions of pyACL, and what its codes mean
"""
