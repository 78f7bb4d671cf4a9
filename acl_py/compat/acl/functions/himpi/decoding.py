"""acl.himpi: the decoder (VDEC), for JPEG files. Videos are decoded by acl.media.

A file that is sent is queued; the decoded frame is asked for afterwards. A file that cannot be decoded gives a frame
with a flag. A call for a frame while nothing has been sent is answered at once, however long it would wait.
"""

from copy import deepcopy
from typing import Any

from acl_py.compat.acl.face.binding import does, gives, runs
from acl_py.compat.acl.face.session import NOT_SUPPORTED, Session
from acl_py.compat.acl.functions.himpi.channels import (
    EMPTY,
    ILLEGAL,
    MISSING,
    NOT_PERMITTED,
    VDEC,
    Decoder,
    Fields,
    Sent,
    check_new,
    end_line,
    new_line,
    submit,
    system,
    translated,
)
from acl_py.compat.acl.functions.himpi.system import JPEG, image_info
from acl_py.compat.acl.functions.media.descriptions import Picture
from acl_py.compat.acl.functions.media.formats import FORMATS, NV12, UNKNOWN
from acl_py.compat.acl.functions.media.images import decode

_VIDEOS = (96, 265)  # H.264 and H.265
_DECODER = 5  # hi_mod_id: VDEC
_STREAM = ("end_of_frame", "end_of_stream", "need_display", "pts", "private_data", "len", "addr")
_ATTRIBUTES = ("type", "mode", "pic_width", "pic_height", "stream_buf_size", "frame_buf_size", "frame_buf_cnt")
_ERRORS = (
    "set_pic_size_err", "set_protocol_num_err", "set_ref_num_err", "set_pic_buf_size_err", "format_err",
    "stream_unsupport", "pack_err", "stream_size_over", "stream_not_release",
)  # fmt: skip


def _decoder(here: Session, number: int) -> Decoder:
    """The channel of this *number*."""
    found = system(here).decoders.get(number)
    if found is None:
        raise here.error(VDEC | MISSING, f"there is no channel {number}; call acl.himpi.vdec_create_chn() first")
    return found


def _stopped(here: Session, number: int, what: str) -> Decoder:
    """The channel, which must not receive."""
    found = _decoder(here, number)
    if found.receiving:
        remedy = "call acl.himpi.vdec_stop_recv_stream() first"
        raise here.error(VDEC | NOT_PERMITTED, f"channel {number} receives, and cannot {what}; {remedy}")
    return found


# --- channels


@does("iO")
def vdec_create_chn(here: Session, number: int, attributes: object) -> None:
    """Make a channel for JPEG files on the current device."""
    fields = Fields(attributes, "hi_vdec_chn_attr")
    known = {name: fields.number(name) for name in _ATTRIBUTES}
    if known["type"] in _VIDEOS:
        raise here.error(NOT_SUPPORTED, "videos are decoded by acl.media.vdec_create_channel(), not by acl.himpi")
    decoders = system(here).decoders
    check_new(here, VDEC, number, decoders)
    if known["type"] != JPEG:
        raise here.error(VDEC | ILLEGAL, f"there is no type {known['type']}; JPEG is {JPEG}")
    picture = {"pixel_format": NV12, "alpha": 255}
    parameters = {"type": JPEG, "display_frame_num": 0, "pic_param": picture}
    decoders[number] = Decoder(new_line(here), known, parameters)


@runs("i")
async def vdec_destroy_chn(here: Session, number: int) -> None:
    """End a channel, which has stopped receiving."""
    decoder = _stopped(here, number, "be destroyed")
    await end_line(here, decoder.line)
    system(here).decoders.pop(number, None)


@gives("i", failure={})
def vdec_get_chn_attr(here: Session, number: int) -> dict[str, Any]:
    """What a channel was made with."""
    return dict(_decoder(here, number).attributes)


@gives("i", failure={})
def vdec_get_chn_param(here: Session, number: int) -> dict[str, Any]:
    """The parameters of a channel."""
    return deepcopy(_decoder(here, number).parameters)


@does("iO")
def vdec_set_chn_param(here: Session, number: int, parameters: object) -> None:
    """Set them; the format is that of files whose picture asks for none."""
    fields = Fields(parameters, "hi_vdec_chn_param")
    picture = fields.part("pic_param", "hi_pic_param")
    decoder = _decoder(here, number)
    if picture.number("pixel_format") not in (*FORMATS, UNKNOWN):
        raise here.error(VDEC | ILLEGAL, f"there is no pixel format {picture.number('pixel_format')}")
    decoder.parameters = {
        "type": JPEG,
        "display_frame_num": fields.number("display_frame_num"),
        "pic_param": {name: picture.number(name) for name in ("pixel_format", "alpha")},
    }


@does("i")
def vdec_start_recv_stream(here: Session, number: int) -> None:
    """Let a channel receive."""
    _decoder(here, number).receiving = True


@does("i")
def vdec_stop_recv_stream(here: Session, number: int) -> None:
    """Let a channel refuse further data; what was sent before is decoded."""
    _decoder(here, number).receiving = False


