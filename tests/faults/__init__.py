"""The fault campaign: programs in which every call and every operation fails once, in every way that rules know.

`python -m tests.faults` runs it all and prints a table.
"""
