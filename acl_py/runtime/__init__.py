"""The runtime: the host's clock, what a task sees of the simulation, and the way from a verb into the device.

May import waiting, trace, log and the ground (codes, errors, sites), never a verb.
"""

from device_model.compiled import put_in_front as _put_in_front

_put_in_front(__name__, __path__)
