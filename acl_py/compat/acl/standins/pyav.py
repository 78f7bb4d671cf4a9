"""PyAV: H.264 and H.265 in software, an extra (`acl-py[video]`).

One thread for each codec, so that the same frames give the same bytes in every run.
"""

from collections.abc import Callable, Iterable
from fractions import Fraction
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

_DECODERS = {"h264": "h264", "h265": "hevc"}
_ENCODERS = {"h264": "libx264", "h265": "libx265"}
_FRAMES_PER_SECOND = 30
# Each frame comes out at once. The threads of libx265 are its own.
_OPTIONS = {
    "h264": {"tune": "zerolatency", "preset": "veryfast"},
    "h265": {"tune": "zerolatency", "preset": "veryfast", "x265-params": "pools=none:frame-threads=1:log-level=error"},
}


def is_installed() -> bool:
    """Whether PyAV is there."""
    return find_spec("av") is not None


def create_decoder(codec: str) -> Callable[[bytes | None], Iterable[npt.NDArray[np.uint8]]]:
    """Return a function that decodes "h264" or "h265" to arrays in NV12; None ends the stream."""
    import av

    context: Any = av.CodecContext.create(_DECODERS[codec], "r")
    context.thread_count = 1

    def decode(data: bytes | None) -> list[npt.NDArray[np.uint8]]:
        frames = context.decode(None if data is None else av.Packet(data))
        return [frame.to_ndarray(format="nv12") for frame in frames]

    return decode


def create_encoder(
    codec: str, width: int, height: int, key_frame_interval: int, frames_per_second: int, bits_per_second: int
) -> Callable[[npt.NDArray[np.uint8] | None, bool], bytes]:
    """Return a function that encodes arrays in NV12 to "h264" or "h265"; None ends the stream."""
    import av

    context: Any = av.CodecContext.create(_ENCODERS[codec], "w")
    context.width, context.height, context.pix_fmt = width, height, "yuv420p"
    context.time_base = Fraction(1, frames_per_second or _FRAMES_PER_SECOND)
    context.thread_count = 1
    context.options = _OPTIONS[codec]
    if key_frame_interval:
        context.gop_size = key_frame_interval
    if bits_per_second:
        context.bit_rate = bits_per_second
    count = 0

    def encode(array: npt.NDArray[np.uint8] | None, is_key: bool) -> bytes:
        nonlocal count
        frame: Any = None
        if array is not None:
            frame = av.VideoFrame.from_ndarray(array, format="nv12").reformat(format="yuv420p")
            frame.pts = count
            if is_key:
                frame.pict_type = av.video.frame.PictureType.I
            count += 1
        return b"".join(bytes(packet) for packet in context.encode(frame))

    return encode
