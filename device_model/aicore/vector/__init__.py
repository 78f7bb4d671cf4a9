"""The vector unit: masks, banks of the unified buffer, and all vector instructions.

Imports core, and no other room of aicore.
"""
