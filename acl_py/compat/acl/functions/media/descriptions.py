"""The descriptions that acl.media works with: channels, pictures, streams of a codec, areas and configurations.

Each is made, filled by setters, read by getters and destroyed, all with plain ints. A getter gives 0 for a description
that there is not, a setter 100000; to destroy 0 is no mistake.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from acl_py.compat.acl.face.binding import does, gives, takes
from acl_py.compat.acl.face.session import INVALID_PARAM, Session, session
from acl_py.compat.acl.functions.media.formats import STANDARDS, UNKNOWN

CHANNEL_EXISTS = 148051  # ACL_ERROR_RELATIVE_RESOURCE_NOT_CLEARED
_VPC, _JPEGD, _JPEGE = 1, 2, 4
_CSC_MATRIX = 0  # the one parameter of a channel: which matrix converts colours
_UINT16 = 0xFFFF
_ids = count(1)


@dataclass(eq=False, slots=True)
class Channel:
    """A way to the image hardware; it exists between create_channel and destroy_channel."""

    id: int = field(default_factory=_ids.__next__)
    mode: int = _VPC | _JPEGD | _JPEGE  # kept, without effect: every channel does everything here
    matrix: int = 0
    exists: bool = False


@dataclass(eq=False, slots=True)
class Picture:
    """An image in memory, as the host describes it and as the hardware has found it."""

    data: int = 0
    size: int = 0
    format: int = UNKNOWN
    width: int = 0
    height: int = 0
    width_stride: int = 0
    height_stride: int = 0
    ret_code: int = 0


@dataclass(eq=False, slots=True)
class Batch:
    """Several pictures, with a handle each."""

    pictures: list[Picture]


@dataclass(eq=False, slots=True)
class CodecStream:
    """Bytes of a video stream."""

    data: int = 0
    size: int = 0
    format: int = 0
    timestamp: int = 0
    ret_code: int = 0
    eos: int = 0


@dataclass(eq=False, slots=True)
class Area:
    """A rectangle of pixels; right and bottom belong to it."""

    left: int
    right: int
    top: int
    bottom: int

    @property
    def width(self) -> int:
        """Pixels across."""
        return self.right - self.left + 1

    @property
    def height(self) -> int:
        """Pixels down."""
        return self.bottom - self.top + 1


@dataclass(eq=False, slots=True)
class ResizeConfig:
    """How to resize."""

    interpolation: int = 0


@dataclass(eq=False, slots=True)
class JpegConfig:
    """How to encode: 1 to 100, the higher the better; 0 is as good as 100."""

    level: int = 0


# Functions for a description; their names begin with *prefix*, that of a family of functions.


def described(name: str, kind: type, letters: Mapping[str, str], prefix: str = "dvpp") -> dict[str, Any]:
    """Return, by their names, the functions that make a description, and set and read the attributes with *letters*."""
    functions = [
        maker(name, kind, prefix),
        *(setter(name, kind, attribute, letter, prefix) for attribute, letter in letters.items()),
        *(getter(name, kind, attribute, prefix) for attribute in letters),
    ]
    return {each.__name__: each for each in functions}


def maker(name: str, make: Callable[[], object], prefix: str = "dvpp") -> Any:
    """The function that makes a description."""

    def create() -> int:
        return session().handle(make())

    return public(create, f"{prefix}_create_{name}", "", "Make a description; the caller destroys it.")


def destroyer(name: str, kind: type, prefix: str = "dvpp") -> Any:
    """The function that ends a description."""

    def destroy(here: Session, handle: int) -> None:
        if handle:
            here.known(handle, kind)
            here.forget(handle)

    return public(destroy, f"{prefix}_destroy_{name}", "k", "End a description.", does)


def setter(name: str, kind: type, attribute: str, letter: str = "u", prefix: str = "dvpp") -> Any:
    """The function that sets an attribute."""

    def assign(here: Session, handle: int, value: int) -> None:
        setattr(here.known(handle, kind), attribute, value)

    return public(assign, f"{prefix}_set_{name}_{attribute}", "k" + letter, f"Set {attribute}.", does)


def getter(name: str, kind: type, attribute: str, prefix: str = "dvpp") -> Any:
    """The function that reads an attribute."""

    def read(handle: int) -> int:
        thing = session().find(handle, kind)
        return 0 if thing is None else int(getattr(thing, attribute))

    return public(read, f"{prefix}_get_{name}_{attribute}", "k", f"What {attribute} is; 0 if there is no such thing.")


def public(function: Any, name: str, letters: str, doc: str, make: Callable[[str], Any] = takes) -> Any:
    """*function* as one of the module's, of this *name*."""
    function.__name__ = name
    function.__doc__ = doc
    return make(letters)(function)


# --- channels

dvpp_create_channel_desc = maker("channel_desc", Channel)
dvpp_set_channel_desc_mode = setter("channel_desc", Channel, "mode")


