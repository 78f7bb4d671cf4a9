"""The driver of CUDA on a simulated card: libcuda.so.1, for packages that load it.

The modules, from the top down:

    testing     the driver in a run of pytest
    public      what programs import from the package
    switching   the driver is put in place, and ends
    imports     what happens when a package for CUDA is imported
    packages standing advice
                what of the installed packages cannot use it; loops that make no call; advice on kernels
    runtime/    the functions of cuda.bindings.runtime, over those of the driver
    compilers/  the vendor's compilers, interposed
    driver/     its functions by subject: each runs verbs
    face/       what the calls share: the session, handles, codes, and the way from C to a coroutine
    library/    the shared object, which Python writes, and the signatures of its functions
"""

import typing

from acl_py.late_imports import late_names as _late_names

if typing.TYPE_CHECKING:
    from acl_py.compat.cuda.public import *  # noqa: F403 - its names are those of the package
else:
    __getattr__, __dir__ = _late_names(globals())
