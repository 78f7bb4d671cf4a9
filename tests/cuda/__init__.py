"""The driver of CUDA: through ctypes alone, and through the packages that load it where they are installed."""
