"""The shared object that Python writes, and what its functions are.

The modules:

    loading                 a library is written and loaded
    elf machine             the file, and its code for each kind of processor
    signatures              names, versions and arguments of the driver's functions: functions.txt
    own_memory              reading and writing memory at any address
    callbacks behind        what C calls in Python; exceptions in it
"""
