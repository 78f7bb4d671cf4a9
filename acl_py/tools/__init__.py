"""What the command line calls: programs and their replay, the check of portability, demos, scripts that use `acl`.

May import all of acl_py but the command line and the pytest plugin.
"""
