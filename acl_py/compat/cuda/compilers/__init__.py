"""Compilers of the vendor, interposed: what they would give out as machine code is PTX in a wrapper."""
