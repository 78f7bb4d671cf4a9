"""acl.himpi: the media system, its memory, and what a file says about itself."""

from typing import Any

from acl_py.compat.acl.face.binding import does, gives, runs
from acl_py.compat.acl.face.lookups import Running
from acl_py.compat.acl.face.session import NOT_SUPPORTED, Session
from acl_py.compat.acl.functions.himpi.channels import ILLEGAL, NOT_PERMITTED, NULL, SYS, Fields, system
from acl_py.compat.acl.functions.media.channels import allocate, freed
from acl_py.compat.acl.functions.media.codecs import KEPT
from acl_py.compat.acl.functions.media.formats import UNKNOWN
from acl_py.compat.acl.functions.media.images import decoded_layout, head_of

JPEG = 26  # hi_payload_type
_VERSION = 1, 0, 0


@does("")
def sys_init(here: Session) -> None:
    """Start the media system; a second call changes nothing."""
    here.join()
    system(here).started = True


@does("")
def sys_exit(here: Session) -> None:
    """End the media system; all channels must have been destroyed."""
    known = system(here)
    if left := len(known.decoders) + len(known.processors):
        raise here.error(SYS | NOT_PERMITTED, f"{left} channels exist; destroy them before acl.himpi.sys_exit()")
    known.started = False


@gives("ik")
def dvpp_malloc(here: Session, _: int, size: int) -> int:
    """Allocate memory for images on the current device; the number of a device makes no difference."""
    if not size:
        raise here.error(SYS | ILLEGAL, "dvpp_malloc of 0 bytes")
    return allocate(here, size)


@runs("k")
def dvpp_free(here: Session, address: int) -> Running:
    """Free it."""
    if not address:
        raise here.error(SYS | NULL, "dvpp_free of address 0")
    return freed(here, address)


@gives("", failure=(0, 0, 0))
def dvpp_get_version(here: Session) -> tuple[int, int, int]:  # noqa: ARG001
    """The version of the interface."""
    return _VERSION


def image_info(here: Session, name: str, stream: object, pixel_format: int) -> dict[str, Any]:
    """What a JPEG file in host memory becomes when it is decoded."""
    fields = Fields(stream, "hi_vdec_stream")
    head, _ = head_of(here, "JPEG", name, fields.number("addr"), fields.number("len"))
    if head.sampling not in KEPT:
        raise here.error(SYS | ILLEGAL, "this JPEG file has a sampling that cannot be decoded; save it in YUV 4:2:0")
    number, width_stride, height_stride, nbytes = decoded_layout(head, pixel_format)
    return {
        "width": head.width, "height": head.height, "width_stride": width_stride, "height_stride": height_stride,
        "img_buf_size": nbytes, "pixel_format": number, "reserved": [0, 0],
    }  # fmt: skip


@gives("iO", failure={})
def dvpp_get_image_info(here: Session, kind: int, stream: object) -> dict[str, Any]:
    """The size of a file in host memory, and the strides and the bytes that it takes when it is decoded."""
    if kind != JPEG:
        raise here.error(NOT_SUPPORTED, f"files of type {kind} are not simulated; pass JPEG, {JPEG}")
    return image_info(here, "dvpp_get_image_info", stream, UNKNOWN)
