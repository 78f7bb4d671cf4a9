"""Waiting: how a task or a thread waits for a device, and when a wait is a hang.

May import the ground (codes, errors, sites) and device_model, nothing else of acl_py. Only this room uses the insides
of an event loop.
"""

from device_model.compiled import put_in_front as _put_in_front

_put_in_front(__name__, __path__)
