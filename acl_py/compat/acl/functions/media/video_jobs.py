"""The kernels of videos: each decodes or encodes one frame, or ends a stream of frames.

A decoder may give the picture of a frame later than with that frame. So pictures go to the frames that wait, in their
order.
"""

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from acl_py.compat.acl.functions.media.descriptions import Picture
from acl_py.compat.acl.functions.media.formats import FORMATS, NV12, Family, Image, MediaError, convert
from acl_py.compat.acl.functions.media.tasks import FAILED, microseconds
from acl_py.compat.acl.functions.media.video_channels import Line
from acl_py.compat.acl.functions.media.vpc import resize
from acl_py.compat.acl.standins.computations import warn
from acl_py.compat.acl.standins.videos import Frame
from acl_py.verbs.kernels import Cost, In, Out, kernel

_INTERPOLATION = 0


@dataclass(eq=False, slots=True)
class Sent:
    """A frame that a script has sent: the handles and the data for its callback, and whether it is done."""

    source: int
    target: int
    data: Any
    has_run: bool = False
    is_done: bool = False


@dataclass(eq=False, slots=True)
class Decoding(Sent):
    """A frame to decode: its bytes, a copy of the picture as it was described, and the host's *description* for the
    result.

    The picture of a skipped frame is None.
    """

    encoded: bytes = b""
    picture: Picture | None = None
    description: Picture | None = None
    target_bytes: Image | None = None
    pixels: float = 0
    rate: int = 1
    line: Line | None = None

    def run(self, target: Image | None) -> None:
        """Decode it; pictures that come out go to the frames that wait for one."""
        assert self.line is not None, "a frame is sent to a channel"
        self.has_run, self.target_bytes = True, target
        _decode_into(self.line, self.encoded, self.fail)

    def take(self, frame: Frame) -> None:
        """Write the picture."""
        try:
            if self.picture is not None:
                self._write(frame)
        except MediaError as error:
            self.fail(error.what, error.remedy)
        self.is_done = True

    def fail(self, what: str, remedy: str) -> None:
        """End without a picture, and say why."""
        warn(f"video decoding failed: {what}", remedy)
        if self.description is not None:
            self.description.ret_code = FAILED
        self.is_done = True

    def _write(self, frame: Frame) -> None:
        picture, description = self.picture, self.description
        assert picture is not None, "a skipped frame is not written"
        assert description is not None, "a picture is that of a description"
        assert self.target_bytes is not None, "pictures come after the frame was sent"
        image = _image_of(frame)
        width, height = picture.width or image.shape[1], picture.height or image.shape[0]
        form = FORMATS[picture.format]
        width_stride, height_stride = form.strides(width, height)
        width_stride, height_stride = picture.width_stride or width_stride, picture.height_stride or height_stride
        form.check("the decoded picture", width, height, width_stride, height_stride)
        needed = form.nbytes(width_stride, height_stride)
        if picture.size < needed:
            raise MediaError(
                f"the destination has a size of {picture.size} bytes, and the picture takes {needed}",
                "make it larger: width stride times height stride times 3/2 for YUV420SP",
            )
        image = convert(resize(image, width, height, _INTERPOLATION), Family.YUV, form.family, 0)
        form.write(self.target_bytes, image, width_stride, height_stride)
        description.width, description.height, description.format = width, height, picture.format
        description.width_stride, description.height_stride = width_stride, height_stride
        description.ret_code = 0


def _image_of(frame: Any) -> Image:
    """The pixels of *frame*, which a decoder has returned."""
    array = np.asarray(frame)
    if array.dtype != np.uint8 or array.ndim != 2 or array.shape[0] % 3 or array.shape[1] % 2 or not array.size:
        raise MediaError(
            f"the decoder gave an array of {array.dtype} and shape {array.shape}",
            "return NV12: uint8, (height * 3 // 2, width), both even",
        )
    height, width = array.shape[0] // 3 * 2, array.shape[1]
    return FORMATS[NV12].read(np.ascontiguousarray(array).reshape(-1), width, height, width, height)


