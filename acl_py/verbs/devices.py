"""Starting and ending, devices and contexts."""

from enum import IntEnum
from itertools import chain

from acl_py.calls.acts import Destroyed, Made, Plain, Synchronised
from acl_py.calls.table import verb
from acl_py.errors import Kind
from acl_py.runtime.calls import Call, begin, begin_without_context
from acl_py.runtime.folds import refuse_shared
from acl_py.runtime.leaks import leaks_of
from acl_py.runtime.runtime import Limit
from acl_py.runtime.scopes import Scope, change
from acl_py.verbs.waits import limit_of
from device_model.completions import AllOf
from device_model.contexts import Context as Context
from device_model.device import Device
from device_model.errors import shown
from device_model.integers import Integer
from device_model.rules import ContextGone, Destroy, DeviceSync, HostCall, Reset
from device_model.rules import Init as InitRule


class Initialized:
    """How often Init was called, minus the calls of Finalize."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


@verb(acl="aclInit")
async def Init() -> None:
    """Begin to use the runtime.

    Stands for aclInit; CUDA has no such call. It is optional, because a simulation is ready when it starts. Under
    CUDA's rules calls are counted, and the Finalize() that matches the first one ends the runtime.

    Waits:
        all rules: For nothing.

    Raises:
        AclError: ALREADY_INITIALIZED at the second call under ACL's rules; nothing is changed by it.
    """
    _, runtime, site, enter = begin()
    runtime.pay(runtime.costs.other)
    initialized = runtime.state(Initialized)
    if initialized.count and runtime.rules.init is InitRule.ONCE:
        raise runtime.error(
            Kind.ALREADY_INITIALIZED, "Init() when the runtime is initialised already", "ignore this, or call it once"
        )
    initialized.count += 1
    runtime.called(Init.__name__, enter, site)


@verb(acl="aclFinalize", is_setting=True)
async def Finalize() -> list[str]:
    """Take back one Init(); after the last one no verb works any more.

    Stands for aclFinalize; CUDA has no such call.

    Waits:
        all rules: Until all devices are idle.

    Returns:
        The leaks: one line for each line of code whose memory was not freed, with the number of its allocations and
        their size.

    Raises:
        AclError: NOT_INITIALIZED without an Init().
        DeadlockError: Work on a device can never complete.
    """
    _, runtime, site, enter = begin()
    initialized = runtime.state(Initialized)
    if not initialized.count:
        raise runtime.error(Kind.NOT_INITIALIZED, "Finalize() without Init()", "call it once for each Init()")
    work = AllOf([device.work() for device in runtime.devices])
    await runtime.wait(work, "Finalize()", site, runtime.devices)
    runtime.pay(runtime.costs.other)
    initialized.count -= 1
    runtime.called(Finalize.__name__, enter, site)
    leaks = leaks_of(runtime)
    if not initialized.count:
        runtime.shut("the runtime was finalised at " + str(site))
    return leaks


@verb(acl="aclrtSetDevice", cuda="cudaSetDevice", step="set_device")
async def SetDevice(device: Integer) -> None:
    """Make the primary context of *device* current for the calling task and for the tasks it makes later.

    Stands for aclrtSetDevice and cudaSetDevice. Under ACL's rules each call counts as one use of the device, which
    ResetDevice() takes back.

    Args:
        device: The number of the device, from 0.

    Waits:
        all rules: For nothing (measured: set-device-busy).

    Raises:
        AclError: INVALID_DEVICE if there is no such device.
    """
    scope, runtime, site, enter = begin_without_context()
    target = runtime.device(device)
    refuse_shared(runtime, "SetDevice()", "a device", target.ordinal)
    runtime.pay(runtime.costs.set_device)
    target.uses += 1
    change(scope, target.primary)
    runtime.called(SetDevice.__name__, enter, site, Plain((target,)))


@verb(acl="aclrtGetDevice", cuda="cudaGetDevice")
async def GetDevice() -> int:
    """Return the number of the current device.

    Stands for aclrtGetDevice and cudaGetDevice.

    Waits:
        all rules: For nothing.

    Returns:
        The number, from 0.

    Raises:
        AclError: INVALID_CONTEXT under ACL's rules if no context is current, which is so after the current one was
            destroyed.
    """
    scope, runtime, site, enter = begin_without_context()
    if scope.context.destroyed is not None and runtime.rules.context_gone is ContextGone.NONE:
        raise runtime.context_error(scope.context)
    runtime.brief_call(GetDevice.__name__, enter, site)
    return scope.context.device.ordinal


@verb(acl="aclrtGetDeviceCount", cuda="cudaGetDeviceCount")
async def GetDeviceCount() -> int:
    """Return the number of devices.

    Stands for aclrtGetDeviceCount and cudaGetDeviceCount. The profile of the simulation has the number.

    Waits:
        all rules: For nothing.

    Returns:
        The number of devices, 1 or more.
    """
    _, runtime, site, enter = begin_without_context()
    runtime.brief_call(GetDeviceCount.__name__, enter, site)
    return runtime.profile.devices


class RunMode(IntEnum):
    """aclrtRunMode, with its values: where the program runs."""

    DEVICE = 0  # on the device itself, on a board without a host
    HOST = 1  # on a host with devices in it


@verb(acl="aclrtGetRunMode")
async def GetRunMode() -> RunMode:
    """Return where the program runs.

    Stands for aclrtGetRunMode; CUDA has no such call. The profile of the simulation says it. On a board without a host,
    NumPy sees device memory (`buffer.numpy()`), and pinned memory is memory of the device.

    Waits:
        all rules: For nothing.

    Returns:
        RunMode.HOST, or RunMode.DEVICE on a board without a host.
    """
    _, runtime, site, enter = begin_without_context()
    runtime.brief_call(GetRunMode.__name__, enter, site)
    return RunMode(runtime.profile.run_mode)


@verb(acl="aclrtResetDevice", cuda="cudaDeviceReset", does=HostCall.WAITS_FOR_DEVICE)
async def ResetDevice(device: Integer) -> None:
    """Destroy all contexts of *device* and free its memory.

    Stands for aclrtResetDevice and cudaDeviceReset. The device gets a new primary context, so a reset also mends a
    device whose work has failed or hangs: what is still queued has no effect then. Under ACL's rules a call takes back
    one SetDevice(), and only the last one resets the device; then no context is current.

    Args:
        device: The number of the device, from 0.

    Waits:
        cuda, cuda_per_thread: Until the work of all contexts of the device is done that have not failed (measured), or
            for nothing if work of the device hangs because of a fault rule.
        acl: The call that resets the device, until the work of its primary context is done, unless that context has
            failed.

    Raises:
        AclError: INVALID_DEVICE if there is no such device, or under ACL's rules if it is not in use.
        DeadlockError: The work can never complete.
    """
    _, runtime, _, _ = call = begin_without_context()
    target = runtime.device(device)
    if runtime.rules.reset is Reset.COUNTED and not target.uses:
        raise runtime.error(Kind.INVALID_DEVICE, f"{target!r} is not in use", "SetDevice() comes before ResetDevice()")
    await _reset(call, ResetDevice.__name__, target, max(target.uses - 1, 0))


@verb(acl="aclrtResetDeviceForce", does=HostCall.WAITS_FOR_DEVICE)
async def ResetDeviceForce(device: Integer) -> None:
    """Reset *device* as ResetDevice() does, however often SetDevice() was called.

    Stands for aclrtResetDeviceForce; CUDA's cudaDeviceReset does not count uses either.

    Args:
        device: The number of the device, from 0.

    Waits:
        cuda, cuda_per_thread: As ResetDevice() does.
        acl: Until the work of the primary context is done, unless that context has failed.

    Raises:
        AclError: INVALID_DEVICE if there is no such device.
        DeadlockError: The work can never complete.
    """
    _, runtime, _, _ = call = begin_without_context()
    await _reset(call, ResetDeviceForce.__name__, runtime.device(device), 0)


async def _reset(call: Call, name: str, device: Device, uses: int) -> None:
    """Take back uses of *device* until *uses* are left; with none left, or where uses are not counted, reset it."""
    scope, runtime, site, enter = call
    runtime.pay(runtime.costs.other)
    counted = runtime.rules.reset is Reset.COUNTED
    if not (counted and uses):
        contexts = [device.primary] if counted else device.contexts
        awaited = [each for each in contexts if each.error is None]  # work of a lost one may never end
        if awaited and (counted or not runtime.faults.hangs(device)):
            work = AllOf([each.work() for each in awaited])
            await runtime.wait(work, f"{name}({device.ordinal})", site, awaited, promised=counted)
        device.reset(site)
        device.reaches.clear()
        for each in runtime.devices:
            each.reaches.pop(device.ordinal, None)
        runtime.faults.end_hangs(device)
        if scope.context.device is device and runtime.rules.context_gone is ContextGone.PRIMARY:
            change(scope, device.primary)
    device.uses = uses
    runtime.called(name, enter, site, Destroyed(device))


@verb(acl="aclrtSynchronizeDevice", cuda="cudaDeviceSynchronize", does=HostCall.WAITS_FOR_DEVICE, step="sync_device")
async def SynchronizeDevice() -> None:
    """Wait until the work of the current device has completed.

    Stands for aclrtSynchronizeDevice and cudaDeviceSynchronize.

    Waits:
        cuda, cuda_per_thread: For all work of the device, in whichever context and stream.
        acl: For all work of the current context.

    Raises:
        AclError: The kind of the failure if the context has failed; under ACL's rules, if one of its streams has.
        DeadlockError: The work can never complete.
    """
    await _synchronize(begin(), SynchronizeDevice.__name__, None)


@verb(
    acl="aclrtSynchronizeDeviceWithTimeout",
    cuda="cudaDeviceSynchronize",
    does=HostCall.WAITS_FOR_DEVICE,
    step="sync_device",
)
async def SynchronizeDeviceWithTimeout(timeout: Integer) -> None:
    """Wait as SynchronizeDevice() does, for at most *timeout* milliseconds.

    Stands for aclrtSynchronizeDeviceWithTimeout; CUDA has no such call.

    Args:
        timeout: Milliseconds of simulated time, 1 or more; -1 is no limit.

    Waits:
        cuda, cuda_per_thread: For all work of the device, at most *timeout*.
        acl: For all work of the current context, at most *timeout*.

    Raises:
        AclError: STREAM_TIMEOUT if the time is over, in which case the work goes on; INVALID_VALUE for a *timeout* of 0
            or below -1; the kind of the failure if the context, or under ACL's rules a stream, has failed.
        DeadlockError: The work can never complete, and there is no limit.
        TypeError: *timeout* is not an int.
    """
    _, runtime, _, _ = call = begin()
    await _synchronize(call, SynchronizeDeviceWithTimeout.__name__, limit_of(runtime, timeout, Kind.STREAM_TIMEOUT))


async def _synchronize(call: Call, name: str, limit: Limit | None) -> None:
    scope, runtime, site, _ = call
    device = scope.context.device
    whole = runtime.rules.device_sync is DeviceSync.DEVICE
    completion = device.work() if whole else scope.context.work()
    contexts = device.contexts if whole else [scope.context]
    streams = chain.from_iterable([context.failing() for context in contexts])
    what = f"{name}() of {device!r}"
    subjects = (device if whole else scope.context,)
    await runtime.synchronize(
        name, completion, what, site, scope.context, streams, Synchronised(scope.context), limit, subjects=subjects
    )


@verb(acl="aclrtCreateContext", cuda="cuCtxCreate", step="create_context")
async def CreateContext(device: Integer) -> Context:
    """Create a context on *device*, with default streams of its own, and make it current.

    Stands for aclrtCreateContext and cuCtxCreate.

    Args:
        device: The number of the device, from 0.

    Waits:
        all rules: For nothing.

    Returns:
        The context, which is current now for the calling task and for the tasks it makes later.

    Raises:
        AclError: INVALID_DEVICE if there is no such device; NO_STREAM_LEFT if all streams of the device are in use.
    """
    scope, runtime, site, enter = begin_without_context()
    target = runtime.device(device)
    if not target.stream_ids.free:
        raise runtime.error(
            Kind.NO_STREAM_LEFT,
            f"all {target.stream_ids.limit} streams of {target!r} are in use, and a context needs one",
            "destroy those that are not needed",
        )
    runtime.pay(runtime.costs.other)
    context = target.create_context(site)
    change(scope, context)
    runtime.called(CreateContext.__name__, enter, site, Made(None, context))
    return context


@verb(acl="aclrtDestroyContext", cuda="cuCtxDestroy", step="destroy_context")
async def DestroyContext(context: Context) -> None:
    """Destroy *context* with its streams and events; its work completes.

    Stands for aclrtDestroyContext and cuCtxDestroy. A call that is cancelled while it waits has destroyed nothing. If
    the context is current, the primary context of its device becomes current; under ACL's rules none is current then.

    Args:
        context: The context, as CreateContext() returned it.

    Waits:
        cuda, cuda_per_thread: Until the work of *context* is done, unless it has failed (measured).
        acl: For nothing.

    Raises:
        AclError: INVALID_CONTEXT if *context* is destroyed, primary, or of another simulation.
        DeadlockError: Under CUDA's rules, the work can never complete.
        TypeError: *context* is not a context.
    """
    scope, runtime, site, enter = begin_without_context()
    _check(scope, context)
    if context.primary:
        raise runtime.error(Kind.INVALID_CONTEXT, f"{context!r} comes with its device", "use ResetDevice()")
    runtime.pay(runtime.costs.other)
    if runtime.rules.destroy_context is Destroy.WAITS and context.error is None:
        await runtime.wait(context.work(), f"DestroyContext({context!r})", site, (context,), promised=False)
        _check(scope, context)
    context.destroy(site)
    if scope.context is context and runtime.rules.context_gone is ContextGone.PRIMARY:
        change(scope, context.device.primary)
    runtime.called(DestroyContext.__name__, enter, site, Destroyed(context))


@verb(acl="aclrtSetCurrentContext", cuda="cuCtxSetCurrent", step="set_context")
async def SetCurrentContext(context: Context) -> None:
    """Make *context* current for the calling task and for the tasks it makes later.

    Stands for aclrtSetCurrentContext and cuCtxSetCurrent.

    Args:
        context: The context, as CreateContext() or GetCurrentContext() returned it.

    Waits:
        all rules: For nothing.

    Raises:
        AclError: INVALID_CONTEXT if *context* is destroyed or of another simulation.
        TypeError: *context* is not a context.
    """
    scope, runtime, site, enter = begin_without_context()
    _check(scope, context)
    runtime.pay(runtime.costs.set_device)
    change(scope, context)
    runtime.called(SetCurrentContext.__name__, enter, site, Plain((context,)))


@verb(acl="aclrtGetCurrentContext", cuda="cuCtxGetCurrent")
async def GetCurrentContext() -> Context:
    """Return the current context of the calling task.

    Stands for aclrtGetCurrentContext and cuCtxGetCurrent.

    Waits:
        all rules: For nothing.

    Returns:
        The context.
    """
    scope, runtime, site, enter = begin_without_context()
    runtime.brief_call(GetCurrentContext.__name__, enter, site)
    return scope.context


def _check(scope: Scope, context: object) -> None:
    if not isinstance(context, Context):
        raise TypeError(f"a context must be what CreateContext() gave, not {shown(context)}")
    if context.destroyed is not None or context.device.scheduler is not scope.runtime.scheduler:
        dead = context if context.destroyed is not None else None
        what = f"{context!r} is not of this simulation or gone"
        raise scope.runtime.error(Kind.INVALID_CONTEXT, what, "create one with CreateContext()", dead=dead)
