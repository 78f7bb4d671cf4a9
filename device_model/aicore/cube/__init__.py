"""The cube unit: loads to L0, Mmad, Fixpipe, and the Matmul objects made of them.

Imports core, flags, moving and timing.
"""
