"""One AI core: its instructions and program, its memories and tensors, its hazards, and what is found wrong.

May import nothing else of aicore.
"""
