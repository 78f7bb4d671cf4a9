"""acl.media: memory and channels of the image hardware. vpc.py and images.py say what it does.

Histograms and borders are not simulated.
"""

from typing import Any

import acl_py as native
from acl_py.compat.acl.face.binding import gives, runs
from acl_py.compat.acl.face.lookups import Running
from acl_py.compat.acl.face.session import INVALID_PARAM, Session
from acl_py.compat.acl.functions.media.descriptions import Channel
from device_model.memory import Buffer


def allocate(here: Session, size: int) -> int:
    """Allocate device memory that the image hardware reads and writes."""
    if not size:
        raise here.error(INVALID_PARAM, "dvpp_malloc of 0 bytes")
    buffer: Buffer = here.run(native.Malloc(size))
    here.of_dvpp.add(buffer.allocation.serial)
    return buffer.address


@gives("k")
def dvpp_malloc(here: Session, size: int) -> int:
    """Allocate device memory for images; free it with dvpp_free."""
    return allocate(here, size)


@gives("kid")
def dvpp_malloc_with_cfg(here: Session, size: int, _: int, __: dict[str, Any]) -> int:
    """Allocate device memory for images; policies and attributes make no difference here."""
    return allocate(here, size)


@runs("k")
def dvpp_free(here: Session, address: int) -> Running:
    """Free device memory, at once."""
    if not address:
        raise here.error(INVALID_PARAM, "dvpp_free of address 0")
    return freed(here, address)


async def freed(here: Session, address: int) -> None:
    """Free it."""
    allocation = here.runtime.memory.holder(address)
    await native.Free(address)
    if allocation is not None:
        here.of_dvpp.discard(allocation.serial)


@runs("k")
async def dvpp_create_channel(here: Session, handle: int) -> None:
    """Bring a channel into being; once for each description."""
    channel = here.find(handle, Channel)
    if channel is None or channel.exists:
        raise here.error(INVALID_PARAM, "there is no such description, or its channel exists already")
    await native.GetDevice()  # a channel is one device's
    channel.exists = True


@runs("k")
async def dvpp_destroy_channel(here: Session, handle: int) -> None:
    """End a channel; its description stays, and may make another."""
    channel = here.find(handle, Channel)
    if channel is None or not channel.exists:
        raise here.error(INVALID_PARAM, "there is no such channel")
    channel.exists = False
