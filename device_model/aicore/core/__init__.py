"""One AI core: its instructions and program, its memories and tensors, its hazards, and findings about kernels.

Imports no other room of aicore.
"""