@does("k")
def dvpp_destroy_channel_desc(here: Session, handle: int) -> None:
    """End a description; refused while its channel exists."""
    if handle and here.known(handle, Channel).exists:
        raise here.error(CHANNEL_EXISTS, "")
    here.forget(handle)


@takes("k")
def dvpp_get_channel_desc_channel_id(handle: int) -> int:
    """The number of a channel; 0 while it does not exist."""
    channel = session().find(handle, Channel)
    return channel.id if channel is not None and channel.exists else 0


@does("kik", echoes=True)
def dvpp_set_channel_desc_param(here: Session, handle: int, parameter: int, value: int) -> None:
    """Choose the matrix that converts colours (parameter 0): 0 is BT.601 wide, see media_colors."""
    channel = here.known(handle, Channel)
    if parameter != _CSC_MATRIX or value >= len(STANDARDS):
        raise here.error(INVALID_PARAM, f"there is no parameter {parameter} with a value of {value}")
    channel.matrix = value


@gives("ki", failure=(0, 0))
def dvpp_get_channel_desc_param(here: Session, handle: int, parameter: int) -> tuple[int, int]:
    """The bytes and the value of a parameter of a channel."""
    channel = here.known(handle, Channel)
    if parameter != _CSC_MATRIX:
        raise here.error(INVALID_PARAM, f"there is no parameter {parameter}")
    return 4, channel.matrix


# --- pictures

globals().update(
    described(
        "pic_desc",
        Picture,
        {"data": "k", "size": "u", "format": "i", "ret_code": "u"}
        | dict.fromkeys(("width", "height", "width_stride", "height_stride"), "u"),
    )
)
dvpp_destroy_pic_desc = destroyer("pic_desc", Picture)


@takes("k")
def dvpp_get_pic_desc_format(handle: int) -> int:
    """The pixel format; 10000, "unknown", if there is no such picture."""
    picture = session().find(handle, Picture)
    return UNKNOWN if picture is None else picture.format


@takes("u")
def dvpp_create_batch_pic_desc(size: int) -> int:
    """Make *size* pictures; 0 for less than one."""
    if not 0 < size <= _UINT16:
        return 0
    return session().handle(Batch([Picture() for _ in range(size)]))


@does("k")
def dvpp_destroy_batch_pic_desc(here: Session, handle: int) -> None:
    """End the pictures of a batch, and it."""
    if handle:
        for picture in here.known(handle, Batch).pictures:
            here.forget(here.handle(picture))
        here.forget(handle)


@takes("ku")
def dvpp_get_pic_desc(handle: int, index: int) -> int:
    """One picture of a batch, which owns it; 0 if there is none."""
    here = session()
    batch = here.find(handle, Batch)
    if batch is None or index >= len(batch.pictures):
        return 0
    return here.handle(batch.pictures[index])


# --- streams of codecs

globals().update(
    described(
        "stream_desc",
        CodecStream,
        {"data": "k", "size": "u", "format": "i", "timestamp": "k", "ret_code": "u", "eos": "u"},
    )
)
dvpp_destroy_stream_desc = destroyer("stream_desc", CodecStream)


# --- areas: their values have 16 bits


@takes("uuuu")
def dvpp_create_roi_config(left: int, right: int, top: int, bottom: int) -> int:
    """Make an area; 0 if a value has more than 16 bits."""
    if max(left, right, top, bottom) > _UINT16:
        return 0
    return session().handle(Area(left, right, top, bottom))


def _set_area(here: Session, handle: int, **values: int) -> None:
    area = here.known(handle, Area)
    if max(values.values()) > _UINT16:
        raise here.error(INVALID_PARAM, f"{values} of an area do not fit into 16 bits")
    for name, value in values.items():
        setattr(area, name, value)


@does("kuuuu")
def dvpp_set_roi_config(here: Session, handle: int, left: int, right: int, top: int, bottom: int) -> None:
    """Set all four sides."""
    _set_area(here, handle, left=left, right=right, top=top, bottom=bottom)


def _side_setter(side: str) -> Any:
    def assign(here: Session, handle: int, value: int) -> None:
        _set_area(here, handle, **{side: value})

    return public(assign, f"dvpp_set_roi_config_{side}", "ku", f"Set {side}.", does)


globals().update({each.__name__: each for each in map(_side_setter, ("left", "right", "top", "bottom"))})
dvpp_destroy_roi_config = destroyer("roi_config", Area)

# --- configurations

globals().update(described("resize_config", ResizeConfig, {"interpolation": "u"}))
globals().update(described("jpege_config", JpegConfig, {"level": "u"}))
dvpp_destroy_resize_config = destroyer("resize_config", ResizeConfig)
dvpp_destroy_jpege_config = destroyer("jpege_config", JpegConfig)
