"""Sweeps: one program at many points, such as numbers of streams, cards and rules, in many processes.

A sweep's result depends on its points only: not on how many workers there are, nor on which point ends first.
"""
