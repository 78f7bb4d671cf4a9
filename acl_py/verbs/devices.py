"""Starting and ending, devices and contexts."""

from sys import _getframe

from acl_py.errors import Kind
from acl_py.runtime.runtime import Limit, Runtime
from acl_py.runtime.scopes import Scope, change, current, here
from acl_py.sites import Site, site_of
from acl_py.verbs.streams import limit_of
from device_model.completions import AllOf
from device_model.contexts import Context as Context
from device_model.device import Device
from device_model.rules import ContextGone, DeviceSync, Reset
from device_model.rules import Init as InitRule


async def Init() -> None:
    """Begin to use the runtime. Optional: a simulation is ready when it starts. Counted; under ACL's rules a second one
    is refused, without harm.
    """
    scope = current()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    runtime.pay(runtime.costs.other)
    if runtime.initialized and runtime.rules.init is InitRule.ONCE:
        raise runtime.error(
            Kind.ALREADY_INITIALIZED, "Init() when the runtime is initialised already", "ignore this, or call it once"
        )
    runtime.initialized += 1
    runtime.called("Init", enter, site)


async def Finalize() -> list[str]:
    """End what Init began; after the last one no verb works any more.

    Returns the leaks: one line for each allocation that was not freed, saying what it is and who made it.
    """
    scope = current()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    if not runtime.initialized:
        raise runtime.error(Kind.NOT_INITIALIZED, "Finalize() without Init()", "call it once for each Init()")
    await runtime.wait(AllOf([device.work() for device in runtime.devices]), "Finalize()", site)
    runtime.pay(runtime.costs.other)
    runtime.initialized -= 1
    runtime.called("Finalize", enter, site)
    leaks = leaks_of(runtime)
    if not runtime.initialized:
        runtime.shut("the runtime was finalised at " + str(site))
    return leaks


def leaks_of(runtime: Runtime) -> list[str]:
    """What was not freed, a line each."""
    return [f"{allocation!r} was never freed" for allocation in runtime.memory.leaks()]


async def SetDevice(device: int) -> None:
    """Make the primary context of *device* current for the calling task and those it makes later. ResetDevice counts
    how often this was called, under ACL's rules.
    """
    scope = here()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    found = runtime.device(device)
    runtime.pay(runtime.costs.set_device)
    found.uses += 1
    change(scope, found.primary)
    runtime.called("SetDevice", enter, site)


async def GetDevice() -> int:
    """The number of the current device."""
    scope = here()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    if scope.context.destroyed is not None and runtime.rules.context_gone is ContextGone.NONE:
        raise runtime.lost(scope.context)
    runtime.pay(runtime.costs.other)
    runtime.called("GetDevice", enter, site)
    return scope.context.device.ordinal


async def GetDeviceCount() -> int:
    """How many devices there are."""
    scope = here()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    runtime.pay(runtime.costs.other)
    runtime.called("GetDeviceCount", enter, site)
    return runtime.profile.devices


async def ResetDevice(device: int) -> None:
    """Destroy all contexts of *device* and free its memory, at once; what is still queued has no effect any more.

    It leaves a fresh primary context, so it also mends a device whose work has failed. Under ACL's rules it takes back
    one SetDevice; the last one waits for the work of the primary context, and then no context is current.
    """
    scope = here()
    runtime, site = scope.runtime, site_of(_getframe(1))
    found = runtime.device(device)
    if runtime.rules.reset is Reset.COUNTED and not found.uses:
        raise runtime.error(Kind.INVALID_DEVICE, f"{found!r} is not in use", "SetDevice() comes before ResetDevice()")
    await _reset(scope, "ResetDevice", found, max(found.uses - 1, 0), site)


async def ResetDeviceForce(device: int) -> None:
    """ResetDevice, however often SetDevice was called."""
    scope = here()
    await _reset(scope, "ResetDeviceForce", scope.runtime.device(device), 0, site_of(_getframe(1)))


