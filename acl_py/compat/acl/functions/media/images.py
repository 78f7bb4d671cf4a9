"""acl.media: JPEG and PNG, decoded and encoded in a stream, and what a file's head says.

Decoders align what they write: JPEG to rows of 128 pixels and 16 rows, PNG likewise, times the bytes of a pixel. (The
A2 generation asks for 64 only; 128 suits every card.) Without Pillow all this answers 207000.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from acl_py.compat.acl.face.binding import gives, runs
from acl_py.compat.acl.face.lookups import Running
from acl_py.compat.acl.face.session import INVALID_PARAM, NOT_SUPPORTED, Session
from acl_py.compat.acl.functions.media.codecs import (
    CSS_GRAY,
    KEPT,
    Header,
    NotThisFileError,
    UnsupportedFileError,
    check_jpeg,
    check_size,
    decode_jpeg,
    decode_png,
    encode_jpeg,
    header,
    pillow,
)
from acl_py.compat.acl.functions.media.descriptions import JpegConfig, Picture
from acl_py.compat.acl.functions.media.formats import (
    FORMATS,
    NV12,
    NV21,
    RGB888,
    RGBA8888,
    UNKNOWN,
    Image,
    MediaError,
    aligned,
)
from acl_py.compat.acl.functions.media.tasks import (
    FORMAT_NOT_MATCH,
    host_bytes,
    microseconds,
    queue,
    rate_of,
    reporting,
)
from acl_py.compat.acl.standins.computations import warn
from acl_py.verbs.kernels import Cost, In, Out, kernel
from device_model.memory import Buffer, array

FAILURE, UNSUPPORTED_JPEG = 500001, 148052
_DECODED = (0, NV12, NV21, 3, 4, 5, 6, 1000, 1001, UNKNOWN)  # what the JPEG decoder writes
_ENCODED = (NV12, NV21, 7, 8, 9, 10)  # what the JPEG encoder reads
_PNG_DECODED = (RGB888, RGBA8888, UNKNOWN)
_ROW, _ROWS = 128, 16  # what decoders align to, in pixels
_ROW_LEAST = 64  # what the JPEG decoder of the A2 generation needs
_ENCODER_SIZES = range(32, 8193)
# Around the encoded image: a head, a margin, and whole pages (acldvppJpegPredictEncSize).
_HEAD, _MARGIN, _PAGE = 640, 128, 2 << 20
_EXTRA = "acl.media needs Pillow for JPEG and PNG, and it is not installed"
# 1080p images in a second, where the profile does not say. JPEG decoding: as on A2; the two others are assumed:
# encoding half as fast, PNG an eighth.
_JPEG_DECODES, _JPEG_ENCODES, _PNG_DECODES = 512, 256, 64


# --- what the tasks do


@dataclass(frozen=True, eq=False, slots=True)
class _Decoding:
    """A file to be decoded: what was described when it was queued, and whom to tell."""

    kind: str
    target: Picture
    description: Picture
    rate: float

    def __call__(self, source: Image, target: Image) -> None:
        """Decode it."""
        with reporting(f"{self.kind} decoding", self.description):
            data = source.tobytes()
            head = header(self.kind, data)
            check_size(self.kind, head)
            number, image = _jpeg(data, head, self.target) if self.kind == "JPEG" else _png(data, self.target)
            self._write(number, image, target)

    def _write(self, number: int, image: Image, target: Image) -> None:
        form = FORMATS[number]
        across, down = form.multiples
        height, width = image.shape[0] // down * down, image.shape[1] // across * across
        step = _ROW_LEAST if self.kind == "JPEG" else _ROW
        width_stride = self.target.width_stride or aligned(width, _ROW) * form.pixel_bytes
        height_stride = self.target.height_stride or aligned(height, _ROWS)
        if width_stride < aligned(width, step) * form.pixel_bytes or width_stride % step:
            raise MediaError(
                f"a width stride of {width_stride} for {width} pixels",
                f"use {aligned(width, _ROW) * form.pixel_bytes}, or 0 to leave it to the decoder",
            )
        if height_stride < height or height_stride % _ROWS:
            raise MediaError(
                f"a height stride of {height_stride} for {height} rows",
                f"use {aligned(height, _ROWS)}, or 0 to leave it to the decoder",
            )
        needed = form.nbytes(width_stride, height_stride)
        if self.target.size < needed:
            raise MediaError(
                f"the destination has a size of {self.target.size} bytes, and the image takes {needed}",
                f"ask acl.media.dvpp_{self.kind.lower()}_predict_dec_size()",
            )
        form.write(target, image[:height, :width], width_stride, height_stride)
        result = self.description
        result.format, result.size, result.width, result.height = number, needed, width, height
        result.width_stride, result.height_stride = width_stride, height_stride


def _jpeg(data: bytes, head: Header, target: Picture) -> tuple[int, Image]:
    """The format that a JPEG file is decoded to, and the image."""
    kept = KEPT.get(head.sampling, UNKNOWN)
    number = kept if target.format == UNKNOWN else target.format
    same = {kept, kept - 1 if kept in (2, 4, 6, 1001) else kept}
    allowed = same | {NV12, NV21} | ({0} if head.sampling == CSS_GRAY else set())
    image = decode_jpeg(data)
    if number not in allowed:
        names = ", ".join(FORMATS[each].name for each in sorted(allowed))
        raise MediaError(f"this JPEG image cannot become {FORMATS[number].name}", f"choose one of {names}")
    return number, image


def _png(data: bytes, target: Picture) -> tuple[int, Image]:
    """The format that a PNG file is decoded to, and the image."""
    image = decode_png(data)
    kept = RGBA8888 if image.shape[2] == 4 else RGB888
    number = kept if target.format == UNKNOWN else target.format
    if number == RGBA8888 and kept != RGBA8888:
        raise MediaError("this PNG image has no alpha to become RGBA8888", "choose RGB888")
    return number, image if number == RGBA8888 else image[..., :3]


@dataclass(frozen=True, eq=False, slots=True)
class _Encoding:
    """An image to be encoded; *size* is the host's word for the room there is, and then for the bytes there are."""

    source: Picture
    description: Picture
    level: int
    room: int
    size: Buffer

    def __call__(self, source: Image, target: Image) -> None:
        """Encode it."""
        picture = self.source
        with reporting("JPEG encoding", self.description):
            if self.level > 100:
                raise MediaError(f"JPEG level {self.level}", "choose 1 to 100, or 0 for the best")
            _check_encoder(picture)
            form = FORMATS[picture.format]
            image = form.read(source, picture.width, picture.height, picture.width_stride, picture.height_stride)
            data = encode_jpeg(image, self.level or 100, "4:2:0" if form.chroma else "4:2:2")
            if len(data) > self.room:
                raise MediaError(
                    f"the JPEG image has {len(data)} bytes, and there is room for {self.room}",
                    "ask acl.media.dvpp_jpeg_predict_enc_size()",
                )
            target[: len(data)] = np.frombuffer(data, np.uint8)
            array(self.size.allocation, self.size.offset, np.uint32, 1)[0] = len(data)


