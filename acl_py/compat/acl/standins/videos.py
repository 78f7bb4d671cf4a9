"""Videos: the functions that decode and encode in the place of the video hardware.

A program may register its own, by codec: "h264" or "h265". Otherwise PyAV does it, if it is installed. Without PyAV
there are stand-ins for tests of host code: frames of plain grey, and encoded frames that hold filler of the right size.

A frame is an array of bytes in NV12, (height * 3 // 2, width): luma, and below it the pairs of chroma.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from acl_py.compat.acl.standins import pyav

Frame = npt.NDArray[np.uint8]
Decode = Callable[[bytes | None], Iterable[Frame]]
Encode = Callable[[Frame | None, bool], bytes]

CODECS = ("h264", "h265")
_GREY = 128
_BITS_PER_SECOND, _FRAMES_PER_SECOND = 2_000_000, 30  # of the stand-in, where the channel does not say
_FILLER = {"h264": b"\x0c", "h265": b"\x4c\x01"}  # the heads of units that decoders skip


class VideoSettings(NamedTuple):
    """What a channel is set to: "h264" or "h265", pixels, and for an encoder how it encodes; 0 is not set."""

    codec: str
    width: int
    height: int
    key_frame_interval: int = 0
    frames_per_second: int = 0
    bits_per_second: int = 0


_decoders: dict[str, Callable[[VideoSettings], Decode]] = {}
_encoders: dict[str, Callable[[VideoSettings], Encode]] = {}


def register_decoder(codec: str) -> Callable[[Callable[[VideoSettings], Decode]], Callable[[VideoSettings], Decode]]:
    """Make a function the one that makes the decoders of acl.media.vdec_* for a codec.

        @register_decoder("h264")
        def decoder(settings):
            def decode(data):  # the bytes of one vdec_send_frame(), or None at the end of the stream
                return [np.full((settings.height * 3 // 2, settings.width), 80, np.uint8)]

            return decode

    It is called when a channel gets its first frame, and returns the decoder of that channel. The decoder returns the
    frames that have come out, none or more: each belongs to the oldest vdec_send_frame() that has no frame yet.

    Args:
        codec: "h264" or "h265".

    Returns:
        A decorator, which returns the function unchanged.

    Raises:
        ValueError: There is no such codec.
    """
    return _registration(_decoders, codec)


def unregister_decoder(codec: str) -> None:
    """Undo `register_decoder`.

    Raises:
        KeyError: No decoder is registered for this codec.
    """
    del _decoders[codec]


def register_encoder(codec: str) -> Callable[[Callable[[VideoSettings], Encode]], Callable[[VideoSettings], Encode]]:
    """Make a function the one that makes the encoders of acl.media.venc_* for a codec.

        @register_encoder("h264")
        def encoder(settings):
            def encode(frame, is_key):  # an array in NV12, or None at the end of the stream
                return b"" if frame is None else zlib.compress(frame)

            return encode

    It is called when a channel is created, and returns the encoder of that channel. The encoder returns the bytes that
    have come out so far; there is no callback for a frame without bytes.

    Args:
        codec: "h264" or "h265".

    Returns:
        A decorator, which returns the function unchanged.

    Raises:
        ValueError: There is no such codec.
    """
    return _registration(_encoders, codec)


def unregister_encoder(codec: str) -> None:
    """Undo `register_encoder`.

    Raises:
        KeyError: No encoder is registered for this codec.
    """
    del _encoders[codec]


def _registration(table: dict[str, Any], codec: str) -> Callable[[Any], Any]:
    if codec not in CODECS:
        raise ValueError(f"there is no codec {codec!r}; there are {', '.join(CODECS)}")

    def register(make: Any) -> Any:
        table[codec] = make
        return make

    return register


def create_decoder(settings: VideoSettings) -> Decode | None:
    """Return a decoder that decodes, or None if there is only the stand-in."""
    make = _decoders.get(settings.codec)
    if make is not None:
        return make(settings)
    return pyav.create_decoder(settings.codec) if pyav.is_installed() else None


def create_encoder(settings: VideoSettings) -> Encode | None:
    """Return an encoder that encodes, or None if there is only the stand-in."""
    make = _encoders.get(settings.codec)
    if make is not None:
        return make(settings)
    return pyav.create_encoder(*settings) if pyav.is_installed() else None


def create_grey_decoder(settings: VideoSettings) -> Decode:
    """Return the stand-in that gives a grey frame for each one that it gets."""
    height, width = settings.height + settings.height % 2, settings.width + settings.width % 2

    def decode(data: bytes | None) -> Iterable[Frame]:
        return [] if data is None else [np.full((height * 3 // 2, width), _GREY, np.uint8)]

    return decode


def create_filler_encoder(settings: VideoSettings) -> Encode:
    """Return the stand-in that gives filler for each frame, as many bytes as the bit rate has for a frame."""
    bits = settings.bits_per_second or _BITS_PER_SECOND
    nbytes = bits // 8 // (settings.frames_per_second or _FRAMES_PER_SECOND)
    head = b"\0\0\0\1" + _FILLER[settings.codec]
    unit = head + b"\xff" * max(nbytes - len(head) - 1, 0) + b"\x80"

    def encode(frame: Frame | None, _: bool) -> bytes:
        return b"" if frame is None else unit

    return encode
