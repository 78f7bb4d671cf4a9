"""acl.rt: memory of the device, pinned memory of the host, and what is known of an address."""

from collections.abc import Callable, Coroutine
from typing import Any

import acl_py as native
from acl_py.compat.acl.face.binding import WrongContainerError, gives, runs, takes
from acl_py.compat.acl.face.lookups import Running
from acl_py.compat.acl.face.session import INVALID_PARAM, NOT_SUPPORTED, PARAM_INVALID, SUCCESS, Session, session
from device_model.memory import Buffer, Space

# aclrtMemMallocPolicy: huge pages or not, 0 to 7, and flags for bandwidth and read-only.
_PAGES = range(8)
_POLICY_FLAGS = 0x101100
_ATTRIBUTES = range(13)  # aclrtMemAttr: kinds of device memory, all of which are one here
_HOST, _DEVICE, _UNREGISTERED = range(3)  # where an address is
_MAPPED, _IO_MEMORY, _READ_ONLY = 0, 4, 8  # of host_register
_MAPPED_V2, _PINNED_V2 = 0x2, 0x10000000
_KNOWN_V2 = _MAPPED_V2 | _IO_MEMORY | _READ_ONLY | _PINNED_V2


def _malloc(here: Session, size: int, policy: int) -> int:
    if policy not in _PAGES and (policy & ~_POLICY_FLAGS) not in _PAGES:
        raise here.error(PARAM_INVALID, f"there is no policy {policy:#x}")
    return _allocated(here, native.Malloc(size))


def _allocated(here: Session, verb: Coroutine[Any, Any, Buffer]) -> int:
    buffer: Buffer = here.run(verb)
    address = buffer.address  # not the allocation's own: scripts write through it, so it must owe no poison
    here.buffers[address] = buffer
    return address


def _check_config(name: str, config: dict[str, Any]) -> None:
    """Check that a configuration is empty or has a list of attributes."""
    if config and not isinstance(config.get("attrs"), list):
        raise WrongContainerError(f"acl.rt.{name}: the configuration has no list 'attrs'")


@gives("ki")
def malloc(here: Session, size: int, policy: int) -> int:
    """Allocate device memory; it holds poison until it is written."""
    return _malloc(here, size, policy)


@gives("ki")
def malloc_align32(here: Session, size: int, policy: int) -> int:
    """Allocate device memory; all of it is aligned."""
    return _malloc(here, size, policy)


@gives("ki")
def malloc_cached(here: Session, size: int, policy: int) -> int:
    """Allocate device memory; caches are not simulated."""
    return _malloc(here, size, policy)


@gives("kid")
def malloc_with_cfg(here: Session, size: int, policy: int, config: dict[str, Any]) -> int:
    """Allocate device memory; the configuration makes no difference."""
    _check_config("malloc_with_cfg", config)
    return _malloc(here, size, policy)


@gives("kid")
def malloc_for_task_scheduler(here: Session, size: int, policy: int, config: dict[str, Any]) -> int:
    """Allocate device memory; the task scheduler reaches all of it."""
    _check_config("malloc_for_task_scheduler", config)
    return _malloc(here, size, policy)


@runs("k")
def free(here: Session, address: int) -> Running:
    """Free device memory at once; queued work that still uses it fails."""
    return _freed(here, native.Free, address)


async def _freed(here: Session, verb: Callable[[Any], Running], address: int) -> None:
    if not address:
        raise here.error(INVALID_PARAM, "the address is 0")
    buffer = here.buffers.get(address)
    await verb(address if buffer is None or buffer.allocation.freed is not None else buffer)
    here.buffers.pop(address, None)


@gives("k")
def malloc_host(here: Session, size: int) -> int:
    """Allocate pinned host memory, at a real address."""
    return _allocated(here, native.MallocHost(size))


@gives("kd")
def malloc_host_with_cfg(here: Session, size: int, config: dict[str, Any]) -> int:
    """Allocate pinned host memory; the configuration makes no difference."""
    _check_config("malloc_host_with_cfg", config)
    return _allocated(here, native.MallocHost(size))


@runs("k")
def free_host(here: Session, address: int) -> Running:
    """Free pinned host memory, at once."""
    return _freed(here, native.FreeHost, address)


@gives("i", failure=(0, 0))
def get_mem_info(here: Session, attribute: int) -> tuple[int, int]:
    """Free and total bytes of the device."""
    if attribute not in _ATTRIBUTES:
        raise here.error(PARAM_INVALID, f"there is no kind of memory {attribute}")
    value: tuple[int, int] = here.run(native.GetMemInfo())
    return value


@runs("kk")
async def mem_flush(here: Session, address: int, size: int) -> None:
    """Write back a cache; there is none here."""
    here.place(address, size, "the memory")


@runs("kk")
async def mem_invalidate(here: Session, address: int, size: int) -> None:
    """Invalidate a cache; there is none here."""
    here.place(address, size, "the memory")


@takes("k")
def pointer_get_attributes(address: int) -> tuple[dict[str, Any], int]:
    """Where an address is: 0 in the host's pinned memory, 1 on a device, 2 neither."""
    here = session()
    with here.turn_here():
        allocation = here.runtime.memory.holder(address)
    location = {"id": 0, "type": _UNREGISTERED}
    if allocation is not None and allocation.space is Space.DEVICE:
        location = {"id": allocation.device, "type": _DEVICE}
    elif allocation is not None:
        location = {"id": 0, "type": _HOST}
    code = SUCCESS if address else here.refuse(INVALID_PARAM, "the address is 0")
    return {"location": location, "page_size": 0, "rsv": [0, 0, 0, 0]}, code


# --- registered host memory


def _registered(here: Session, address: int, size: int, unsupported: int) -> Running:
    if not address or not size:
        raise here.error(INVALID_PARAM, f"{size} bytes at {address:#x} cannot be registered")
    if unsupported:
        raise here.error(NOT_SUPPORTED, "memory of other devices, and read-only memory, cannot be registered")
    return native.HostRegister(address, size)


@gives("kki")
def host_register(here: Session, address: int, size: int, kind: int) -> int:
    """Pin host memory; the device reaches it at the same address."""
    if kind not in (_MAPPED, _IO_MEMORY, _READ_ONLY):
        raise here.error(PARAM_INVALID, f"there is no type of registration {kind}")
    here.run(_registered(here, address, size, kind))
    return address


@runs("kku")
def host_register_v2(here: Session, address: int, size: int, flag: int) -> Running:
    """Pin host memory."""
    if not flag or flag & ~_KNOWN_V2:
        raise here.error(PARAM_INVALID, f"there is no flag {flag:#x} of a registration")
    return _registered(here, address, size, flag & (_IO_MEMORY | _READ_ONLY))


@runs("k")
def host_unregister(here: Session, address: int) -> Running:
    """End host_register."""
    if not address:
        raise here.error(INVALID_PARAM, "the address is 0")
    return native.HostUnregister(address)


@gives("ku")
def host_get_device_pointer(here: Session, address: int, flag: int) -> int:
    """The address at which devices reach pinned host memory: the same."""
    if not address:
        raise here.error(INVALID_PARAM, "the address is 0")
    with here.turn_here():
        allocation = here.runtime.memory.holder(address)
    if flag or allocation is None or not allocation.is_host_visible:
        raise here.error(PARAM_INVALID, "devices reach only memory that is pinned, and the flag is 0")
    return address
