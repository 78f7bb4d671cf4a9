"""The tools behind the command line: stream programs and their replay, the portability check, demos, `acl` scripts.

Modules here may import all of acl_py except the command line and the pytest plugin.
"""
