"""The runtime: the host's clock, what a task sees of the simulation, and the way from a verb into the device.

May import waiting, trace, log and the ground (codes, errors, sites), never a verb.
"""
