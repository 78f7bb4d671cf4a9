"""Collectives: what the ranks of a communicator do together.

* [timing](timing/__init__.py): how long it takes, as steps over links.
"""
