"""Kernels of other people in PTX: what of them runs."""