@runs("i")
async def vdec_reset_chn(here: Session, number: int) -> None:
    """Forget what a channel has decoded, after its work has ended."""
    decoder = _stopped(here, number, "be reset")
    await decoder.line.wait(-1)
    decoder.sent.clear()


@gives("i", failure={})
def vdec_query_status(here: Session, number: int) -> dict[str, Any]:
    """How much a channel has been sent, and how much of it has not been fetched."""
    decoder = _decoder(here, number)
    last = decoder.sent[-1] if decoder.sent else None
    return {
        "type": JPEG, "left_stream_bytes": 0, "left_stream_frames": 0, "left_decoded_frames": len(decoder.sent),
        "is_started": int(decoder.receiving), "recv_stream_frames": decoder.received,
        "dec_stream_frames": decoder.taken, "dec_err": dict.fromkeys(_ERRORS, 0) | {"format_err": decoder.failed},
        "width": last.picture.width if last else 0, "height": last.picture.height if last else 0,
        "latest_frame_pts": last.stream["pts"] if last else 0,
    }  # fmt: skip


@gives("Oi", failure={})
def vdec_get_jpegd_output_info(here: Session, stream: object, pixel_format: int) -> dict[str, Any]:
    """The size of a JPEG file in host memory, and the strides and the bytes that it takes in this format."""
    if pixel_format not in (*FORMATS, UNKNOWN):
        raise here.error(VDEC | ILLEGAL, f"there is no pixel format {pixel_format}")
    return image_info(here, "vdec_get_jpegd_output_info", stream, pixel_format)


# --- files and frames


@does("iOOi")
def vdec_send_stream(here: Session, number: int, stream: object, picture: object, timeout: int) -> None:  # noqa: ARG001
    """Queue a JPEG file in device memory; the picture says where the frame goes. There is room for any number."""
    fields, wanted = Fields(stream, "hi_vdec_stream"), Fields(picture, "hi_vdec_pic_info")
    decoder = _decoder(here, number)
    if not decoder.receiving:
        remedy = "call acl.himpi.vdec_start_recv_stream() first"
        raise here.error(VDEC | NOT_PERMITTED, f"channel {number} does not receive; {remedy}")
    given = {name: fields.number(name) for name in _STREAM}
    if given["end_of_stream"] and not given["len"]:
        return  # a JPEG file ends with itself
    names = {"data": "vir_addr", "size": "buffer_size", "format": "pixel_format", "width": "width", "height": "height"}
    strides = {name: name for name in ("width_stride", "height_stride")}
    target = Picture(**{name: wanted.number(key) for name, key in {**names, **strides}.items()})
    line = decoder.line
    with translated(here, VDEC):
        work = decode(here, "JPEG", line.way, (given["addr"], given["len"]), target, line.stream_handle)
    submit(here, VDEC, work)
    decoder.sent.append(Sent(given, target))
    decoder.received += 1


@gives("ii", failure=({}, {}, {}))
def vdec_get_frame(here: Session, number: int, timeout: int) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The next frame, for which it waits so many milliseconds; with a frame_flag of 1 if the file is damaged."""
    decoder = _decoder(here, number)
    if not decoder.sent:
        raise here.error(VDEC | EMPTY, f"channel {number} has been sent nothing that was not fetched")
    if not here.run(decoder.line.wait(timeout)):
        raise here.error(VDEC | EMPTY, f"the next frame of channel {number} is not ready")
    sent = decoder.sent.popleft()
    decoder.taken += 1
    decoder.failed += bool(sent.picture.ret_code)
    supplement = {"type": JPEG, "video_supplement_info": {"frame_type": 0, "err_rate": 0, "poc": 0}}
    return {"v_frame": _frame(sent), "pool_id": 0, "mod_id": _DECODER}, supplement, dict(sent.stream)


def _frame(sent: Sent) -> dict[str, Any]:
    """A frame as the binding shows it: the second address is that of the chroma plane, if there is one."""
    picture = sent.picture
    planes = [picture.data, 0, 0]
    form = FORMATS.get(picture.format)
    if form is not None and form.chroma and not picture.ret_code:
        planes[1] = picture.data + picture.width_stride * picture.height_stride
    nothing = [0, 0, 0]
    return {
        "width": picture.width, "height": picture.height, "field": 0, "pixel_format": picture.format,
        "video_format": 0, "compress_mode": 0, "dynamic_range": 0, "color_gamut": 0, "header_stride": nothing[:],
        "width_stride": [picture.width_stride, picture.width_stride if planes[1] else 0, 0],
        "height_stride": [picture.height_stride, picture.height_stride // 2 if planes[1] else 0, 0],
        "header_phys_addr": nothing[:], "phys_addr": planes[:], "header_virt_addr": nothing[:], "virt_addr": planes,
        "time_ref": 0, "pts": sent.stream["pts"], "user_data": [0, 0], "frame_flag": int(bool(picture.ret_code)),
        "supplement": {},
    }  # fmt: skip


@does("iO")
def vdec_release_frame(here: Session, number: int, frame: object) -> None:
    """Give a frame back; its memory is the script's."""
    Fields(frame, "hi_video_frame_info")
    _decoder(here, number)
