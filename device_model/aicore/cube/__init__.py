"""The cube unit: loads to L0, Mmad, Fixpipe, and the Matmul objects made of them.

May import core, flags, moving and vector.
"""
