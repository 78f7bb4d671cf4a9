"""acl.media: memory and channels of the image hardware. What it does stands in media_vpc and media_images.

Videos, histograms and borders are not simulated.
"""

from typing import Any

import acl_py as native
from acl_py.compat.acl.binding import takes
from acl_py.compat.acl.media_descriptions import Channel
from acl_py.compat.acl.session import INVALID_PARAM, SUCCESS, session


@takes("k")
def dvpp_malloc(size: int) -> tuple[int, int]:
    """Allocate device memory for images; free it with dvpp_free."""
    here = session()
    if not size:
        return 0, here.refuse(INVALID_PARAM, "dvpp_malloc of 0 bytes")
    buffer, ret = here.call(native.Malloc(size))
    return (0 if ret else buffer.address), ret


@takes("kid")
def dvpp_malloc_with_cfg(size: int, _: int, __: dict[str, Any]) -> tuple[int, int]:
    """Allocate device memory for images; policies and attributes make no difference here."""
    address, ret = dvpp_malloc(size)
    return address, ret


@takes("k")
def dvpp_free(address: int) -> int:
    """Free device memory, at once."""
    here = session()
    return here.ret(native.Free(address)) if address else here.refuse(INVALID_PARAM, "dvpp_free of address 0")


@takes("k")
def dvpp_create_channel(handle: int) -> int:
    """Bring a channel into being; once for each description."""
    here = session()
    channel = here.find(handle, Channel)
    if channel is None or channel.exists:
        return here.refuse(INVALID_PARAM, "there is no such description, or its channel exists already")
    ret = here.ret(native.GetDevice())  # a channel is one device's
    channel.exists = not ret
    return ret


@takes("k")
def dvpp_destroy_channel(handle: int) -> int:
    """End a channel; its description stays, and may make another."""
    here = session()
    channel = here.find(handle, Channel)
    if channel is None or not channel.exists:
        return here.refuse(INVALID_PARAM, "there is no such channel")
    channel.exists = False
    return SUCCESS