def _check_encoder(picture: Picture) -> None:
    """Refuse what the encoder does not read."""
    form, width, height = FORMATS[picture.format], picture.width, picture.height
    if width not in _ENCODER_SIZES or height not in _ENCODER_SIZES:
        raise MediaError(f"the image has {width}x{height} pixels", "the JPEG encoder takes 32 to 8192 either way")
    across, down = form.multiples
    if width % across or height % down:
        raise MediaError(
            f"the image has {width}x{height} pixels in {form.name}", f"make them multiples of {across} and {down}"
        )
    least = aligned(width * form.pixel_bytes, 16)
    if picture.width_stride % 16 or picture.width_stride < least or (not form.chroma and picture.width_stride > least):
        raise MediaError(f"a width stride of {picture.width_stride} for {width} pixels", f"use {least}")
    if picture.height_stride != height and (picture.height_stride < height or picture.height_stride % _ROWS):
        raise MediaError(f"a height stride of {picture.height_stride} for {height} rows", f"use {height}")
    needed = form.nbytes(picture.width_stride, picture.height_stride)
    if picture.size < needed:
        raise MediaError(f"the source has a size of {picture.size} bytes", f"its strides make {needed}")


def _jpeg_decode_us(_: Any, target: Any, job: _Decoding) -> float:
    return microseconds(target.nbytes / 1.5, job.rate)  # the size of the image is not known yet


def _png_decode_us(_: Any, target: Any, job: _Decoding) -> float:
    return microseconds(target.nbytes / 3, job.rate)


