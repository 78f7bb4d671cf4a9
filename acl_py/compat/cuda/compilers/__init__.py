"""Compilers of the vendor, interposed: what they would give out as machine code is PTX in a wrapper.

The modules:

    nvrtc nvjitlink     the compiler of CUDA C++, and the linker
    guarded wheels      callbacks that C may call; where the wheels have their libraries
"""
