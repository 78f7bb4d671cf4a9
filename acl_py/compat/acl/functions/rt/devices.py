"""acl.rt: devices, what they are and can do, and contexts."""

import os
from hashlib import md5

import acl_py as native
from acl_py.compat.acl.face.binding import gives, runs
from acl_py.compat.acl.face.lookups import Running, end, resolved
from acl_py.compat.acl.face.session import CONTEXT_NULL, INVALID_DEVICE, PARAM_INVALID, Session
from acl_py.errors import Kind
from acl_py.runtime.calls import begin_without_context
from device_model.contexts import Context
from device_model.errors import DeviceError

_NORMAL, _ABNORMAL = 0, 1  # of a device
_SATURATION, _INFINITY = 0, 1  # what a number that is too large becomes
_RATES = ("cube_utilization", "vector_utilization", "aicpu_utilization", "memory_utilization", "utilization_extend")
_PARAMETERS = range(3)  # aclSysParamOpt: deterministic, debug kernels, strong consistency
_NOT_SET = 107021
_CORES = range(2)  # kinds of limited resources: cube and vector cores


# --- use


@runs("i")
def set_device(here: Session, device: int) -> Running:
    """Use *device*: its default context is current in this thread."""
    if not here.inits:
        here.warn_once("acl.rt was used before acl.init()")
    return native.SetDevice(device)


@runs("i")
def reset_device(here: Session, device: int) -> Running:
    """Undo one set_device; the last one waits for the device's default context and ends it."""
    return _reset(here, native.ResetDevice(device))


@runs("i")
def reset_device_force(here: Session, device: int) -> Running:
    """Reset the device, no matter how often set_device was called."""
    return _reset(here, native.ResetDeviceForce(device))


async def _reset(here: Session, verb: Running) -> None:
    try:
        await verb
    finally:  # also if what it waited for had failed
        here.forget_reset()
        here.buffers = {address: each for address, each in here.buffers.items() if each.allocation.freed is None}


@gives("")
def get_device(here: Session) -> int:
    """The device of the current context."""
    device: int = here.run(native.GetDevice())
    return device


@gives("")
def get_device_count(here: Session) -> int:
    """How many devices there are."""
    return here.runtime.profile.devices


@gives("")
def get_run_mode(here: Session) -> int:
    """Where this program runs: 1, on a host with cards in it; 0, on a board that has no host."""
    return here.runtime.profile.run_mode


@runs("i")
async def set_ts_device(here: Session, ts: int) -> None:
    """Choose one of two task schedulers, which makes no difference here."""
    if ts not in (0, 1):
        raise here.error(PARAM_INVALID, f"there is no task scheduler {ts}")


@runs("")
def synchronize_device(here: Session) -> Running:  # noqa: ARG001
    """Wait for all streams of the current context."""
    return native.SynchronizeDevice()


@runs("i")
def synchronize_device_with_timeout(here: Session, timeout: int) -> Running:  # noqa: ARG001
    """Wait for all streams of the current context for at most *timeout* milliseconds."""
    return native.SynchronizeDeviceWithTimeout(timeout)


async def _abort(ordinal: int) -> None:
    _, runtime, site, enter = begin_without_context("DeviceTaskAbort")
    device = runtime.device(ordinal)
    runtime.pay(runtime.costs.other)
    error = DeviceError(Kind.STREAM_ABORTED, f"{device!r} was aborted at {site}", "queue the work again")
    for context in device.contexts:
        for stream in context.everything():
            device.abort(stream, error)
    runtime.called("DeviceTaskAbort", enter, site)


@runs("iu")
def device_task_abort(here: Session, device: int, _: int) -> Running:  # noqa: ARG001
    """Drop the work of all streams of a device, at once whatever the time-out."""
    return _abort(device)


# --- what a device is


@gives("", failure=(0, 0))
def device_get_stream_priority_range(here: Session) -> tuple[int, int]:
    """Return the least and the most urgent priority of a stream, and the code."""
    priorities: tuple[int, int] = here.run(native.DeviceGetStreamPriorityRange())
    return priorities


def _known(here: Session, device: int) -> int:
    """Return *device*; raise AclError if there is no such device."""
    if 0 <= device < here.runtime.profile.devices:
        return device
    raise here.error(INVALID_DEVICE, f"there is no device {device}")