def _jpeg_encode_us(_: Any, __: Any, job: _Encoding) -> float:
    return microseconds(job.source.width * job.source.height, _JPEG_ENCODES)


@kernel(cost=Cost(us=_jpeg_decode_us), serial=True)
def jpeg_decode(source: In, target: Out, job: _Decoding) -> None:
    """Decode a JPEG file."""
    job(source, target)


@kernel(cost=Cost(us=_png_decode_us), serial=True)
def png_decode(source: In, target: Out, job: _Decoding) -> None:
    """Decode a PNG file."""
    job(source, target)


@kernel(cost=Cost(us=_jpeg_encode_us), serial=True)
def jpeg_encode(source: In, target: Out, job: _Encoding) -> None:
    """Encode a JPEG file."""
    job(source, target)


# --- the functions


def _check_pillow(here: Session, name: str) -> None:
    """Raise AclError, 207000, if there is no Pillow."""
    if pillow() is not None:
        return
    if _EXTRA not in here.warned:
        here.warned[_EXTRA] = None
        warn(_EXTRA, "pip install 'acl-py[media]'")
    raise here.error(NOT_SUPPORTED, f"acl.media.{name}(): {_EXTRA}")


def head_of(here: Session, kind: str, name: str, address: int, size: int) -> tuple[Header, bytes]:
    """The head of a file in host memory, and all of its bytes."""
    _check_pillow(here, name)
    data = host_bytes(here, address, size, f"the {kind} file").numpy().tobytes()
    try:
        return header(kind, data), data
    except NotThisFileError as error:
        raise here.error(FAILURE, str(error)) from None


def _decode(
    here: Session, name: str, kind: str, channel: int, address: int, size: int, target: int, stream: int
) -> Running:
    _check_pillow(here, name)
    picture = here.find(target, Picture)
    if picture is None:
        raise here.error(INVALID_PARAM, "there is no such picture")
    return decode(here, kind, channel, (address, size), picture, stream)


def decode(here: Session, kind: str, channel: int, file: tuple[int, int], picture: Picture, stream: int) -> Running:
    """Queue the decoding of a *file* of this *kind*, given as address and bytes; *picture* hears of the result."""
    if picture.format not in (_DECODED if kind == "JPEG" else _PNG_DECODED):
        raise here.error(FORMAT_NOT_MATCH, f"a {kind} file is not decoded to pixel format {picture.format}")
    ends = (*file, f"the {kind} file"), (picture.data, picture.size, "the destination")
    task, usual = (jpeg_decode, _JPEG_DECODES) if kind == "JPEG" else (png_decode, _PNG_DECODES)
    rate = rate_of(here, task.name, channel, usual)
    return queue(here, task, channel, stream, *ends, _Decoding(kind, replace(picture), picture, rate), task.name)


@gives("ku", failure=(0, 0, 0))
def dvpp_jpeg_get_image_info(here: Session, address: int, size: int) -> tuple[int, int, int]:
    """Width, height and components of a JPEG file in host memory; as it will be turned, if its tag says so."""
    head, _ = head_of(here, "JPEG", "dvpp_jpeg_get_image_info", address, size)
    return head.width, head.height, head.components


@gives("ku", failure=(0, 0, 0, 0))
def dvpp_jpeg_get_image_info_v2(here: Session, address: int, size: int) -> Header:
    """The same, and how chroma is sampled: 0 4:4:4, 1 4:2:2, 2 4:2:0, 3 grey, 4 4:4:0, 5 4:1:1, 1000 otherwise."""
    return head_of(here, "JPEG", "dvpp_jpeg_get_image_info_v2", address, size)[0]


@gives("kui")
def dvpp_jpeg_predict_dec_size(here: Session, address: int, size: int, pixel_format: int) -> int:
    """The bytes that a JPEG file in host memory takes when it is decoded to this format."""
    head, data = head_of(here, "JPEG", "dvpp_jpeg_predict_dec_size", address, size)
    if pixel_format not in _DECODED:
        raise here.error(FORMAT_NOT_MATCH, f"a JPEG file is not decoded to pixel format {pixel_format}")
    with refusing(here):
        check_jpeg(data)
        check_size("JPEG", head)
    return decoded_layout(head, pixel_format)[3]


