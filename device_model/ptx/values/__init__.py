"""What the instructions of PTX compute: pure functions over arrays of lanes, bit for bit the same on every machine.

They use only the operations that IEEE 754 defines, because others (`np.exp`, `np.sin`) differ between processors. The
caller switches off the warnings of NumPy (`np.errstate`). The bits of a NaN depend on the processor until
`floats.canonical` has set them.
"""
