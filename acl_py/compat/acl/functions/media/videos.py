"""acl.media: videos, decoded and encoded frame by frame.

A channel has a stream, in which each frame is an ordinary kernel that takes no AI core, and behind it a callback. The
thread of the channel runs the callback when it calls acl.rt.process_report(). What the frames hold is up to
standins/videos.py. The time of a frame follows from its pixels and from the profile of the card.

A decoder may give the picture of a frame later than with that frame. So pictures go to the frames that wait, in their
order, and callbacks are called in that order. An encoder has one buffer: it waits for the callback of a frame before it
encodes the next one.
"""

import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import acl_py as native
from acl_py.compat.acl.face.binding import runs
from acl_py.compat.acl.face.lookups import wait_within_call
from acl_py.compat.acl.face.session import INVALID_PARAM, NOT_SUPPORTED, Session
from acl_py.compat.acl.functions.media.descriptions import CodecStream, Picture
from acl_py.compat.acl.functions.media.formats import FORMATS, NV12, NV21, UNKNOWN, Family, Image, MediaError, convert
from acl_py.compat.acl.functions.media.tasks import FAILED, FORMAT_NOT_MATCH, microseconds
from acl_py.compat.acl.functions.media.video_channels import (
    DecoderChannel,
    EncoderChannel,
    EncoderFrameConfig,
    Line,
)
from acl_py.compat.acl.functions.media.vpc import resize
from acl_py.compat.acl.standins.computations import warn
from acl_py.compat.acl.standins.videos import (
    Frame,
    VideoSettings,
    create_decoder,
    create_encoder,
    create_filler_encoder,
    create_grey_decoder,
)
from acl_py.verbs.callbacks import CallbackBlock
from acl_py.verbs.kernels import Cost, In, Out, kernel
from device_model.memory import Buffer

_CODECS = {0: "h265", 1: "h264", 2: "h264", 3: "h264"}  # by acldvppStreamFormat: main; baseline, main, high
_DECODED = (NV12, NV21, 12, 13)  # what the decoder writes: YUV420SP, RGB888 and BGR888
_ENCODED = (NV12, NV21)
_OUTPUT = 8 << 20  # bytes of an encoder's buffer, if the script does not say
_INTERPOLATION = 0
_REMEDY = "install PyAV, pip install 'acl-py[video]', or call acl_py.compat.acl.{}({!r})"


# --- what the tasks do


@dataclass(eq=False, slots=True)
class _Sent:
    """A frame that a script has sent: the handles and the data for its callback, and whether it is done."""

    source: int
    target: int
    data: Any
    has_run: bool = False
    is_done: bool = False


@dataclass(eq=False, slots=True)
class _Decoding(_Sent):
    """A frame to decode: a copy of the picture as it was described, and the host's *description* for the result.

    The picture of a skipped frame is None.
    """

    picture: Picture | None = None
    description: Picture | None = None
    target_bytes: Image | None = None
    pixels: float = 0
    rate: int = 1
    line: Line | None = None

    def run(self, data: bytes, target: Image | None) -> None:
        """Decode it; pictures that come out go to the frames that wait for one."""
        assert self.line is not None, "a frame is sent to a channel"
        self.has_run, self.target_bytes = True, target
        _decode_into(self.line, data, self.fail)

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
class _Encoding(_Sent):
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
def vdec(source: In, target: Out, job: _Decoding) -> None:
    """Decode a frame."""
    job.run(source.tobytes(), target)


@kernel(cost=Cost(us=_us), serial=True)
def vdec_skipped(source: In, job: _Decoding) -> None:
    """Decode a frame and drop its picture."""
    job.run(source.tobytes(), None)


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
def venc(source: In, output: Out, job: _Encoding) -> None:
    """Encode a picture."""
    job.run(source, output)


@kernel(cost=Cost(us=0), serial=True)
def venc_end(output: Out, job: _Encoding) -> None:
    """Write what the encoder has left."""
    job.run(None, output)


# --- callbacks


def _call(function: Callable[..., object], *args: Any) -> None:
    try:
        function(*args)
    except Exception:
        traceback.print_exc()


def _tell_decoded(channel: DecoderChannel, line: Line, last: "_Decoding | None" = None) -> None:
    """Call the callbacks of the frames that are done, up to the first one that is not, or to *last*.

    The device may be ahead of this callback, but only the callback of a frame promises that its work is over.
    """
    assert channel.callback is not None, "create_channel has asked for it"
    while line.frames and line.frames[0].is_done:
        done = line.frames.popleft()
        _call(channel.callback, done.source, done.target, done.data)
        if done is last:
            return


