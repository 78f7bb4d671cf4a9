"""acl.media: the descriptions of video channels and of frames to encode.

They are made, set, read and destroyed as those in descriptions.py. An encoder's attributes have numbers besides, for
venc_set_channel_desc_param.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from acl_py.compat.acl.face.binding import does, gives
from acl_py.compat.acl.face.session import INVALID_PARAM, Session, session
from acl_py.compat.acl.functions.media.descriptions import CHANNEL_EXISTS, described, destroyer, getter, public, setter
from acl_py.compat.acl.functions.media.formats import NV12
from acl_py.compat.acl.standins.videos import Decode, Encode, Frame
from device_model.handles import Stream
from device_model.memory import Buffer

_ENCODER_PARAMETERS = (
    "thread_id",
    "callback",
    "pic_format",
    "entype",
    "pic_width",
    "pic_height",
    "key_frame_interval",
    "buf_addr",
    "buf_size",
    "rc_mode",
    "src_rate",
    "max_bit_rate",
    "ip_proportion",
)  # fmt: skip - in the order of their numbers
_ids = count(1)


@dataclass(eq=False, slots=True)
class Line:
    """What a channel has while it exists: a stream, and the frames whose callbacks have not been called yet, in order.

    *pictures* have come out of a decoder before the frames that they belong to. An encoder's output goes to a buffer,
    which is its own if the script gave none.
    """

    stream: Stream
    frames: deque[Any] = field(default_factory=deque)
    pictures: deque[Frame] = field(default_factory=deque)
    decode: Decode | None = None
    encode: Encode | None = None
    output: Buffer | None = None
    owns_output: bool = False
    sent: int = 0


@dataclass(eq=False, slots=True)
class DecoderChannel:
    """A way to the video decoder; it exists between create_channel and destroy_channel."""

    channel_id: int = 0
    thread_id: int = 0
    callback: Callable[..., object] | None = None
    entype: int = 0
    out_pic_format: int = NV12
    out_pic_width: int = 0
    out_pic_height: int = 0
    ref_frame_num: int = 0  # this and what follows is kept, without effect
    out_mode: int = 0
    bit_depth: int = 0
    line: Line | None = None


@dataclass(eq=False, slots=True)
class EncoderChannel:
    """A way to the video encoder; it exists between create_channel and destroy_channel."""

    channel_id: int = field(default_factory=_ids.__next__)
    thread_id: int = 0
    callback: Callable[..., object] | None = None
    entype: int = 0
    pic_format: int = NV12
    pic_width: int = 0
    pic_height: int = 0
    key_frame_interval: int = 0
    buf_addr: int = 0
    buf_size: int = 0
    max_bit_rate: int = 0  # kilobits per second
    src_rate: int = 0  # frames per second
    rc_mode: int = 0  # this and what follows is kept, without effect
    ip_proportion: int = 0
    line: Line | None = None


@dataclass(eq=False, slots=True)
class DecoderFrameConfig:
    """How to decode a frame; there is nothing to set."""


@dataclass(eq=False, slots=True)
class EncoderFrameConfig:
    """How to encode a frame: whether as a key frame, and whether the stream ends."""

    force_i_frame: int = 0
    eos: int = 0


def _channel_functions(prefix: str, kind: type[Any], letters: Mapping[str, str]) -> dict[str, Any]:
    """Return, by their names, the functions of the descriptions of channels; these attributes have *letters*."""

    def assign(here: Session, handle: int, function: Any) -> None:
        channel = here.known(handle, kind)
        if not callable(function):
            raise TypeError("parameter must be callable")
        channel.callback = function

    def read(handle: int) -> Any:
        channel = session().find(handle, kind)
        return None if channel is None else channel.callback

    def destroy(here: Session, handle: int) -> None:
        if handle and here.known(handle, kind).line is not None:
            what = f"its channel exists; call acl.media.{prefix}_destroy_channel() first"
            raise here.error(CHANNEL_EXISTS, what)
        here.forget(handle)

    calls = "the function that is called for each frame"
    functions = [
        public(assign, f"{prefix}_set_channel_desc_callback", "kO", f"Set {calls}.", does),
        public(read, f"{prefix}_get_channel_desc_callback", "k", f"{calls.capitalize()}, or None."),
        public(
            destroy, f"{prefix}_destroy_channel_desc", "k", "End a description; refused while its channel exists.", does
        ),
        getter("channel_desc", kind, "channel_id", prefix),
    ]
    return {each.__name__: each for each in functions} | described("channel_desc", kind, letters, prefix)


# What both kinds of channels have, and what is kept of each.
_CHANNEL = {"thread_id": "k", "entype": "i"}
_DECODER = ("out_pic_width", "out_pic_height", "ref_frame_num", "out_mode", "bit_depth")
_ENCODER = (
    "pic_width", "pic_height", "key_frame_interval", "buf_size", "max_bit_rate", "rc_mode", "src_rate",
)  # fmt: skip

# --- decoders

globals().update(
    _channel_functions("vdec", DecoderChannel, _CHANNEL | {"out_pic_format": "i"} | dict.fromkeys(_DECODER, "u"))
)
globals().update(described("frame_config", DecoderFrameConfig, {}, "vdec"))
vdec_set_channel_desc_channel_id = setter("channel_desc", DecoderChannel, "channel_id", prefix="vdec")
vdec_destroy_frame_config = destroyer("frame_config", DecoderFrameConfig, "vdec")

# --- encoders

_VENC = _CHANNEL | {"pic_format": "i", "buf_addr": "k"} | dict.fromkeys(_ENCODER, "u")
globals().update(_channel_functions("venc", EncoderChannel, _VENC))
globals().update(described("frame_config", EncoderFrameConfig, {"force_i_frame": "u", "eos": "u"}, "venc"))
venc_destroy_frame_config = destroyer("frame_config", EncoderFrameConfig, "venc")


def _parameter(here: Session, parameter: int) -> str:
    """The attribute with this number."""
    if not 0 <= parameter < len(_ENCODER_PARAMETERS):
        raise here.error(INVALID_PARAM, f"an encoder has parameters 0 to {len(_ENCODER_PARAMETERS) - 1}")
    return _ENCODER_PARAMETERS[parameter]


@does("kiO")
def venc_set_channel_desc_param(here: Session, handle: int, parameter: int, value: Any) -> None:
    """Set an attribute by its number: 0 is the thread, 1 the callback, 2 the format of pictures, ..., 12."""
    channel = here.known(handle, EncoderChannel)
    name = _parameter(here, parameter)
    if name == "callback" and not callable(value):
        raise TypeError("parameter must be callable")
    if name != "callback" and not isinstance(value, int):
        raise TypeError(f"parameter {parameter}, {name}, must be an int")
    setattr(channel, name, value)


@gives("ki")
def venc_get_channel_desc_param(here: Session, handle: int, parameter: int) -> Any:
    """An attribute by its number."""
    return getattr(here.known(handle, EncoderChannel), _parameter(here, parameter))
