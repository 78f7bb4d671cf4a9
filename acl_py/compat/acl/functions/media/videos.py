"""acl.media: videos, decoded and encoded frame by frame.

A channel has a stream, in which each frame is an ordinary kernel that takes no AI core, and behind it a callback. The
thread of the channel runs the callback when it calls acl.rt.process_report(). The bytes of a frame to decode are taken
when it is sent. What the frames hold is up to standins/videos.py. The time of a frame follows from its pixels and from
the profile of the card.

Callbacks are called in the order of their frames, although a picture may come later (video_jobs.py). An encoder has
one buffer: it waits for the callback of a frame before it encodes the next one.
"""

import traceback
from collections.abc import Callable
from dataclasses import replace
from sys import _getframe
from typing import Any, TypeVar

import acl_py as native
from acl_py.compat.acl.face.binding import runs
from acl_py.compat.acl.face.lookups import wait_within_call
from acl_py.compat.acl.face.session import INVALID_PARAM, NOT_SUPPORTED, Session
from acl_py.compat.acl.functions.media.descriptions import CodecStream, Picture
from acl_py.compat.acl.functions.media.formats import FORMATS, NV12, NV21, UNKNOWN
from acl_py.compat.acl.functions.media.tasks import FORMAT_NOT_MATCH
from acl_py.compat.acl.functions.media.video_channels import (
    DecoderChannel,
    EncoderChannel,
    EncoderFrameConfig,
    Line,
)
from acl_py.compat.acl.functions.media.video_jobs import (
    Decoding,
    Encoding,
    vdec,
    vdec_end,
    vdec_skipped,
    venc,
    venc_end,
)
from acl_py.compat.acl.standins.videos import (
    VideoSettings,
    create_decoder,
    create_encoder,
    create_filler_encoder,
    create_grey_decoder,
)
from acl_py.sites import site_of
from acl_py.verbs.callbacks import CallbackBlock
from device_model.memory import Buffer, Space

_CODECS = {0: "h265", 1: "h264", 2: "h264", 3: "h264"}  # by acldvppStreamFormat: main; baseline, main, high
_DECODED = (NV12, NV21, 12, 13)  # what the decoder writes: YUV420SP, RGB888 and BGR888
_ENCODED = (NV12, NV21)
_OUTPUT = 8 << 20  # bytes of an encoder's buffer, if the script does not say
_Channel = TypeVar("_Channel", DecoderChannel, EncoderChannel)
_REMEDY = "install PyAV, pip install 'acl-py[video]', or call acl_py.compat.acl.{}({!r})"


# --- callbacks


def _call(function: Callable[..., object], *args: Any) -> None:
    try:
        function(*args)
    except Exception:
        traceback.print_exc()


def _tell_decoded(channel: DecoderChannel, line: Line, last: "Decoding | None" = None) -> None:
    """Call the callbacks of the frames that are done, up to the first one that is not, or to *last*.

    The device may be ahead of this callback, but only the callback of a frame promises that its work is over.
    """
    assert channel.callback is not None, "create_channel has asked for it"
    while line.frames and line.frames[0].is_done:
        done = line.frames.popleft()
        _call(channel.callback, done.source, done.target, done.data)
        if done is last:
            return


def _tell_encoded(here: Session, channel: EncoderChannel, line: Line, sent: Encoding) -> None:
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


def _with_line(here: Session, handle: int, kind: type[_Channel], prefix: str) -> tuple[_Channel, Line]:
    channel = here.find(handle, kind)
    if channel is None or channel.line is None:
        raise here.error(INVALID_PARAM, f"there is no such channel; call acl.media.{prefix}_create_channel() first")
    return channel, channel.line


def _fresh(here: Session, handle: int, kind: type[_Channel]) -> _Channel:
    channel = here.find(handle, kind)
    if channel is None or channel.line is not None:
        raise here.error(INVALID_PARAM, "there is no such description, or its channel exists already")
    return channel


# --- decoding


