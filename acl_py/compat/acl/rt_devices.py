"""acl.rt: devices, what they are and can do, and contexts."""

import os
from collections.abc import Coroutine
from hashlib import md5
from sys import _getframe
from typing import Any

import acl_py as native
from acl_py.compat.acl.binding import runs, takes
from acl_py.compat.acl.lookups import Running, end, made, resolved
from acl_py.compat.acl.session import CONTEXT_NULL, INVALID_DEVICE, PARAM_INVALID, SUCCESS, Session, session
from acl_py.errors import Kind
from acl_py.scopes import here as scope_here
from acl_py.sites import site_of
from device_model.errors import DeviceError

_ACL_HOST = 1  # the run mode of a host with cards in it
_LEAST, _GREATEST = 7, 0  # priorities
_NORMAL, _ABNORMAL = 0, 1  # of a device
_SATURATION, _INFINITY = 0, 1  # what a number that is too large becomes
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


@takes("i")
def reset_device(device: int) -> int:
    """Take back one set_device; the last one waits for the device's default context and ends it."""
    return _reset(native.ResetDevice(device))


def _reset(verb: Coroutine[Any, Any, None]) -> int:
    here = session()
    ret = here.ret(verb)
    here.buffers = {address: each for address, each in here.buffers.items() if each.allocation.freed is None}
    return ret


@takes("i")
def reset_device_force(device: int) -> int:
    """reset_device, however often set_device was called."""
    return _reset(native.ResetDeviceForce(device))


@takes("")
def get_device() -> tuple[int, int]:
    """The device of the current context."""
    value, ret = session().call(native.GetDevice())
    return value or 0, ret


@takes("")
def get_device_count() -> tuple[int, int]:
    """How many devices there are."""
    return session().runtime.profile.devices, SUCCESS


@takes("")
def get_run_mode() -> tuple[int, int]:
    """Where this program runs: 1, on a host with cards in it."""
    session()
    return _ACL_HOST, SUCCESS


@takes("i")
def set_ts_device(ts: int) -> int:
    """Choose one of two task schedulers, which makes no difference here."""
    return SUCCESS if ts in (0, 1) else session().refuse(PARAM_INVALID, f"there is no task scheduler {ts}")


@runs("")
def synchronize_device(here: Session) -> Running:  # noqa: ARG001 - all of these get one
    """Wait for all streams of the current context."""
    return native.SynchronizeDevice()


@runs("i")
def synchronize_device_with_timeout(here: Session, timeout: int) -> Running:  # noqa: ARG001
    """The same, for *timeout* milliseconds at the longest."""
    return native.SynchronizeDeviceWithTimeout(timeout)


async def _abort(ordinal: int) -> None:
    scope, site = scope_here(), site_of(_getframe(1))
    runtime, enter = scope.runtime, scope.runtime.host_ns
    device = runtime.device(ordinal)
    runtime.pay(runtime.costs.other)
    error = DeviceError(Kind.STREAM_ABORTED, f"{device!r} was told to abort at {site}", "queue the work again")
    for context in device.contexts:
        for stream in context.everything():
            device.abort(stream, error)
    runtime.called("DeviceTaskAbort", enter, site)


@takes("iu")
def device_task_abort(device: int, _: int) -> int:
    """Drop the work of all streams of a device, at once whatever the time-out."""
    return session().ret(_abort(device))


# --- what a device is


@takes("")
def device_get_stream_priority_range() -> tuple[int, int, int]:
    """The least and the most urgent priority of a stream."""
    session()
    return _LEAST, _GREATEST, SUCCESS


def _known(here: Session, device: int) -> int:
    """The code of using *device* as a number: 0 if there is one."""
    if 0 <= device < here.runtime.profile.devices:
        return SUCCESS
    return here.refuse(INVALID_DEVICE, f"there is no device {device}")


def _same(device: int) -> tuple[int, int]:
    """The number of *device*, which has one only."""
    code = _known(session(), device)
    return (0 if code else device), code


def _cores_of(here: Session) -> tuple[int, int]:
    """How many cube and vector cores a device has."""
    profile = here.runtime.profile
    if profile.aicore is None:
        return profile.cores.count, profile.cores.count
    return profile.aicore.cube_cores, profile.aicore.vector_cores


@takes("uu")
def get_device_info(device: int, attribute: int) -> tuple[int, int]:
    """A number about a device: AI cores (101), cube cores (102), vector cores (201), bytes of memory (301), or of L2
    (302).
    """
    here = session()
    profile = here.runtime.profile
    code = _known(here, device)
    if code:
        return 0, code
    cube, vector = _cores_of(here)
    numbers = {101: profile.cores.count, 102: cube, 201: vector, 301: profile.memory.bytes}
    if profile.aicore is not None:
        numbers[302] = profile.aicore.l2_bytes
    if attribute in numbers:
        return numbers[attribute], SUCCESS
    return 0, here.refuse(PARAM_INVALID, f"attribute {attribute} of a device is not known")


