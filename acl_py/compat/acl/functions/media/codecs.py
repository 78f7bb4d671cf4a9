"""Image files: JPEG and PNG to arrays and back, through Pillow, which is an extra (`acl-py[media]`).

What the hardware refuses is refused here: progressive JPEG, colour spaces other than YUV and grey, sizes out of its
range. JPEG is decoded to YUV and never goes through RGB; its orientation tag is obeyed, as by the hardware.

Whatever the bytes of a file are, the answer is an image or a `MediaError`. Pillow's own errors are translated, and its
warnings are not shown. No pixel is decoded before the size is known to be in range.
"""

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from acl_py.compat.acl.functions.media.formats import NV12, Image, MediaError

CSS_444, CSS_422, CSS_420, CSS_GRAY, CSS_440, CSS_411, CSS_UNKNOWN = 0, 1, 2, 3, 4, 5, 1000  # acldvppJpegFormat
# Sampling factors of luma (across, down) where chroma has (1, 1), by name; and the format that keeps it, V before U.
_SAMPLINGS = {(1, 1): CSS_444, (2, 1): CSS_422, (2, 2): CSS_420, (1, 2): CSS_440, (4, 1): CSS_411}
KEPT = {CSS_444: 6, CSS_422: 4, CSS_420: 2, CSS_GRAY: NV12, CSS_440: 1001}
_ORIENTATION = 0x0112  # the tag of Exif that says how a picture is turned, 1 to 8
_TURNED = range(5, 9)  # those that exchange width and height
# What makes a picture upright that has this orientation, as Pillow calls it.
_UPRIGHT = {
    2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM", 5: "TRANSPOSE", 6: "ROTATE_270", 7: "TRANSVERSE",
    8: "ROTATE_90",
}  # fmt: skip
SIZES = {"JPEG": range(32, 8193), "PNG": range(32, 4097)}  # in pixels, either way
_COMPONENTS = {"1": 1, "L": 1, "LA": 2, "P": 3, "RGB": 3, "RGBA": 4, "CMYK": 4, "YCbCr": 3, "I;16": 1, "I": 1}


class NotThisFileError(MediaError):
    """The bytes are no file of the kind that was asked for."""


class UnsupportedFileError(MediaError):
    """The file is of a variety that the hardware cannot decode."""


class Header(NamedTuple):
    """What stands at the head of a file."""

    width: int
    height: int
    components: int
    sampling: int  # acldvppJpegFormat


@cache
def pillow() -> ModuleType | None:
    """Pillow's Image module, or None where it is not installed."""
    try:
        import PIL.Image
    except ImportError:
        return None
    return PIL.Image


def header(kind: str, data: bytes) -> Header:
    """What the file of this *kind*, "JPEG" or "PNG", says about itself."""
    with _opened(kind, data) as file:
        width, height = file.size
        if kind == "PNG":
            return Header(width, height, _components(file), CSS_UNKNOWN)
        if _orientation(file) in _TURNED:
            width, height = height, width
        return Header(width, height, file.layers, _sampling(file))


def check_size(kind: str, head: Header) -> None:
    """Refuse a size that the decoder does not take."""
    sizes = SIZES[kind]
    if head.width not in sizes or head.height not in sizes:
        raise MediaError(
            f"a {kind} image of {head.width}x{head.height} pixels",
            f"the decoder takes {sizes.start} to {sizes.stop - 1} either way",
        )


def check_jpeg(data: bytes) -> None:
    """Refuse what the decoder cannot decode."""
    with _opened("JPEG", data) as file:
        _check_variety(file)


def decode_jpeg(data: bytes) -> Image:
    """The image in YUV, as the file has it; `check_size` has been asked."""
    from PIL.Image import Transpose

    with _opened("JPEG", data) as file:
        _check_variety(file)
        file.draft("YCbCr", None)
        if file.mode not in ("YCbCr", "L"):
            raise UnsupportedFileError(f"a JPEG image in {file.mode}", "save it in YUV, or in grey")
        orientation = _orientation(file)
        with _decoding("JPEG"):
            file.load()
        upright = file.transpose(Transpose[_UPRIGHT[orientation]]) if orientation in _UPRIGHT else file
        values = np.asarray(upright)
    if values.ndim == 3:
        return values
    image = np.full((*values.shape, 3), 128, np.uint8)
    image[..., 0] = values
    return image


