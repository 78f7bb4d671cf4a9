"""Collectives: work of several devices that takes place together.

The words of this room:

    clique     the ranks that make collectives together, each on a device of its own
    rank       one member: a number from 0 on, and the device; a program holds it as its communicator
    call       what a rank asks for: an all-reduce of so many elements from here to there
    part       the calls that a rank has queued as one operation of a stream
    exchange   calls of several ranks that meet: one collective of all, or a Send and its Recv
    fold       classes of ranks that are alike; the first rank of each class runs, and stands for all of it

Kernels of AI cores ask for collectives, too. Their launches meet in [kernels.py](kernels.py), and the turns of their
tasks in [served.py](served.py).

How long an exchange takes, as steps over links, is in [timing](timing/__init__.py).
"""
