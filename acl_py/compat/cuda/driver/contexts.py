"""Contexts: primary ones, own ones, and the stack of each thread."""

import acl_py as native
from acl_py.compat.cuda.driver.devices import device
from acl_py.compat.cuda.face.calls import answers
from acl_py.compat.cuda.face.codes import INVALID_CONTEXT, INVALID_VALUE, RefusedError, code_of
from acl_py.compat.cuda.face.state import Driver
from device_model.contexts import Context

_API_VERSION = 3020
_LIMITS = {0: 1024, 1: 1 << 20, 2: 8 << 20, 3: 2, 4: 2048, 5: 128, 6: 0}  # CUlimit: what a new context has


@answers("cuDevicePrimaryCtxRetain")
async def retain(driver: Driver, ordinal: int) -> Context:
    """The primary context of a device. After a failure that has lost it, a reset does not bring it back (measured)."""
    primary = device(driver, ordinal).primary
    if (code := driver.lost.get(ordinal)) is not None:
        raise RefusedError(code, f"device {ordinal} has failed, and only a new process can use it again")
    driver.retained[ordinal] = driver.retained.get(ordinal, 0) + 1
    return primary


@answers("cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxRelease")
async def release(driver: Driver, ordinal: int) -> None:
    """Take back one retain; the last one resets the device."""
    device(driver, ordinal)
    if not driver.retained.get(ordinal):
        raise RefusedError(INVALID_CONTEXT, f"the primary context of device {ordinal} was not retained")
    driver.retained[ordinal] -= 1
    if not driver.retained[ordinal]:
        await _reset(driver, ordinal)


@answers("cuDevicePrimaryCtxReset_v2", "cuDevicePrimaryCtxReset")
async def reset(driver: Driver, ordinal: int) -> None:
    """Destroy all that the primary context has."""
    await _reset(driver, ordinal)


async def _reset(driver: Driver, ordinal: int) -> None:
    primary = device(driver, ordinal).primary
    if primary.error is not None:
        driver.lost[ordinal] = code_of(driver.runtime.context_error(primary))
    scope = driver.thread.scope
    current = scope.context
    await native.ResetDevice(ordinal)
    scope.context = current  # it stays current, and is gone
    driver.handles.forget(primary)


@answers("cuDevicePrimaryCtxGetState")
async def state(driver: Driver, ordinal: int) -> tuple[int, int]:
    """The flags of a primary context, and whether it is in use."""
    device(driver, ordinal)
    return 0, int(bool(driver.retained.get(ordinal)))


@answers("cuDevicePrimaryCtxSetFlags_v2", "cuDevicePrimaryCtxSetFlags")
async def set_flags(driver: Driver, ordinal: int, _flags: int) -> None:
    """Do nothing: flags say how a host waits, which is the same here."""
    device(driver, ordinal)


@answers("cuCtxCreate_v2")
async def create(driver: Driver, _flags: int, ordinal: int) -> Context:
    """Create a context and make it current, above the one that is."""
    driver.thread.push()
    return await native.CreateContext(ordinal)


@answers("cuCtxCreate_v4")
async def create_v4(driver: Driver, parameters: int, flags: int, ordinal: int) -> Context:
    """Create a context; parameters are for parts of a device, which are not simulated."""
    if parameters:
        raise driver.runtime.error(native.Kind.NOT_SUPPORTED, "a context for a part of a device", "pass no parameters")
    return await create(driver, flags, ordinal)


@answers("cuCtxDestroy_v2")
async def destroy(driver: Driver, context: Context | None) -> None:
    """Wait for the work of a context, and destroy it."""
    if context is None:
        raise RefusedError(INVALID_CONTEXT, "the context is 0")
    thread = driver.thread
    is_current = thread.has_context and thread.context is context
    await native.DestroyContext(context)
    driver.handles.forget(context)
    if is_current:
        thread.pop()


@answers("cuCtxSetCurrent")
async def set_current(driver: Driver, context: Context | None) -> None:
    """Put a context in the place of the current one; 0 takes the current one off the stack."""
    if context is None:
        driver.thread.pop()
    else:
        await native.SetCurrentContext(context)


@answers("cuCtxGetCurrent", reads=True)
async def get_current(driver: Driver) -> Context | None:
    """The current context; 0 if there is none."""
    thread = driver.thread
    return thread.context if thread.has_context else None


@answers("cuCtxPushCurrent_v2")
async def push(driver: Driver, context: Context | None) -> None:
    """Make a context current, above the one that is."""
    if context is None:
        raise RefusedError(INVALID_CONTEXT, "the context is 0")
    driver.thread.push()
    await native.SetCurrentContext(context)


@answers("cuCtxPopCurrent_v2")
async def pop(driver: Driver) -> Context:
    """Go back to the context below the current one, and return the one that was current."""
    context = driver.thread.context
    driver.thread.pop()
    return context


@answers("cuCtxGetDevice", question=INVALID_CONTEXT, reads=True)
async def get_device(driver: Driver) -> int:
    """The device of the current context."""
    return driver.thread.context.device.ordinal


@answers("cuCtxGetDevice_v2")
async def get_device_of(driver: Driver, context: Context | None) -> int:
    """The device of a context; of the current one for 0."""
    return (context or driver.thread.context).device.ordinal


@answers("cuCtxGetId")
async def get_id(driver: Driver, context: Context | None) -> int:
    """A number that no other context has."""
    return driver.handle("context", context or driver.thread.context)


@answers("cuCtxGetApiVersion")
async def get_api_version(*_: object) -> int:
    """The version with which a context was made."""
    return _API_VERSION


@answers("cuCtxSynchronize")
async def synchronize(_: Driver) -> None:
    """Wait for the work of the device."""
    await native.SynchronizeDevice()


@answers("cuCtxGetStreamPriorityRange")
async def priority_range(_: Driver) -> tuple[int, int]:
    """The priorities that streams may have: the least urgent and the most urgent one."""
    return await native.DeviceGetStreamPriorityRange()


@answers("cuCtxGetLimit")
async def get_limit(driver: Driver, limit: int) -> int:
    """A limit of the current context."""
    value: int = driver.notes.get(("limit", driver.thread.context, _limit(limit)), _LIMITS[limit])
    return value


@answers("cuCtxSetLimit")
async def set_limit(driver: Driver, limit: int, value: int) -> None:
    """Set a limit; it is kept, and changes nothing."""
    driver.notes["limit", driver.thread.context, _limit(limit)] = value


def _limit(limit: int) -> int:
    if limit not in _LIMITS:
        raise RefusedError(INVALID_VALUE, f"there is no limit {limit}")
    return limit


@answers("cuCtxEnablePeerAccess")
async def enable_peer(_: Driver, peer: Context | None, flags: int) -> None:
    """Give the current device access to the memory of another."""
    await native.DeviceEnablePeerAccess(_peer(peer), flags)


@answers("cuCtxDisablePeerAccess")
async def disable_peer(_: Driver, peer: Context | None) -> None:
    """End this access."""
    await native.DeviceDisablePeerAccess(_peer(peer))


def _peer(context: Context | None) -> int:
    if context is None:
        raise RefusedError(INVALID_CONTEXT, "the context is 0")
    return context.device.ordinal
