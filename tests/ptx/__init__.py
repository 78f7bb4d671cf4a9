"""Kernels in PTX: random ones against a plain interpreter that shares no code, and those of public repositories."""
