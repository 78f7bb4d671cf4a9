"""Work for the image hardware: an ordinary kernel in a stream, that takes no AI core and reports into a picture.

The description of a picture is copied when its work is queued. When the work ends, the result is written to the host's
description: a ret_code other than 0 if it failed. The stream fails with the code of the card's CPU (507018), because
the vendor's driver of this hardware runs there. The reason is printed, as for a model that fails.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import acl_py as native
from acl_py.compat.acl.face.session import INVALID_PARAM, Session
from acl_py.compat.acl.functions.media.descriptions import Channel, Picture
from acl_py.compat.acl.functions.media.formats import MediaError
from acl_py.compat.acl.standins.computations import warn
from acl_py.errors import AclError, Kind
from device_model.errors import CodedError
from device_model.memory import Buffer

FORMAT_NOT_MATCH, AICPU_EXCEPTION = 100027, 507018
FAILED = 1  # in a picture's ret_code
_FULL_HD = 1920 * 1080


def microseconds(pixels: float, frames_per_second: int) -> float:
    """The time for *pixels*, where the hardware does so many frames of 1920x1080 in a second."""
    return pixels / (_FULL_HD * frames_per_second) * 1e6


@contextmanager
def reporting(task: str, picture: Picture) -> Iterator[None]:
    """Write to *picture* how *task* ended; the stream fails if the hardware refuses the image."""
    try:
        yield
    except MediaError as error:
        picture.ret_code = FAILED
        warn(f"{task} failed: {error.what}", error.remedy)
        raise CodedError(
            Kind.LAUNCH_FAILURE, f"{task} failed: {error.what}", error.remedy, AICPU_EXCEPTION
        ) from None  # a cause would stand in the place of this error, and of its code
    picture.ret_code = 0


def queue(
    here: Session,
    kernel: Any,
    channel: int,
    stream: int,
    source: tuple[int, int, str],
    target: tuple[int, int, str],
    job: Callable[..., None],
) -> int:
    """Queue *kernel* with what lies at *source* and *target* (address, bytes, role) and the *job* to do with it."""
    way = here.find(channel, Channel)
    if way is None or not way.exists:
        return here.refuse(INVALID_PARAM, "there is no such channel; call acl.media.dvpp_create_channel() first")
    for address, nbytes, role in (source, target):
        if not address or not nbytes:
            return here.refuse(INVALID_PARAM, f"{role} has no data, or no size")

    async def launch() -> None:
        where = here.streams[stream]
        ends = [here.place(*each) for each in (source, target)]
        await native.LaunchKernel(kernel, 1, (*ends, job), where)

    return here.ret(launch())


def host_bytes(here: Session, address: int, nbytes: int, role: str) -> Buffer | int:
    """Return host memory that this call reads itself, or the code that says why it cannot."""
    if not address or not nbytes:
        return here.refuse(INVALID_PARAM, f"{role} has no data, or no size")
    try:
        buffer = here.place(address, nbytes, role)
        buffer.numpy()  # refuses device memory
    except AclError as error:
        return here.failed(error)
    return buffer