@runs("k")
async def vdec_create_channel(here: Session, handle: int) -> None:
    """Bring a decoder into being, with a stream to which its thread is subscribed."""
    channel = _fresh(here, handle, DecoderChannel)
    _rate(here, "decode")
    _codec(here, channel.entype)
    channel.line = await _open(here, channel)


@runs("k")
async def vdec_destroy_channel(here: Session, handle: int) -> None:
    """End a decoder, when all frames are decoded and their callbacks have returned."""
    await _close(*_with_line(here, handle, DecoderChannel, "vdec"))


@runs("kkkkO")
async def vdec_send_frame(here: Session, handle: int, source: int, target: int, _: int, data: Any) -> None:
    """Queue a frame to decode into *target*; its bytes are taken at once. At the end of the stream, wait for all frames
    and their callbacks.
    """
    picture = here.find(target, Picture)
    await _send(here, handle, source, target, picture, data)


@runs("kkkO")
async def vdec_send_skipped_frame(here: Session, handle: int, source: int, _: int, data: Any) -> None:
    """Queue a frame to decode whose picture is not wanted; its bytes are taken at once. The callback gets 0 for it."""
    await _send(here, handle, source, 0, None, data)


async def _send(here: Session, handle: int, source: int, target: int, description: Picture | None, data: Any) -> None:
    channel, line = _with_line(here, handle, DecoderChannel, "vdec")
    stream = here.known(source, CodecStream)
    if stream.data and stream.size:
        if target and description is None:
            raise here.error(INVALID_PARAM, here.explain(target, Picture))
        job = Decoding(source, target, data, encoded=_taken(here, stream), description=description)
        await _queue(here, channel, line, job)
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


def _taken(here: Session, stream: CodecStream) -> bytes:
    """A copy of the bytes of a frame as they are now: scripts have one buffer for all frames, and fill it again."""
    buffer = here.place(stream.data, stream.size, "the frame")
    allocation, start, stop = buffer.allocation, buffer.offset, buffer.offset + buffer.nbytes
    if allocation.space is Space.PAGEABLE:
        what = f"the frame is {buffer!r}, which the video hardware does not reach: use acl.media.dvpp_malloc()"
        raise here.error(INVALID_PARAM, what)
    sanitizer = here.runtime.sanitizer
    if sanitizer is not None:
        sanitizer.host_access(allocation, [(start, stop)], False, site_of(_getframe(1)))
    allocation.warm(start, buffer.nbytes)
    return allocation.view[start:stop].tobytes()


async def _queue(here: Session, channel: DecoderChannel, line: Line, job: Decoding) -> None:
    ends = []
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
            job.fail("the memory of a picture was gone before its frame was decoded", "free it in the callback")
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
    channel = _fresh(here, handle, EncoderChannel)
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
    await _close(*_with_line(here, handle, EncoderChannel, "venc"))


@runs("kkkkO")
async def venc_send_frame(here: Session, handle: int, source: int, _: int, config: int, data: Any) -> None:
    """Queue a picture to encode. At the end of the stream, wait for all pictures and their callbacks."""
    channel, line = _with_line(here, handle, EncoderChannel, "venc")
    settings = here.known(config, EncoderFrameConfig) if config else EncoderFrameConfig()
    if source:
        await _encode(here, channel, line, source, settings, data)
    elif not settings.eos:
        raise here.error(INVALID_PARAM, "there is no picture, and the stream does not end")
    if settings.eos:
        await _launch(here, channel, line, venc_end, [], Encoding(0, 0, data, line=line))
        await _drain(line)
        line.encode = _encoder(here, _settings_of(here, channel))  # what comes next is another stream


async def _encode(
    here: Session, channel: EncoderChannel, line: Line, source: int, settings: EncoderFrameConfig, data: Any
) -> None:
    description = here.known(source, Picture)
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
    job = Encoding(source, 0, data, picture=picture, is_key=is_key)
    job.line, job.rate, job.pixels = line, _rate(here, "encode"), width * height
    await _launch(here, channel, line, venc, [here.place(picture.data, picture.size, "the picture")], job)


async def _launch(
    here: Session, channel: EncoderChannel, line: Line, task: Any, sources: list[Buffer], job: Encoding
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
