"""Functions for which there is nothing to do here."""

from acl_py.compat.cuda.face.calls import answers
from acl_py.compat.cuda.face.codes import NOT_FOUND, RefusedError


@answers("cuProfilerStart", "cuProfilerStop")
async def profile(*_: object) -> None:
    """Do nothing: a trace has the whole run."""


@answers(
    "cuCtxSetCacheConfig", "cuFuncSetCacheConfig", "cuKernelSetCacheConfig", "cuCtxSetSharedMemConfig",
    "cuFuncSetSharedMemConfig",
)  # fmt: skip
async def divide(*_: object) -> None:
    """Do nothing: how memory of an SM is divided follows from the kernel."""


@answers("cuCtxGetCacheConfig", "cuCtxGetSharedMemConfig", "cuCtxGetFlags")
async def nothing_set(*_: object) -> int:
    """No preference, and no flags."""
    return 0


@answers("cuCtxSetFlags", "cuCtxResetPersistingL2Cache", "cuFuncLoad")
async def unused(*_: object) -> None:
    """Do nothing: hosts wait in one way, no line of the L2 is kept, and a function that has a handle is loaded."""


@answers("cuFlushGPUDirectRDMAWrites")
async def flush(*_: object) -> None:
    """Do nothing: nothing but the host and the devices writes to memory."""


@answers("cuGetExportTable", question=NOT_FOUND)
async def export_table(*_: object) -> None:
    """There are none of these tables, which are not documented; packages ask for them and go on without."""
    raise RefusedError(NOT_FOUND, "there are no tables of functions")
