"""One AI core: its instructions and program, its memories and tensors, its hazards, and findings about kernels.

Imports no other room of aicore.
"""

from device_model.compiled import put_in_front as _put_in_front

_put_in_front(__name__, __path__)
