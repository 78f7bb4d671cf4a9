"""acl.media: the descriptions of video channels and of frames to encode.

They are made, set, read and destroyed as those in descriptions.py. An encoder's attributes have numbers besides, for
venc_set_channel_desc_param.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from acl_py.compat.acl.face.binding import takes
from acl_py.compat.acl.face.session import INVALID_PARAM, SUCCESS, session
from acl_py.compat.acl.functions.media.descriptions import (
    CHANNEL_EXISTS,
    destroyer,
    getter,
    maker,
    public,
    setter,
)
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


def _callback_setter(prefix: str, kind: type) -> Any:
    def assign(handle: int, function: Any) -> int:
        here = session()
        channel = here.find(handle, kind)
        if channel is None:
            return here.unknown(handle, kind)
        if not callable(function):
            raise TypeError("parameter must be callable")
        channel.callback = function
        return SUCCESS

    return public(
        assign, f"{prefix}_set_channel_desc_callback", "kO", "Set the function that is called for each frame."
    )


def _callback_getter(prefix: str, kind: type) -> Any:
    def read(handle: int) -> Any:
        channel = session().find(handle, kind)
        return None if channel is None else channel.callback

    return public(
        read, f"{prefix}_get_channel_desc_callback", "k", "The function that is called for each frame, or None."
    )


def _channel_destroyer(prefix: str, kind: type) -> Any:
    def destroy(handle: int) -> int:
        here = session()
        channel = here.find(handle, kind)
        if channel is None:
            return here.unknown(handle, kind) if handle else SUCCESS
        if channel.line is not None:
            return here.refuse(CHANNEL_EXISTS, f"its channel exists; call acl.media.{prefix}_destroy_channel() first")
        here.forget(handle)
        return SUCCESS

    return public(
        destroy, f"{prefix}_destroy_channel_desc", "k", "End a description; refused while its channel exists."
    )


# --- decoders

vdec_create_channel_desc = maker("channel_desc", DecoderChannel, "vdec")
vdec_destroy_channel_desc = _channel_destroyer("vdec", DecoderChannel)
vdec_create_frame_config = maker("frame_config", DecoderFrameConfig, "vdec")
vdec_destroy_frame_config = destroyer("frame_config", DecoderFrameConfig, "vdec")
vdec_set_channel_desc_channel_id = setter("channel_desc", DecoderChannel, "channel_id", prefix="vdec")
vdec_set_channel_desc_thread_id = setter("channel_desc", DecoderChannel, "thread_id", "k", "vdec")
vdec_set_channel_desc_callback = _callback_setter("vdec", DecoderChannel)
vdec_set_channel_desc_entype = setter("channel_desc", DecoderChannel, "entype", "i", "vdec")
vdec_set_channel_desc_out_pic_format = setter("channel_desc", DecoderChannel, "out_pic_format", "i", "vdec")
vdec_set_channel_desc_out_pic_width = setter("channel_desc", DecoderChannel, "out_pic_width", prefix="vdec")
vdec_set_channel_desc_out_pic_height = setter("channel_desc", DecoderChannel, "out_pic_height", prefix="vdec")
vdec_set_channel_desc_ref_frame_num = setter("channel_desc", DecoderChannel, "ref_frame_num", prefix="vdec")
vdec_set_channel_desc_out_mode = setter("channel_desc", DecoderChannel, "out_mode", prefix="vdec")
vdec_set_channel_desc_bit_depth = setter("channel_desc", DecoderChannel, "bit_depth", prefix="vdec")
vdec_get_channel_desc_channel_id = getter("channel_desc", DecoderChannel, "channel_id", "vdec")
vdec_get_channel_desc_thread_id = getter("channel_desc", DecoderChannel, "thread_id", "vdec")
vdec_get_channel_desc_callback = _callback_getter("vdec", DecoderChannel)
vdec_get_channel_desc_entype = getter("channel_desc", DecoderChannel, "entype", "vdec")
vdec_get_channel_desc_out_pic_format = getter("channel_desc", DecoderChannel, "out_pic_format", "vdec")
vdec_get_channel_desc_out_pic_width = getter("channel_desc", DecoderChannel, "out_pic_width", "vdec")
vdec_get_channel_desc_out_pic_height = getter("channel_desc", DecoderChannel, "out_pic_height", "vdec")
vdec_get_channel_desc_ref_frame_num = getter("channel_desc", DecoderChannel, "ref_frame_num", "vdec")
vdec_get_channel_desc_out_mode = getter("channel_desc", DecoderChannel, "out_mode", "vdec")
vdec_get_channel_desc_bit_depth = getter("channel_desc", DecoderChannel, "bit_depth", "vdec")

# --- encoders

venc_create_channel_desc = maker("channel_desc", EncoderChannel, "venc")
venc_destroy_channel_desc = _channel_destroyer("venc", EncoderChannel)
venc_create_frame_config = maker("frame_config", EncoderFrameConfig, "venc")
venc_destroy_frame_config = destroyer("frame_config", EncoderFrameConfig, "venc")
venc_set_frame_config_force_i_frame = setter("frame_config", EncoderFrameConfig, "force_i_frame", prefix="venc")
venc_set_frame_config_eos = setter("frame_config", EncoderFrameConfig, "eos", prefix="venc")
venc_get_frame_config_force_i_frame = getter("frame_config", EncoderFrameConfig, "force_i_frame", "venc")
venc_get_frame_config_eos = getter("frame_config", EncoderFrameConfig, "eos", "venc")
venc_set_channel_desc_thread_id = setter("channel_desc", EncoderChannel, "thread_id", "k", "venc")
venc_set_channel_desc_callback = _callback_setter("venc", EncoderChannel)
venc_set_channel_desc_entype = setter("channel_desc", EncoderChannel, "entype", "i", "venc")
venc_set_channel_desc_pic_format = setter("channel_desc", EncoderChannel, "pic_format", "i", "venc")
venc_set_channel_desc_pic_width = setter("channel_desc", EncoderChannel, "pic_width", prefix="venc")
venc_set_channel_desc_pic_height = setter("channel_desc", EncoderChannel, "pic_height", prefix="venc")
venc_set_channel_desc_key_frame_interval = setter("channel_desc", EncoderChannel, "key_frame_interval", prefix="venc")
venc_set_channel_desc_buf_addr = setter("channel_desc", EncoderChannel, "buf_addr", "k", "venc")
venc_set_channel_desc_buf_size = setter("channel_desc", EncoderChannel, "buf_size", prefix="venc")
venc_set_channel_desc_max_bit_rate = setter("channel_desc", EncoderChannel, "max_bit_rate", prefix="venc")
venc_set_channel_desc_rc_mode = setter("channel_desc", EncoderChannel, "rc_mode", prefix="venc")
venc_set_channel_desc_src_rate = setter("channel_desc", EncoderChannel, "src_rate", prefix="venc")
venc_get_channel_desc_channel_id = getter("channel_desc", EncoderChannel, "channel_id", "venc")
venc_get_channel_desc_thread_id = getter("channel_desc", EncoderChannel, "thread_id", "venc")
venc_get_channel_desc_callback = _callback_getter("venc", EncoderChannel)
venc_get_channel_desc_entype = getter("channel_desc", EncoderChannel, "entype", "venc")
venc_get_channel_desc_pic_format = getter("channel_desc", EncoderChannel, "pic_format", "venc")
venc_get_channel_desc_pic_width = getter("channel_desc", EncoderChannel, "pic_width", "venc")
venc_get_channel_desc_pic_height = getter("channel_desc", EncoderChannel, "pic_height", "venc")
venc_get_channel_desc_key_frame_interval = getter("channel_desc", EncoderChannel, "key_frame_interval", "venc")
venc_get_channel_desc_buf_addr = getter("channel_desc", EncoderChannel, "buf_addr", "venc")
venc_get_channel_desc_buf_size = getter("channel_desc", EncoderChannel, "buf_size", "venc")
venc_get_channel_desc_max_bit_rate = getter("channel_desc", EncoderChannel, "max_bit_rate", "venc")
venc_get_channel_desc_rc_mode = getter("channel_desc", EncoderChannel, "rc_mode", "venc")
venc_get_channel_desc_src_rate = getter("channel_desc", EncoderChannel, "src_rate", "venc")


@takes("kiO")
def venc_set_channel_desc_param(handle: int, parameter: int, value: Any) -> int:
    """Set an attribute by its number: 0 is the thread, 1 the callback, 2 the format of pictures, ..., 12."""
    here = session()
    channel = here.find(handle, EncoderChannel)
    if channel is None:
        return here.unknown(handle, EncoderChannel)
    if not 0 <= parameter < len(_ENCODER_PARAMETERS):
        return here.refuse(INVALID_PARAM, f"an encoder has parameters 0 to {len(_ENCODER_PARAMETERS) - 1}")
    name = _ENCODER_PARAMETERS[parameter]
    if name == "callback":
        result: int = venc_set_channel_desc_callback(handle, value)
        return result
    if not isinstance(value, int):
        raise TypeError(f"parameter {parameter}, {name}, must be an int")
    setattr(channel, name, value)
    return SUCCESS


@takes("ki")
def venc_get_channel_desc_param(handle: int, parameter: int) -> tuple[Any, int]:
    """An attribute by its number."""
    here = session()
    channel = here.find(handle, EncoderChannel)
    if channel is None:
        return 0, here.unknown(handle, EncoderChannel)
    if not 0 <= parameter < len(_ENCODER_PARAMETERS):
        return 0, here.refuse(INVALID_PARAM, f"an encoder has parameters 0 to {len(_ENCODER_PARAMETERS) - 1}")
    return getattr(channel, _ENCODER_PARAMETERS[parameter]), SUCCESS