def _cores_of(here: Session) -> tuple[int, int]:
    """How many cube and vector cores a device has."""
    profile = here.runtime.profile
    if profile.aicore is None:
        return profile.cores.count, profile.cores.count
    return profile.aicore.cube_cores, profile.aicore.vector_cores


@gives("uu")
def get_device_info(here: Session, device: int, attribute: int) -> int:
    """A number about a device: AI cores (101), cube cores (102), vector cores (201), bytes of memory (301), or of L2
    (302).
    """
    _known(here, device)
    profile = here.runtime.profile
    cube, vector = _cores_of(here)
    numbers = {101: profile.cores.count, 102: cube, 201: vector, 301: profile.memory.bytes}
    if profile.aicore is not None:
        numbers[302] = profile.aicore.l2_bytes
    if attribute not in numbers:
        raise here.error(PARAM_INVALID, f"attribute {attribute} of a device is not known")
    return numbers[attribute]


@gives("iu")
def get_device_capability(here: Session, device: int, _: int) -> int:
    """Return whether a device has some special feature: 0, none has."""
    _known(here, device)
    return 0


@gives("i", failure=dict.fromkeys(_RATES, 0))
def get_device_utilization_rate(here: Session, device: int) -> dict[str, int]:
    """Per cent of the cores that are busy at this instant, and of the memory that is in use."""
    cores, count = here.runtime.device(_known(here, device)).cores, here.runtime.profile.cores.count
    busy = min(100, 100 * (count - cores.open_cores + cores.shared_blocks) // count)
    total = here.runtime.memory.total_bytes(device)
    memory = 100 * (total - here.runtime.memory.free_bytes(device)) // total
    return dict(zip(_RATES, (busy, busy, 0, memory, 0), strict=True))


@gives("i", failure=_NORMAL)
def query_device_status(here: Session, device: int) -> int:
    """Return the state of a device: 0 normal; 1 its default context is lost."""
    return _NORMAL if here.runtime.device(_known(here, device)).primary.error is None else _ABNORMAL


@gives("i", failure={"bytes": [0] * 16})
def device_get_uuid(here: Session, device: int) -> dict[str, list[int]]:
    """Sixteen bytes that no other device of this simulation has, the same in every run."""
    name = f"{here.runtime.profile.name}/{_known(here, device)}".encode()
    return {"bytes": list(md5(name, usedforsecurity=False).digest())}


@gives("")
def device_get_bare_tgid(here: Session) -> int:  # noqa: ARG001
    """The number of this process, as the host of the card sees it."""
    return os.getpid()


@gives("i")
def get_logic_dev_id_by_user_dev_id(here: Session, device: int) -> int:
    """The same number: all devices are visible."""
    return _known(here, device)


@gives("i")
def get_user_dev_id_by_logic_dev_id(here: Session, device: int) -> int:
    """The same number: all devices are visible."""
    return _known(here, device)


@gives("i")
def get_logic_dev_id_by_phy_dev_id(here: Session, device: int) -> int:
    """The same number: all devices are visible."""
    return _known(here, device)


@gives("i")
def get_phy_dev_id_by_logic_dev_id(here: Session, device: int) -> int:
    """The same number: all devices are visible."""
    return _known(here, device)


# --- limits on cores


def _limit(here: Session, kind: int) -> int:
    if kind not in _CORES:
        raise here.error(PARAM_INVALID, f"there is no resource {kind}")
    return _cores_of(here)[kind]


@gives("iu")
def get_device_res_limit(here: Session, device: int, kind: int) -> int:
    """How many cube (0) or vector (1) cores may be used: all of them."""
    _known(here, device)
    return _limit(here, kind)


@gives("ki")
def get_stream_res_limit(here: Session, stream: int, kind: int) -> int:
    """How many cube (0) or vector (1) cores the kernels of a stream may use: all of them."""
    here.run(resolved(here, stream))
    return _limit(here, kind)


@gives("i")
def get_res_in_current_thread(here: Session, kind: int) -> int:
    """How many cube (0) or vector (1) cores the kernels of this thread may use: all of them."""
    return _limit(here, kind)


# --- access between devices


@gives("ii")
def device_can_access_peer(here: Session, device: int, peer: int) -> int:
    """Return whether a device can be given access to the memory of another: 1, each can."""
    return int(here.run(native.DeviceCanAccessPeer(device, peer)))


@runs("iu")
def device_enable_peer_access(here: Session, peer: int, flags: int) -> Running:  # noqa: ARG001 - all of these get one
    """Let the current device use the memory of *peer*, which copies between the two need; *flags* is 0."""
    return native.DeviceEnablePeerAccess(peer, flags)


@runs("i")
def device_disable_peer_access(here: Session, peer: int) -> Running:  # noqa: ARG001 - all of these get one
    """Undo device_enable_peer_access."""
    return native.DeviceDisablePeerAccess(peer)


@gives("ii")
def device_peer_access_status(here: Session, device: int, peer: int) -> int:
    """Return whether access is enabled: 1 yes, 0 no."""
    return int(here.run(native.DevicePeerAccessStatus(device, peer)))


# --- contexts


@gives("i")
def create_context(here: Session, device: int) -> int:
    """Create a context on *device* and make it current."""
    return here.handle(here.run(native.CreateContext(device)))


@runs("k")
def destroy_context(here: Session, handle: int) -> Running:
    """Destroy a context; no context is current then if it was."""
    return end(here, native.DestroyContext, here.contexts, handle)


@runs("k")
def set_context(here: Session, handle: int) -> Running:
    """Make a context, and so its device, current in this thread."""
    return native.SetCurrentContext(here.contexts[handle])


async def _current(here: Session) -> Context:
    context = await native.GetCurrentContext()
    if context.destroyed is not None:
        raise here.error(CONTEXT_NULL, "no context is current in this thread")
    return context


@gives("")
def get_context(here: Session) -> int:
    """The context that is current in this thread."""
    return here.handle(here.run(_current(here)))


@gives("")
def ctx_get_current_default_stream(here: Session) -> int:
    """The handle of the default stream of the current context, for which 0 stands too."""
    return here.handle(here.run(_current(here)).default)


@gives("i", failure=(0, 0))
def get_primary_ctx_state(here: Session, device: int) -> tuple[int, int]:
    """Return whether the default context of a device is in use (1 yes), and its flags, which are 0."""
    return int(here.runtime.device(_known(here, device)).uses > 0), 0


# --- parameters without an effect


def _parameters(here: Session, context: Context | None = None) -> dict[int, int]:
    """Those of a context, or of the process."""
    return here.notes.setdefault(("parameters", context), {})  # type: ignore[no-any-return]


def _set(here: Session, values: dict[int, int], option: int, value: int) -> None:
    if option not in _PARAMETERS or value not in (0, 1):
        raise here.error(PARAM_INVALID, f"parameter {option} = {value}")
    values[option] = value


def _get(here: Session, values: dict[int, int], option: int) -> int:
    if option not in _PARAMETERS:
        raise here.error(PARAM_INVALID, f"there is no parameter {option}")
    if option not in values:
        raise here.error(_NOT_SET, f"parameter {option} was never set")
    return values[option]


@runs("iq")
async def set_sys_param_opt(here: Session, option: int, value: int) -> None:
    """Set a parameter of this process; results are deterministic here in any case."""
    _set(here, _parameters(here), option, value)


@gives("i")
def get_sys_param_opt(here: Session, option: int) -> int:
    """What set_sys_param_opt set."""
    return _get(here, _parameters(here), option)


@runs("iq")
async def ctx_set_sys_param_opt(here: Session, option: int, value: int) -> None:
    """Set a parameter of the current context."""
    _set(here, _parameters(here, await _current(here)), option, value)


@gives("i")
def ctx_get_sys_param_opt(here: Session, option: int) -> int:
    """What ctx_set_sys_param_opt set."""
    return _get(here, _parameters(here, here.run(_current(here))), option)


@runs("i")
async def set_device_sat_mode(here: Session, mode: int) -> None:
    """Say what a number that is too large becomes: the largest (0), or infinity (1), which it does here in any case."""
    device = await native.GetDevice()
    if mode not in (_SATURATION, _INFINITY):
        raise here.error(PARAM_INVALID, f"there is no overflow mode {mode}")
    if mode == _SATURATION:
        here.warn_once("numbers that are too large become infinity, also with acl.rt.set_device_sat_mode(0)")
    here.notes["saturation", device] = mode


@gives("")
def get_device_sat_mode(here: Session) -> int:
    """What set_device_sat_mode set."""
    mode: int = here.notes.get(("saturation", here.run(native.GetDevice())), _INFINITY)
    return mode