@runs("kkukk")
def dvpp_jpeg_decode_async(here: Session, channel: int, address: int, size: int, target: int, stream: int) -> Running:
    """Decode a JPEG file in device memory; *target* hears of the size and the strides of the image."""
    return _decode(here, "dvpp_jpeg_decode_async", "JPEG", channel, address, size, target, stream)


@gives("kk")
def dvpp_jpeg_predict_enc_size(here: Session, source: int, config: int) -> int:
    """The bytes that an image may take when it is encoded: whole pages of 2 MiB."""
    picture, _ = _to_encode(here, source, config)
    with refusing(here):
        _check_encoder(replace(picture, size=1 << 40))  # only its shape counts here
    nbytes = FORMATS[picture.format].nbytes(picture.width_stride, picture.height_stride)
    return aligned(nbytes + _HEAD + _MARGIN, _PAGE)


def _to_encode(here: Session, source: int, config: int) -> tuple[Picture, JpegConfig]:
    picture, settings = here.find(source, Picture), here.find(config, JpegConfig)
    if picture is None or settings is None:
        raise here.error(INVALID_PARAM, "there is no such picture, or no such configuration")
    if picture.format not in _ENCODED:
        raise here.error(FORMAT_NOT_MATCH, f"the JPEG encoder does not read pixel format {picture.format}")
    return picture, settings


def decoded_layout(head: Header, pixel_format: int) -> tuple[int, int, int, int]:
    """The format, both strides and the bytes that a JPEG file is decoded to; UNKNOWN keeps the file's own format."""
    number = KEPT[head.sampling] if pixel_format == UNKNOWN else pixel_format
    form = FORMATS[number]
    width_stride, height_stride = aligned(head.width, _ROW) * form.pixel_bytes, aligned(head.height, _ROWS)
    return number, width_stride, height_stride, form.nbytes(width_stride, height_stride)


@contextmanager
def refusing(here: Session) -> Iterator[None]:
    """Raise AclError where the hardware would not do what is asked."""
    try:
        yield
    except MediaError as error:
        code = UNSUPPORTED_JPEG if isinstance(error, UnsupportedFileError) else INVALID_PARAM
        raise here.error(code, str(error)) from None


@runs("kkkkkk")
def dvpp_jpeg_encode_async(
    here: Session, channel: int, source: int, address: int, size: int, config: int, stream: int
) -> Running:
    """Encode an image; *size* is the address of a host word: the room at *address*, and later the bytes of the file."""
    _check_pillow(here, "dvpp_jpeg_encode_async")
    picture, settings = _to_encode(here, source, config)
    word = host_bytes(here, size, 4, "dst")
    room = int(word.numpy(np.uint32)[0])
    ends = (picture.data, picture.size, "the source"), (address, room, "the destination")
    job = _Encoding(replace(picture), picture, settings.level, room, word)
    return queue(here, jpeg_encode, channel, stream, *ends, job, jpeg_encode.name)


@gives("ku", failure=(0, 0, 0))
def dvpp_png_get_image_info(here: Session, address: int, size: int) -> tuple[int, int, int]:
    """Width, height and components of a PNG file in host memory."""
    head, _ = head_of(here, "PNG", "dvpp_png_get_image_info", address, size)
    return head.width, head.height, head.components


@gives("kui")
def dvpp_png_predict_dec_size(here: Session, address: int, size: int, pixel_format: int) -> int:
    """The bytes that a PNG file in host memory takes when it is decoded to this format."""
    head, _ = head_of(here, "PNG", "dvpp_png_predict_dec_size", address, size)
    if pixel_format not in _PNG_DECODED:
        raise here.error(FORMAT_NOT_MATCH, f"a PNG file is not decoded to pixel format {pixel_format}")
    with refusing(here):
        check_size("PNG", head)
    has_alpha = pixel_format == RGBA8888 or (pixel_format == UNKNOWN and head.components in (2, 4))
    form = FORMATS[RGBA8888 if has_alpha else RGB888]
    return form.nbytes(aligned(head.width, _ROW) * form.pixel_bytes, aligned(head.height, _ROWS))


@runs("kkukk")
def dvpp_png_decode_async(here: Session, channel: int, address: int, size: int, target: int, stream: int) -> Running:
    """Decode a PNG file in device memory; *target* hears of the size and the strides of the image."""
    return _decode(here, "dvpp_png_decode_async", "PNG", channel, address, size, target, stream)
