"""When instructions run: each pipe of each core takes its instructions in order; cores share bandwidth and the L2.

Imports core, and no other room of aicore.
"""
