"""Copies between the memories of a core, and copies that are combined with what is in global memory.

May import core, and no other room of aicore.
"""
