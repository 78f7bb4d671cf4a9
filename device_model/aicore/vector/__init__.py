"""The vector unit: masks, banks of the unified buffer, and all vector instructions.

May import core, and no other room of aicore.
"""
