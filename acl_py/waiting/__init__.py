"""Waiting: how a task or a thread waits for a device, and when a wait is a hang.

May import the ground (codes, errors, sites) and device_model, nothing else of acl_py. Only this room uses the insides
of an event loop.
"""
