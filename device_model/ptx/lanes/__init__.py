"""Lanes: the threads of a group of blocks, which run in lockstep over NumPy."""
