"""Collectives that kernels ask for: the objects of kernels, and the servers of the cards that carry out the tasks.

See the package `device_model.aicore`.
"""
