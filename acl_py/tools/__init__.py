"""The tools behind the command line: demos, comparisons with a reference, `acl` scripts, and their findings.

Modules here may import all of acl_py except the command line and the pytest plugin.
"""
