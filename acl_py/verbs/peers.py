"""Access from one device to the memory of another, as aclrt and CUDA have it: one way, for all contexts of a device.

A copy between two devices takes the link between them if one of the two has access to the other. Without it CUDA's
rules let the copy go through the host, which is slower (measured on two H200s); under ACL's rules the copy fails on the
device.
"""

from sys import _getframe

from acl_py.errors import Kind
from acl_py.runtime.runtime import Runtime
from acl_py.runtime.scopes import current, here
from acl_py.sites import site_of
from device_model.rules import PeerAccess


async def DeviceCanAccessPeer(device: int, peer: int) -> bool:
    """May *device* be given access to *peer*? All devices of a simulation may, but to themselves."""
    scope = here()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    can = runtime.device(device) is not runtime.device(peer)
    runtime.pay(runtime.costs.other)
    runtime.called("DeviceCanAccessPeer", enter, site)
    return can


async def DeviceEnablePeerAccess(peer: int, flags: int = 0) -> None:
    """Give the current device access to *peer*, until DeviceDisablePeerAccess or a reset of either; *flags* is 0. Does
    not wait for work. A second time is an error under CUDA's rules (704).
    """
    scope = current()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    device = scope.context.device
    _check_peer(runtime, device.ordinal, peer)
    if flags != 0:
        raise runtime.error(Kind.INVALID_VALUE, f"flags {flags!r}", "there are none: flags must be 0")
    if peer in device.reaches and runtime.rules.peer_access is PeerAccess.FOR_SPEED:
        raise runtime.error(
            Kind.PEER_ACCESS_ENABLED, f"{device!r} has access to device {peer} already", "nothing has changed"
        )
    runtime.pay(runtime.costs.other)
    device.reaches[peer] = None
    runtime.called("DeviceEnablePeerAccess", enter, site)


async def DeviceDisablePeerAccess(peer: int) -> None:
    """Take DeviceEnablePeerAccess back. Copies that are queued already keep their way."""
    scope = current()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    device = scope.context.device
    _check_peer(runtime, device.ordinal, peer)
    if peer not in device.reaches:
        raise runtime.error(
            Kind.PEER_ACCESS_MISSING, f"{device!r} has no access to device {peer}", "DeviceEnablePeerAccess() gives it"
        )
    runtime.pay(runtime.costs.other)
    del device.reaches[peer]
    runtime.called("DeviceDisablePeerAccess", enter, site)


async def DevicePeerAccessStatus(device: int, peer: int) -> bool:
    """Has *device* access to *peer* now?"""
    scope = here()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    runtime.device(peer)
    status = peer in runtime.device(device).reaches
    runtime.pay(runtime.costs.other)
    runtime.called("DevicePeerAccessStatus", enter, site)
    return status


def _check_peer(runtime: Runtime, device: int, peer: int) -> None:
    if runtime.device(peer).ordinal == device:
        raise runtime.error(
            Kind.INVALID_VALUE, f"access from device {device} to itself", "name another device: see GetDeviceCount()"
        )