def _tell_encoded(here: Session, channel: EncoderChannel, line: Line, sent: _Encoding) -> None:
    """Call the callback with the bytes of a frame; they and their description are there until it returns."""
    assert channel.callback is not None, "create_channel has asked for it"
    assert line.output is not None, "a channel has a buffer"
    line.frames.remove(sent)
    if not sent.has_run:
        sent.fail("the memory of a picture was gone before it was encoded", "free it in the callback")
    if not sent.nbytes and not sent.ret_code:
        return
    handle = here.handle(CodecStream(line.output.address, sent.nbytes, channel.entype, ret_code=sent.ret_code))
    try:
        _call(channel.callback, sent.source, handle, sent.data)
    finally:
        here.forget(handle)


# --- channels


def _rate(here: Session, does: str) -> int:
    """How many frames of 1920x1080 a channel does in a second."""
    video = here.runtime.profile.video
    rate = 0 if video is None else video.decode if does == "decode" else video.encode
    if not rate:
        name = here.runtime.profile.name
        raise here.error(NOT_SUPPORTED, f"{name} has no hardware to {does} videos; choose another card with --device")
    return rate


def _codec(here: Session, entype: int) -> str:
    if entype not in _CODECS:
        raise here.error(INVALID_PARAM, f"there is no video format {entype}: 0 is H.265, 1 to 3 are H.264")
    return _CODECS[entype]


async def _open(here: Session, channel: DecoderChannel | EncoderChannel) -> Line:
    if channel.callback is None or not channel.thread_id:
        raise here.error(INVALID_PARAM, "a video channel needs a callback, and the thread that runs it; set both first")
    stream = await native.CreateStream()
    try:
        await native.SubscribeReport(channel.thread_id, stream)
    except BaseException:
        await native.DestroyStream(stream)
        raise
    return Line(stream)


async def _drain(line: Line) -> None:
    """Wait until all frames are done, and their callbacks have returned."""

    def end(_: object) -> None:
        """The last callback."""

    await native.LaunchCallback(end, None, CallbackBlock.BLOCK, line.stream)
    await wait_within_call(line.stream)


async def _close(channel: DecoderChannel | EncoderChannel, line: Line) -> None:
    try:
        if line.frames:
            await _drain(line)
    finally:
        channel.line = None
        await native.UnsubscribeReport(channel.thread_id, line.stream)
        await native.DestroyStream(line.stream)
        if line.owns_output:
            await native.Free(line.output)


def _no_channel(here: Session, prefix: str) -> Exception:
    return here.error(INVALID_PARAM, f"there is no such channel; call acl.media.{prefix}_create_channel() first")


def _fresh(here: Session, channel: DecoderChannel | EncoderChannel | None) -> DecoderChannel | EncoderChannel:
    if channel is None or channel.line is not None:
        raise here.error(INVALID_PARAM, "there is no such description, or its channel exists already")
    return channel


# --- decoding


@runs("k")
async def vdec_create_channel(here: Session, handle: int) -> None:
    """Bring a decoder into being, with a stream to which its thread is subscribed."""
    channel = _fresh(here, here.find(handle, DecoderChannel))
    _rate(here, "decode")
    _codec(here, channel.entype)
    channel.line = await _open(here, channel)


@runs("k")
async def vdec_destroy_channel(here: Session, handle: int) -> None:
    """End a decoder, when all frames are decoded and their callbacks have returned."""
    channel = here.find(handle, DecoderChannel)
    if channel is None or channel.line is None:
        raise _no_channel(here, "vdec")
    await _close(channel, channel.line)


@runs("kkkkO")
async def vdec_send_frame(here: Session, handle: int, source: int, target: int, _: int, data: Any) -> None:
    """Queue a frame to decode into *target*. At the end of the stream, wait for all frames and their callbacks."""
    picture = here.find(target, Picture)
    await _send(here, handle, source, target, picture, data)


@runs("kkkO")
async def vdec_send_skipped_frame(here: Session, handle: int, source: int, _: int, data: Any) -> None:
    """Queue a frame to decode whose picture is not wanted; the callback gets 0 for it."""
    await _send(here, handle, source, 0, None, data)


