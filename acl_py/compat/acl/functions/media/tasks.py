"""Work for the image hardware: an ordinary kernel in a stream, that takes no AI core and reports into a picture.

The description of a picture is copied when its work is queued. When the work ends, the result is written to the host's
description: a ret_code other than 0 if it failed. The stream fails with the code of the card's CPU (507018), because
the vendor's driver of this hardware runs there. The reason is printed, as for a model that fails.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from sys import _getframe
from typing import Any

import acl_py as native
from acl_py.compat.acl.face.session import INVALID_PARAM, Session
from acl_py.compat.acl.functions.media.descriptions import Channel, Picture
from acl_py.compat.acl.functions.media.formats import MediaError
from acl_py.compat.acl.standins.computations import warn
from acl_py.errors import Kind
from acl_py.runtime.runtime import Runtime
from acl_py.sites import called_function, site_of
from device_model.completions import Completion
from device_model.errors import CodedError
from device_model.memory import Buffer

FORMAT_NOT_MATCH, AICPU_EXCEPTION = 100027, 507018
FAILED = 1  # in a picture's ret_code
_FULL_HD = 1920 * 1080


def microseconds(pixels: float, frames_per_second: float) -> float:
    """The time for *pixels*, where the hardware does so many frames of 1920x1080 in a second."""
    return pixels / (_FULL_HD * frames_per_second) * 1e6


class Lanes:
    """Which channels of a card have work of one kind of image hardware: their last operations, by the channel.

    A channel has a rate of its own, up to a number of channels; more of them share what that number does. How many
    there are is looked at when work is queued.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[str, int], Completion] = {}

    def share(self, kind: str, channel: int, most: int) -> float:
        """Return the part of its rate that work of *channel* gets, if *most* channels have their whole rates."""
        self._last = {key: last for key, last in self._last.items() if not last.done}
        busy = {number for each, number in self._last if each == kind} | {channel}
        return min(1.0, most / len(busy))

    def note(self, kind: str, channel: int, last: Completion) -> None:
        """Note that *last* is the last operation of *channel*."""
        self._last[kind, channel] = last


def rate_of(here: Session, kind: str, channel: int, usual: int) -> float:
    """Return how many frames of 1920x1080 a second *channel* does of work of a *kind*, "vpc" or "jpeg_decode"; *usual*
    if the profile says nothing about such hardware.
    """
    runtime: Runtime = here.runtime
    video = runtime.profile.video
    if video is None or kind not in ("vpc", "jpeg_decode"):
        return usual
    most = getattr(video, f"{kind}_channels")
    return float(getattr(video, kind) * runtime.state(Lanes).share(kind, channel, most))


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


async def queue(
    here: Session,
    kernel: Any,
    channel: int,
    stream: int,
    source: tuple[int, int, str],
    target: tuple[int, int, str],
    job: Callable[..., None],
    kind: str,
) -> None:
    """Queue *kernel* with what lies at *source* and *target* (address, bytes, role) and the *job* to do with it.

    *kind* names the hardware: "vpc", "jpeg_decode", or another one, whose channels do not share it.
    """
    way = here.find(channel, Channel)
    if way is None or not way.exists:
        raise here.error(INVALID_PARAM, "there is no such channel; call acl.media.dvpp_create_channel() first")
    for each in (source, target):
        _check_given(here, *each)
    where = here.streams[stream]
    ends = [here.place(*each) for each in (source, target)]
    for end, (_, _, role) in zip(ends, (source, target), strict=True):
        _check_of_dvpp(here, end, role)
    done = await native.LaunchKernel(kernel, 1, (*ends, job), where)
    here.runtime.state(Lanes).note(kind, channel, done)


def _check_given(here: Session, address: int, nbytes: int, role: str) -> None:
    if not address or not nbytes:
        raise here.error(INVALID_PARAM, f"{role} has no data, or no size")


def _check_of_dvpp(here: Session, end: Buffer, role: str) -> None:
    """Note a call that gives the image hardware memory that is not its own (documented: acldvppMalloc)."""
    if end.allocation.serial not in here.of_dvpp:
        site = site_of(_getframe(1))
        here.warn_once(
            f"{called_function(site)}() at {site}: {role} is not in memory of acl.media.dvpp_malloc(), which the image "
            "hardware needs: allocate it there"
        )


def host_bytes(here: Session, address: int, nbytes: int, role: str) -> Buffer:
    """Return host memory that this call reads itself; raise AclError if it cannot."""
    _check_given(here, address, nbytes, role)
    buffer = here.place(address, nbytes, role)
    buffer.numpy()  # refuses device memory
    return buffer
