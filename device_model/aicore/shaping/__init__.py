"""How a shape is spread over cores: tiling, selection of kernels, balance, tuning, and advice on a launch.

Imports any room of aicore, and the runner.
"""