async def _send(here: Session, handle: int, source: int, target: int, description: Picture | None, data: Any) -> None:
    channel, stream = here.find(handle, DecoderChannel), here.find(source, CodecStream)
    if channel is None or channel.line is None:
        raise _no_channel(here, "vdec")
    if stream is None:
        raise here.error(INVALID_PARAM, here.explain(source, CodecStream))
    line = channel.line
    if stream.data and stream.size:
        if target and description is None:
            raise here.error(INVALID_PARAM, here.explain(target, Picture))
        await _queue(here, channel, line, stream, _Decoding(source, target, data, description=description))
    elif not stream.eos:
        raise here.error(INVALID_PARAM, "the frame has no data, or no size, and does not end the stream")
    if stream.eos:
        await native.LaunchKernel(vdec_end, 1, (line,), line.stream)

        def decoded(_: object) -> None:
            _tell_decoded(channel, line)

        await native.LaunchCallback(decoded, None, CallbackBlock.NO_BLOCK, line.stream)
        await _drain(line)
        line.decode = None  # what comes next is another stream
        line.pictures.clear()


async def _queue(here: Session, channel: DecoderChannel, line: Line, stream: CodecStream, job: _Decoding) -> None:
    ends = [here.place(stream.data, stream.size, "the frame")]
    if job.description is not None:
        job.picture = picture = _wanted(here, channel, job.description)
        ends.append(here.place(picture.data, picture.size, "the picture"))
    job.line, job.rate, job.pixels = line, _rate(here, "decode"), _pixels(channel, job.picture)
    if line.decode is None:
        line.decode = _decoder(here, channel, job.picture)
    line.frames.append(job)
    try:
        await native.LaunchKernel(vdec if job.picture else vdec_skipped, 1, (*ends, job), line.stream)
    except BaseException:
        line.frames.remove(job)
        raise

    def decoded(_: object) -> None:
        if not job.has_run:
            job.fail("the memory of a frame was gone before it was decoded", "free it in the callback")
        _tell_decoded(channel, line, job)

    await native.LaunchCallback(decoded, None, CallbackBlock.NO_BLOCK, line.stream)


def _wanted(here: Session, channel: DecoderChannel, description: Picture) -> Picture:
    """*description* with what the channel says where it says nothing."""
    picture = replace(
        description,
        format=channel.out_pic_format if description.format == UNKNOWN else description.format,
        width=description.width or channel.out_pic_width,
        height=description.height or channel.out_pic_height,
    )
    if picture.format not in _DECODED:
        what = f"a video is not decoded to pixel format {picture.format}; {NV12} is NV12"
        raise here.error(FORMAT_NOT_MATCH, what)
    if not picture.data or not picture.size:
        raise here.error(INVALID_PARAM, "the picture has no data, or no size")
    return picture


def _pixels(channel: DecoderChannel, picture: Picture | None) -> float:
    if picture is None:
        return channel.out_pic_width * channel.out_pic_height
    return picture.width * picture.height or picture.size / 1.5


def _decoder(here: Session, channel: DecoderChannel, picture: Picture | None) -> Any:
    width = channel.out_pic_width if picture is None else picture.width
    height = channel.out_pic_height if picture is None else picture.height
    settings = VideoSettings(_codec(here, channel.entype), width, height)
    decode = create_decoder(settings)
    if decode is not None:
        return decode
    remedy = _REMEDY.format("register_decoder", settings.codec)
    if not width or not height:
        raise here.error(
            INVALID_PARAM, f"nothing decodes {settings.codec}, and no size is set for grey frames; {remedy}"
        )
    here.warn_once(
        f"acl.media.vdec_send_frame() decodes to plain grey, because nothing decodes {settings.codec}: {remedy}"
    )
    return create_grey_decoder(settings)


# --- encoding


@runs("k")
async def venc_create_channel(here: Session, handle: int) -> None:
    """Bring an encoder into being, with a stream to which its thread is subscribed, and a buffer for its output."""
    channel = here.find(handle, EncoderChannel)
    _fresh(here, channel)
    assert channel is not None, "_fresh() refuses None"
    _rate(here, "encode")
    settings = _settings_of(here, channel)
    width, height = channel.pic_width, channel.pic_height
    if channel.pic_format not in _ENCODED:
        raise here.error(FORMAT_NOT_MATCH, f"pixel format {channel.pic_format} is not encoded: use {NV12} or {NV21}")
    if not width or not height or width % 2 or height % 2:
        raise here.error(INVALID_PARAM, f"videos of {width}x{height} pixels cannot be encoded: set even numbers")
    line = await _open(here, channel)
    try:
        line.encode = _encoder(here, settings)
        line.output = await _output(here, channel)
    except BaseException:
        await _close(channel, line)
        raise
    line.owns_output = not channel.buf_addr
    channel.line = line


