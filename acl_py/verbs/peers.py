"""Access from one device to the memory of another, as aclrt and CUDA have it: one way, for all contexts of a device.

A copy between two devices takes the link between them if one of the two has access to the other. Without it CUDA's
rules let the copy go through the host, which is slower (measured on two H200s); under ACL's rules the copy fails on the
device.
"""

from acl_py.calls.table import verb
from acl_py.errors import Kind
from acl_py.runtime.calls import begin, begin_without_context
from acl_py.runtime.runtime import Runtime
from device_model.integers import Integer
from device_model.rules import PeerAccess


@verb(acl="aclrtDeviceCanAccessPeer", cuda="cudaDeviceCanAccessPeer")
async def DeviceCanAccessPeer(device: Integer, peer: Integer) -> bool:
    """Return whether *device* can be given access to the memory of *peer*.

    Stands for aclrtDeviceCanAccessPeer and cudaDeviceCanAccessPeer.

    Args:
        device: The number of the device that would have access.
        peer: The number of the device whose memory it is.

    Waits:
        all rules: For nothing.

    Returns:
        True for two different devices of a simulation, False for a device and itself. On a card the driver answers.

    Raises:
        AclError: INVALID_DEVICE if there is no such device.
    """
    _, runtime, site, enter = begin_without_context()
    can = runtime.device(device).can_reach(runtime.device(peer))
    runtime.brief_call(DeviceCanAccessPeer.__name__, enter, site)
    return can


@verb(acl="aclrtDeviceEnablePeerAccess", cuda="cudaDeviceEnablePeerAccess", is_setting=True)
async def DeviceEnablePeerAccess(peer: Integer, flags: int = 0) -> None:
    """Give the current device access to the memory of *peer*.

    Stands for aclrtDeviceEnablePeerAccess and cudaDeviceEnablePeerAccess. The access lasts until
    DeviceDisablePeerAccess(), or until one of the devices is reset. To enable it twice does nothing under ACL's rules.

    Args:
        peer: The number of the other device.
        flags: 0; there are no flags.

    Waits:
        all rules: For nothing.

    Raises:
        AclError: PEER_ACCESS_ENABLED at the second call under CUDA's rules; INVALID_DEVICE if there is no such device;
            INVALID_VALUE if *peer* is the current device or *flags* is not 0.
    """
    scope, runtime, site, enter = begin()
    device = scope.context.device
    peer = _check_peer(runtime, device.ordinal, peer)
    if flags != 0:
        raise runtime.error(Kind.INVALID_VALUE, f"flags {flags!r}", "there are none: flags must be 0")
    if peer in device.reaches and runtime.rules.peer_access is PeerAccess.FOR_SPEED:
        raise runtime.error(
            Kind.PEER_ACCESS_ENABLED, f"{device!r} has access to device {peer} already", "nothing has changed"
        )
    runtime.pay(runtime.costs.other)
    device.reach(runtime.device(peer))
    runtime.called(DeviceEnablePeerAccess.__name__, enter, site)


@verb(acl="aclrtDeviceDisablePeerAccess", cuda="cudaDeviceDisablePeerAccess", is_setting=True)
async def DeviceDisablePeerAccess(peer: Integer) -> None:
    """Take back the access of the current device to the memory of *peer*.

    Stands for aclrtDeviceDisablePeerAccess and cudaDeviceDisablePeerAccess. Copies that are queued keep their route.

    Args:
        peer: The number of the other device.

    Waits:
        all rules: For nothing.

    Raises:
        AclError: PEER_ACCESS_MISSING if there is no access; INVALID_DEVICE if there is no such device; INVALID_VALUE if
            *peer* is the current device.
    """
    scope, runtime, site, enter = begin()
    device = scope.context.device
    peer = _check_peer(runtime, device.ordinal, peer)
    if peer not in device.reaches:
        raise runtime.error(
            Kind.PEER_ACCESS_MISSING, f"{device!r} has no access to device {peer}", "DeviceEnablePeerAccess() gives it"
        )
    runtime.pay(runtime.costs.other)
    device.leave(runtime.device(peer))
    runtime.called(DeviceDisablePeerAccess.__name__, enter, site)


@verb(acl="aclrtDevicePeerAccessStatus")
async def DevicePeerAccessStatus(device: Integer, peer: Integer) -> bool:
    """Return whether *device* has access to the memory of *peer* now.

    Stands for aclrtDevicePeerAccessStatus; CUDA has no such call.

    Args:
        device: The number of the device that may have access.
        peer: The number of the device whose memory it is.

    Waits:
        all rules: For nothing.

    Returns:
        Whether DeviceEnablePeerAccess() is in force.

    Raises:
        AclError: INVALID_DEVICE if there is no such device.
    """
    _, runtime, site, enter = begin_without_context()
    status = runtime.device(peer).ordinal in runtime.device(device).reaches
    runtime.brief_call(DevicePeerAccessStatus.__name__, enter, site)
    return status


def _check_peer(runtime: Runtime, device: int, peer: Integer) -> int:
    """Return the number of *peer*; refuse *device* itself."""
    ordinal = runtime.device(peer).ordinal
    if ordinal == device:
        raise runtime.error(
            Kind.INVALID_VALUE, f"access from device {device} to itself", "name another device: see GetDeviceCount()"
        )
    return ordinal
