"""Stream programs: their format, and how they are played.

Modules here call verbs as a user's program does. They know neither `acl` nor the tools of the command line.
"""