async def _reset(scope: Scope, name: str, device: Device, uses: int, site: Site) -> None:
    runtime, enter = scope.runtime, scope.runtime.host_ns
    runtime.pay(runtime.costs.other)
    counted = runtime.rules.reset is Reset.COUNTED
    if not (counted and uses):
        if counted and device.primary.error is None:  # what a lost context has queued has no effect, and may never end
            await runtime.wait(device.primary.work(), f"{name}({device.ordinal})", site)
        device.reset(site)
        device.reaches.clear()
        for each in runtime.devices:
            each.reaches.pop(device.ordinal, None)
        runtime.unsubscribe_destroyed()
        runtime.faults.end_hangs(device)
        if scope.context.device is device and runtime.rules.context_gone is ContextGone.PRIMARY:
            change(scope, device.primary)
    device.uses = uses
    runtime.called(name, enter, site)


async def SynchronizeDevice() -> None:
    """Wait until all work of the current device has completed, whichever stream it is in; under ACL's rules, that of
    the current context.

    Raises:
        AclError: the work of the context failed; under ACL's rules, that of one of its streams.
        DeadlockError: it can never complete.
    """
    await _synchronize(current(), "SynchronizeDevice", None, site_of(_getframe(1)))


async def SynchronizeDeviceWithTimeout(timeout: int) -> None:
    """SynchronizeDevice for *timeout* milliseconds of simulated time at the longest, or for ever if that is -1; see
    SynchronizeStreamWithTimeout.
    """
    scope = current()
    limit = limit_of(scope.runtime, timeout, Kind.STREAM_TIMEOUT)
    await _synchronize(scope, "SynchronizeDeviceWithTimeout", limit, site_of(_getframe(1)))


async def _synchronize(scope: Scope, name: str, limit: Limit | None, site: Site) -> None:
    device = scope.context.device
    whole = scope.runtime.rules.device_sync is DeviceSync.DEVICE
    completion = device.work() if whole else scope.context.work()
    contexts = device.contexts if whole else [scope.context]
    streams = [stream for context in contexts for stream in context.everything()]
    what = f"{name}() of {device!r}"
    await scope.runtime.synchronize(name, completion, what, site, scope.context, streams, limit)


async def CreateContext(device: int) -> Context:
    """Create a context on *device*, with default streams of its own, and make it current."""
    scope = here()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    found = runtime.device(device)
    if not found.stream_ids.free:
        raise runtime.error(
            Kind.NO_STREAM_LEFT,
            f"all {found.stream_ids.limit} streams of {found!r} are in use, and a context needs one",
            "destroy those that are not needed",
        )
    runtime.pay(runtime.costs.other)
    context = found.create_context(site)
    change(scope, context)
    runtime.called("CreateContext", enter, site)
    return context


async def DestroyContext(context: Context) -> None:
    """Destroy *context*; its work completes, its streams and events are gone. If it is current, the device's primary
    one becomes so; under ACL's rules none is then.
    """
    scope = here()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    _check(scope, context)
    if context.primary:
        raise runtime.error(Kind.INVALID_CONTEXT, f"{context!r} comes with its device", "use ResetDevice()")
    runtime.pay(runtime.costs.other)
    context.destroy(site)
    runtime.unsubscribe_destroyed()
    if scope.context is context and runtime.rules.context_gone is ContextGone.PRIMARY:
        change(scope, context.device.primary)
    runtime.called("DestroyContext", enter, site)


async def SetCurrentContext(context: Context) -> None:
    """Make *context* current for the calling task and those it makes later."""
    scope = here()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    _check(scope, context)
    runtime.pay(runtime.costs.set_device)
    change(scope, context)
    runtime.called("SetCurrentContext", enter, site)


async def GetCurrentContext() -> Context:
    """The current context of the calling task."""
    scope = here()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    runtime.pay(runtime.costs.other)
    runtime.called("GetCurrentContext", enter, site)
    return scope.context


def _check(scope: Scope, context: object) -> None:
    if not isinstance(context, Context):
        raise TypeError(f"a context must be what CreateContext() gave, not {context!r}")
    if context.destroyed is not None or context.device.scheduler is not scope.runtime.scheduler:
        raise scope.runtime.error(
            Kind.INVALID_CONTEXT, f"{context!r} is not of this simulation or gone", "create one with CreateContext()"
        )
