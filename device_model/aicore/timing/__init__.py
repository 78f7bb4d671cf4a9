"""When instructions run: each pipe of each core takes its instructions in order; cores share bandwidth and the L2.

Imports core, and no other room of aicore.
"""

from device_model.compiled import put_in_front as _put_in_front

_put_in_front(__name__, __path__)
