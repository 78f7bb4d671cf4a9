"""Kernels of a library (cuBLAS, the operators of torch or CANN): what a call takes, by its shape and type.

`calls` describes the calls, `spec` has the numbers of a card, from the `[library]` table of its profile.
"""
