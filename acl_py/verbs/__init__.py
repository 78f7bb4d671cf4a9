"""The verbs: the public coroutines of acl_py, one module for each noun of the vendor's runtime.

May import the runtime, waiting, trace and log rooms and the ground (codes, errors, sites), never simulation or above.
"""
