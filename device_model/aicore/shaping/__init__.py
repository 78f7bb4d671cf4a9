"""From shapes to cores: tiling, selection of kernels, balance, tuning, and advice on a launch.

May import all rooms of aicore and the runner.
"""
