"""Stand-ins for what runs on a card: models, single operators and kernel binaries, described in Python or in files.

May import the native API and face.
"""
