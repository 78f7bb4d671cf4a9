"""Kernels in PTX, the text that compilers for CUDA write: parsed, run by lanes over NumPy, and timed."""
