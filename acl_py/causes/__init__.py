"""Why a run took as long as it did: what follows from its recording alone, without running anything again.

`acl_py.explain` has the public names.
"""
