"""`acl`, the vendor's Python binding, on a simulated device.

The rooms, from the top down:

    public                          what programs import from the package
    processes hanging report        processes of a script; what a hang prints; the summary of a session
    inference/                      aclruntime and ais_bench: sessions of model files, over the functions
    functions/                      base rt mdl op blas media prof util: a folder for each module of the binding
    standins/                       models, operators and kernel binaries, described in Python or in files
    aipp/                           what AIPP makes of images: its files, its parameters, its pixels
    simulated_time                  what scripts find as `time`
    face/                           module objects, argument wrappers, the session, handles, host objects,
                                    failed calls, tracebacks
"""

import typing

from acl_py.late_imports import late_names as _late_names

if typing.TYPE_CHECKING:
    from acl_py.compat.acl.public import *  # noqa: F403 - its names are those of the package
else:
    __getattr__, __dir__ = _late_names(globals())
