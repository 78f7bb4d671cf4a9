"""AIPP: what a model does with the pixels of an image before its first layer, as files and as calls describe it.

Needs NumPy only, and imports nothing of acl_py.
"""