def _decode_into(line: Line, data: bytes | None, fail: Callable[[str, str], None]) -> None:
    """Decode *data*, and give what comes out to the frames that wait; *fail* hears why it did not."""
    assert line.decode is not None, "the first frame has chosen a decoder"
    try:
        line.pictures.extend(line.decode(data))
    except Exception as error:  # any: it is a program's function, or a library's
        fail(f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error)).rstrip())
        return
    for sent in list(line.frames):  # the thread of the channel takes some away meanwhile
        if line.pictures and sent.has_run and not sent.is_done:
            sent.take(line.pictures.popleft())


@dataclass(eq=False, slots=True)
class Encoding(Sent):
    """A picture to encode: a copy of its description, and what came out."""

    picture: Picture | None = None
    is_key: bool = False
    ret_code: int = 0
    nbytes: int = 0
    pixels: float = 0
    rate: int = 1
    line: Line | None = None

    def run(self, source: Image | None, output: Image) -> None:
        """Encode it, or at the end of the stream what is left."""
        assert self.line is not None, "a picture is sent to a channel"
        assert self.line.encode is not None, "a channel has an encoder"
        self.has_run = True
        try:
            data = self.line.encode(None if source is None else self._frame_of(source), self.is_key)
            if len(data) > output.nbytes:
                raise MediaError(
                    f"the encoded frame has {len(data)} bytes, and there is room for {output.nbytes}",
                    "set a larger buffer with acl.media.venc_set_channel_desc_buf_addr() and _buf_size()",
                )
            output[: len(data)] = np.frombuffer(data, np.uint8)
            self.nbytes = len(data)
        except MediaError as error:
            self.fail(error.what, error.remedy)
        except Exception as error:  # any: it is a program's function, or a library's
            self.fail(f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error)).rstrip())

    def fail(self, what: str, remedy: str) -> None:
        """End without bytes, and say why."""
        warn(f"video encoding failed: {what}", remedy)
        self.ret_code = FAILED

    def _frame_of(self, source: Image) -> Frame:
        picture = self.picture
        assert picture is not None, "there is a source"
        width, height = picture.width, picture.height
        image = FORMATS[picture.format].read(source, width, height, picture.width_stride, picture.height_stride)
        frame = np.empty(height * 3 // 2 * width, np.uint8)
        FORMATS[NV12].write(frame, image, width, height)
        return frame.reshape(height * 3 // 2, width)


def _us(*args: Any) -> float:
    job = args[-1]
    return microseconds(job.pixels, job.rate)


@kernel(cost=Cost(us=_us), serial=True)
def vdec(target: Out, job: Decoding) -> None:
    """Decode a frame."""
    job.run(target)


@kernel(cost=Cost(us=_us), serial=True)
def vdec_skipped(job: Decoding) -> None:
    """Decode a frame and drop its picture."""
    job.run(None)


@kernel(cost=Cost(us=0), serial=True)
def vdec_end(line: Line) -> None:
    """Give what the decoder has left to the frames that wait."""

    def fail(what: str, remedy: str) -> None:
        warn(f"the end of a video: {what}", remedy)

    if line.decode is not None:
        _decode_into(line, None, fail)
    for sent in list(line.frames):  # the thread of the channel takes some away meanwhile
        if not sent.is_done:
            sent.fail(
                "no picture came out for a frame", "check that each frame was sent whole, and the headers with it"
            )


@kernel(cost=Cost(us=_us), serial=True)
def venc(source: In, output: Out, job: Encoding) -> None:
    """Encode a picture."""
    job.run(source, output)


@kernel(cost=Cost(us=0), serial=True)
def venc_end(output: Out, job: Encoding) -> None:
    """Write what the encoder has left."""
    job.run(None, output)