@takes("iu")
def get_device_capability(device: int, _: int) -> tuple[int, int]:
    """Has a device some special feature? 0: none has."""
    return 0, _known(session(), device)


@takes("i")
def get_device_utilization_rate(device: int) -> tuple[dict[str, int], int]:
    """Per cent of the cores that are busy at this instant, and of the memory that is in use."""
    here = session()
    code = _known(here, device)
    busy = memory = 0
    if not code:
        cores, count = here.runtime.device(device).cores, here.runtime.profile.cores.count
        busy = min(100, 100 * (count - cores.open_cores + cores.shared_blocks) // count)
        total = here.runtime.memory.total_bytes(device)
        memory = 100 * (total - here.runtime.memory.free_bytes(device)) // total
    rates = {"cube_utilization": busy, "vector_utilization": busy, "aicpu_utilization": 0}
    return rates | {"memory_utilization": memory, "utilization_extend": 0}, code


@takes("i")
def query_device_status(device: int) -> tuple[int, int]:
    """Is a device well? 0 yes; 1: its default context is lost."""
    here = session()
    code = _known(here, device)
    if code:
        return _NORMAL, code
    return (_NORMAL if here.runtime.device(device).primary.error is None else _ABNORMAL), SUCCESS


@takes("i")
def device_get_uuid(device: int) -> tuple[dict[str, list[int]], int]:
    """Sixteen bytes that no other device of this simulation has, the same in every run."""
    here = session()
    code = _known(here, device)
    name = f"{here.runtime.profile.name}/{device}".encode()
    return {"bytes": [0] * 16 if code else list(md5(name, usedforsecurity=False).digest())}, code


@takes("")
def device_get_bare_tgid() -> tuple[int, int]:
    """The number of this process, as the host of the card sees it."""
    return os.getpid(), SUCCESS


@takes("i")
def get_logic_dev_id_by_user_dev_id(device: int) -> tuple[int, int]:
    """The same number: all devices are visible."""
    return _same(device)


@takes("i")
def get_user_dev_id_by_logic_dev_id(device: int) -> tuple[int, int]:
    """The same number: all devices are visible."""
    return _same(device)


@takes("i")
def get_logic_dev_id_by_phy_dev_id(device: int) -> tuple[int, int]:
    """The same number: all devices are visible."""
    return _same(device)


@takes("i")
def get_phy_dev_id_by_logic_dev_id(device: int) -> tuple[int, int]:
    """The same number: all devices are visible."""
    return _same(device)


# --- cores to be had


def _limit(here: Session, kind: int) -> tuple[int, int]:
    if kind not in _CORES:
        return 0, here.refuse(PARAM_INVALID, f"there is no resource {kind}")
    return _cores_of(here)[kind], SUCCESS


@takes("iu")
def get_device_res_limit(device: int, kind: int) -> tuple[int, int]:
    """How many cube (0) or vector (1) cores may be used: all of them."""
    here = session()
    code = _known(here, device)
    return (0, code) if code else _limit(here, kind)


@takes("ki")
def get_stream_res_limit(stream: int, kind: int) -> tuple[int, int]:
    """How many cube (0) or vector (1) cores the kernels of a stream may use: all of them."""
    here = session()
    _, code = here.call(resolved(here, stream))
    return (0, code) if code else _limit(here, kind)


@takes("i")
def get_res_in_current_thread(kind: int) -> tuple[int, int]:
    """How many cube (0) or vector (1) cores the kernels of this thread may use: all of them."""
    return _limit(session(), kind)


# --- devices that reach one another


def _peers(here: Session) -> set[tuple[int, int]]:
    return here.notes.setdefault("peers", set())  # type: ignore[no-any-return]


def _this_device(here: Session) -> tuple[int, int]:
    value, ret = here.call(native.GetDevice())
    return (-1 if ret else value), ret


@takes("ii")
def device_can_access_peer(device: int, peer: int) -> tuple[int, int]:
    """May a device use the memory of another one? 1: each may."""
    here = session()
    code = _known(here, device) or _known(here, peer)
    return int(not code and device != peer), code


@takes("iu")
def device_enable_peer_access(peer: int, flags: int) -> int:
    """Let the current device use the memory of *peer*; *flags* is 0. Copies do not ask for it."""
    here = session()
    device, code = _this_device(here)
    code = code or _known(here, peer)
    if code:
        return code
    if flags or peer == device:
        return here.refuse(PARAM_INVALID, f"access from device {device} to {peer} with flags {flags}")
    _peers(here).add((device, peer))
    return SUCCESS


@takes("i")
def device_disable_peer_access(peer: int) -> int:
    """Take device_enable_peer_access back."""
    here = session()
    device, code = _this_device(here)
    code = code or _known(here, peer)
    if code:
        return code
    if (device, peer) not in _peers(here):
        return here.refuse(PARAM_INVALID, f"access from device {device} to {peer} is not enabled")
    _peers(here).remove((device, peer))
    return SUCCESS


@takes("ii")
def device_peer_access_status(device: int, peer: int) -> tuple[int, int]:
    """Is access enabled? 1 yes, 0 no."""
    here = session()
    code = _known(here, device) or _known(here, peer)
    return int(not code and (device, peer) in _peers(here)), code


# --- contexts


@takes("i")
def create_context(device: int) -> tuple[int, int]:
    """Create a context on *device* and make it current."""
    here = session()
    return made(here, native.CreateContext(device))


@runs("k")
def destroy_context(here: Session, handle: int) -> Running:
    """Destroy a context; no context is current then if it was."""
    return end(here, native.DestroyContext, here.contexts, handle)


@runs("k")
def set_context(here: Session, handle: int) -> Running:
    """Make a context, and so its device, current in this thread."""
    return native.SetCurrentContext(here.contexts[handle])


@takes("")
def get_context() -> tuple[int, int]:
    """The context that is current in this thread."""
    here = session()
    context, ret = here.call(native.GetCurrentContext())
    if ret or context.destroyed is not None:
        return 0, ret or here.refuse(CONTEXT_NULL, "no context is current in this thread")
    return here.handle(context), SUCCESS


@takes("")
def ctx_get_current_default_stream() -> tuple[int, int]:
    """The handle of the default stream of the current context, for which 0 stands too."""
    here = session()
    context, ret = here.call(native.GetCurrentContext())
    if ret or context.destroyed is not None:
        return 0, ret or here.refuse(CONTEXT_NULL, "no context is current in this thread")
    return here.handle(context.default), SUCCESS


@takes("i")
def get_primary_ctx_state(device: int) -> tuple[int, int, int]:
    """Is the default context of a device in use? 1 yes; and its flags, of which there are none."""
    here = session()
    code = _known(here, device)
    return int(not code and here.runtime.device(device).uses > 0), 0, code


# --- parameters without an effect


def _parameters(here: Session, *whose: Any) -> dict[int, int]:
    return here.notes.setdefault(("parameters", *whose), {})  # type: ignore[no-any-return]


def _set(here: Session, values: dict[int, int], option: int, value: int) -> int:
    if option not in _PARAMETERS or value not in (0, 1):
        return here.refuse(PARAM_INVALID, f"parameter {option} = {value}")
    values[option] = value
    return SUCCESS


def _get(here: Session, values: dict[int, int], option: int) -> tuple[int, int]:
    if option not in _PARAMETERS:
        return 0, here.refuse(PARAM_INVALID, f"there is no parameter {option}")
    if option not in values:
        return 0, here.refuse(_NOT_SET, f"parameter {option} was never set")
    return values[option], SUCCESS


@takes("iq")
def set_sys_param_opt(option: int, value: int) -> int:
    """Set a parameter of this process; results are deterministic here in any case."""
    here = session()
    return _set(here, _parameters(here), option, value)


@takes("i")
def get_sys_param_opt(option: int) -> tuple[int, int]:
    """What set_sys_param_opt set."""
    here = session()
    return _get(here, _parameters(here), option)


@takes("iq")
def ctx_set_sys_param_opt(option: int, value: int) -> int:
    """Set a parameter of the current context."""
    here = session()
    context, ret = get_context()
    return ret or _set(here, _parameters(here, context), option, value)


@takes("i")
def ctx_get_sys_param_opt(option: int) -> tuple[int, int]:
    """What ctx_set_sys_param_opt set."""
    here = session()
    context, ret = get_context()
    return (0, ret) if ret else _get(here, _parameters(here, context), option)


@takes("i")
def set_device_sat_mode(mode: int) -> int:
    """Say what a number that is too large becomes: the largest (0), or infinity (1), which it does here in any case."""
    here = session()
    device, code = _this_device(here)
    if code:
        return code
    if mode not in (_SATURATION, _INFINITY):
        return here.refuse(PARAM_INVALID, f"there is no overflow mode {mode}")
    if mode == _SATURATION:
        here.warn_once("numbers that are too large become infinity, also with acl.rt.set_device_sat_mode(0)")
    here.notes["saturation", device] = mode
    return SUCCESS


@takes("")
def get_device_sat_mode() -> tuple[int, int]:
    """What set_device_sat_mode set."""
    here = session()
    device, code = _this_device(here)
    return (0, code) if code else (here.notes.get(("saturation", device), _INFINITY), SUCCESS)
