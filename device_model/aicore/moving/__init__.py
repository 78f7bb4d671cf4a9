"""Copies between the memories of a core and global memory, and atomics: copies that add to global memory.

Imports core, and no other room of aicore.
"""
