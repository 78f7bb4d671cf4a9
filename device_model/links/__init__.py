"""How the devices of a simulation are joined, and what transfers between them share.

* [spec](spec.py): the table `[links]` of a profile.
* [fabric](fabric.py): the links, and the transfers in progress on them.
"""