def _settings_of(here: Session, channel: EncoderChannel) -> VideoSettings:
    return VideoSettings(
        _codec(here, channel.entype), channel.pic_width, channel.pic_height, channel.key_frame_interval,
        channel.src_rate, channel.max_bit_rate * 1000,
    )  # fmt: skip


async def _output(here: Session, channel: EncoderChannel) -> Buffer:
    if channel.buf_addr:
        return here.place(channel.buf_addr, channel.buf_size, "the buffer of the encoder")
    return await native.Malloc(channel.buf_size or _OUTPUT)


def _encoder(here: Session, settings: VideoSettings) -> Any:
    encode = create_encoder(settings)
    if encode is None:
        remedy = _REMEDY.format("register_encoder", settings.codec)
        here.warn_once(f"acl.media.venc_send_frame() gives filler, because nothing encodes {settings.codec}: {remedy}")
        encode = create_filler_encoder(settings)
    return encode


@runs("k")
async def venc_destroy_channel(here: Session, handle: int) -> None:
    """End an encoder, when all pictures are encoded and their callbacks have returned."""
    channel = here.find(handle, EncoderChannel)
    if channel is None or channel.line is None:
        raise _no_channel(here, "venc")
    await _close(channel, channel.line)


@runs("kkkkO")
async def venc_send_frame(here: Session, handle: int, source: int, _: int, config: int, data: Any) -> None:
    """Queue a picture to encode. At the end of the stream, wait for all pictures and their callbacks."""
    channel = here.find(handle, EncoderChannel)
    if channel is None or channel.line is None:
        raise _no_channel(here, "venc")
    settings = here.find(config, EncoderFrameConfig)
    if config and settings is None:
        raise here.error(INVALID_PARAM, here.explain(config, EncoderFrameConfig))
    settings, line = settings or EncoderFrameConfig(), channel.line
    if source:
        await _encode(here, channel, line, source, settings, data)
    elif not settings.eos:
        raise here.error(INVALID_PARAM, "there is no picture, and the stream does not end")
    if settings.eos:
        await _launch(here, channel, line, venc_end, [], _Encoding(0, 0, data, line=line))
        await _drain(line)
        line.encode = _encoder(here, _settings_of(here, channel))  # what comes next is another stream


async def _encode(
    here: Session, channel: EncoderChannel, line: Line, source: int, settings: EncoderFrameConfig, data: Any
) -> None:
    description = here.find(source, Picture)
    if description is None:
        raise here.error(INVALID_PARAM, here.explain(source, Picture))
    width, height = channel.pic_width, channel.pic_height
    picture = replace(
        description, format=channel.pic_format, width=width, height=height,
        width_stride=description.width_stride or width, height_stride=description.height_stride or height,
    )  # fmt: skip
    needed = FORMATS[picture.format].nbytes(picture.width_stride, picture.height_stride)
    if not picture.data or picture.size < needed or picture.width_stride < width or picture.height_stride < height:
        what = f"the picture has {picture.size} bytes at {picture.data:#x}, strides {picture.width_stride} and "
        raise here.error(INVALID_PARAM, f"{what}{picture.height_stride}; {width}x{height} pixels need {needed} bytes")
    is_key = bool(settings.force_i_frame) or not line.sent
    line.sent += 1
    job = _Encoding(source, 0, data, picture=picture, is_key=is_key)
    job.line, job.rate, job.pixels = line, _rate(here, "encode"), width * height
    await _launch(here, channel, line, venc, [here.place(picture.data, picture.size, "the picture")], job)


async def _launch(
    here: Session, channel: EncoderChannel, line: Line, task: Any, sources: list[Buffer], job: _Encoding
) -> None:
    line.frames.append(job)
    try:
        await native.LaunchKernel(task, 1, (*sources, line.output, job), line.stream)
    except BaseException:
        line.frames.remove(job)
        raise

    def encoded(_: object) -> None:
        _tell_encoded(here, channel, line, job)

    await native.LaunchCallback(encoded, None, CallbackBlock.BLOCK, line.stream)
