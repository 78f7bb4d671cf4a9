"""When instructions run: the pipes of each core are played, with bandwidth, bursts and the L2 cache.

May import core, and no other room of aicore.
"""
