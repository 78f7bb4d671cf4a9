"""Collectives: what the ranks of a communicator do together, as steps over links.

* [plan](plan.py): what is asked, which algorithm and protocol do it, and which bytes that moves over which links.
"""
