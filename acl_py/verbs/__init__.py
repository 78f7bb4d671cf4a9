"""The verbs: the public coroutines of acl_py, one module for each noun of the vendor's runtime.

Every verb can be read with help(). That says what it does, the vendors' functions that it stands for, its arguments,
how long the host waits in it under each rule set (Waits), and what it returns and raises. "Measured" names a program
that an H200 ran; docs/semantics.md has the answers. Some errors are the same for all verbs, so no verb lists them:

    NOT_INITIALIZED     no simulation is running in the calling task
    FINALIZED           the simulation has ended
    NOT_PERMITTED       a kernel or a host function makes the call
    INVALID_CONTEXT     no context is current, which only ACL's rules know, and the verb needs one
    the failure's kind  the current context has failed, and the verb needs one that has not
    GROUP_WORK, GROUP_INTERRUPTED, GROUP_UPDATE
                        the work cannot be part of a task group or an update that goes on: see task_groups.py
    any kind            a fault rule makes the call fail

A stream that "cannot be used here" is destroyed or of another simulation (INVALID_HANDLE), of a context that is not
current under ACL's rules (FOREIGN_STREAM), or one that the rules do not have (NOT_SUPPORTED: LEGACY_STREAM and
PER_THREAD_STREAM are CUDA's). A call that is refused changes nothing.

May import the runtime, waiting, trace and log rooms and the ground (codes, errors, sites), never simulation or above.
"""

from device_model.compiled import put_in_front as _put_in_front

_put_in_front(__name__, __path__)