def decode_png(data: bytes) -> Image:
    """The image in RGB, with alpha as a fourth value if the file has it; `check_size` has been asked."""
    with _opened("PNG", data) as file:
        has_alpha = _components(file) in (2, 4)
        with _decoding("PNG"):
            return np.asarray(file.convert("RGBA" if has_alpha else "RGB"))


def encode_jpeg(image: Image, quality: int, sampling: str) -> bytes:
    """A JPEG file of an *image* in YUV; *sampling* is "4:2:0" or "4:2:2"."""
    module = pillow()
    assert module is not None, "the caller has asked for it"
    height, width, _ = image.shape
    stream = BytesIO()
    module.frombytes("YCbCr", (width, height), image.tobytes()).save(
        stream, "JPEG", quality=quality, subsampling=sampling
    )
    return stream.getvalue()


_reading = threading.Lock()  # the filters of warnings are the process'


@contextmanager
def _opened(kind: str, data: bytes) -> Iterator[Any]:
    """The file, its head read. The plug-in is called directly, for `Image.open` looks for other formats in a JPEG file,
    and warns of sizes, which `check_size` refuses.
    """
    from PIL import JpegImagePlugin, PngImagePlugin

    plugin = JpegImagePlugin.JpegImageFile if kind == "JPEG" else PngImagePlugin.PngImageFile
    with _reading, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            file = plugin(BytesIO(data))
        except Exception as error:  # any: the parser is a plug-in's
            raise NotThisFileError(f"{len(data)} bytes that are no {kind} file", f"pass a whole {kind} file") from error
        with file:
            yield file


@contextmanager
def _decoding(kind: str) -> Iterator[None]:
    """Within this Pillow decodes; what it raises, of whatever class, means that the file is damaged."""
    try:
        yield
    except Exception as error:
        what = f"the {kind} image is damaged: {error}"
        raise MediaError(what, "check that the file is whole, and that size tells all of its bytes") from error


def _orientation(file: Any) -> int:
    """How the picture is turned; 1, upright, if the file does not say so in a way that can be read."""
    try:
        orientation = file.getexif().get(_ORIENTATION)
    except Exception:  # any, as above; without the tag the image is still there
        return 1
    return orientation if isinstance(orientation, int) else 1


def _components(file: Any) -> int:
    return 4 if "transparency" in file.info and file.mode != "L" else _COMPONENTS.get(file.mode, 3)


def _sampling(file: Any) -> int:
    if file.layers == 1:
        return CSS_GRAY
    if file.layers != 3:
        return CSS_UNKNOWN
    (_, across, down, _), *chroma = file.layer
    if any(layer[1:3] != chroma[0][1:3] for layer in chroma) or not all(chroma[0][1:3]):
        return CSS_UNKNOWN
    if across % chroma[0][1] or down % chroma[0][2]:
        return CSS_UNKNOWN
    return _SAMPLINGS.get((across // chroma[0][1], down // chroma[0][2]), CSS_UNKNOWN)


def _check_variety(file: Any) -> None:
    if file.info.get("progressive"):
        raise UnsupportedFileError("a progressive JPEG image", "save it as baseline JPEG")
    if file.info.get("adobe_transform") == 0 and file.layers == 3:
        raise UnsupportedFileError("a JPEG image in RGB", "save it in YUV, as almost all software does")
    if _sampling(file) not in KEPT:
        raise UnsupportedFileError(
            f"a JPEG image of {file.layers} components, sampled {[layer[1:3] for layer in file.layer]}",
            "save it in YUV 4:4:4, 4:4:0, 4:2:2 or 4:2:0, or in grey",
        )
