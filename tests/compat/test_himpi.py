"""acl.himpi: JPEG files decoded and images processed, in the form of the vendor's guide and of public programs."""

import numpy as np
import pytest
from card import content, done, made
from pictures import file_of, gradient

JPEG, NV12 = 26, 1
NOT_READY, EXISTS, MISSING, ILLEGAL, NOT_PERMITTED, EMPTY = 0x10, 4, 5, 3, 9, 0xE
VDEC, VPC, SYS = 0xA0058000, 0xA0078000, 0xA0028000
ATTRIBUTES = {
    "type": JPEG, "mode": 1, "pic_width": 1920, "pic_height": 1080, "stream_buf_size": 1920 * 1080,
    "frame_buf_size": 0, "frame_buf_cnt": 0,
    "video_attr": {"ref_frame_num": 12, "temporal_mvp_en": 1, "tmv_buf_size": 0},
}  # fmt: skip


@pytest.fixture
def himpi(acl):
    done(acl.himpi.sys_init())
    return acl.himpi


def in_device(acl, data):
    """The address of these bytes in memory for images."""
    address = made(acl.himpi.dvpp_malloc(0, len(data)))
    done(acl.rt.memcpy(address, len(data), acl.util.bytes_to_ptr(data), len(data), 1))
    return address


def stream_of(address, data):
    return {
        "end_of_frame": 1, "end_of_stream": 0, "need_display": 1, "pts": 7, "private_data": 0, "len": len(data),
        "addr": address,
    }  # fmt: skip


def send(acl, data, channel=0, **changed):
    """Send a file in the way of the public programs; give the information that there was before."""
    info = made(acl.himpi.dvpp_get_image_info(JPEG, stream_of(acl.util.bytes_to_ptr(data), data)))
    out = {
        "width": info["width"], "height": info["height"], "width_stride": info["width_stride"],
        "height_stride": info["height_stride"], "pixel_format": NV12, "buffer_size": info["img_buf_size"],
        "vir_addr": made(acl.himpi.dvpp_malloc(0, info["img_buf_size"])),
    } | changed  # fmt: skip
    return info, acl.himpi.vdec_send_stream(channel, stream_of(in_device(acl, data), data), out, -1)


def started(himpi, channel=0):
    done(himpi.vdec_create_chn(channel, ATTRIBUTES))
    parameters = made(himpi.vdec_get_chn_param(channel))
    parameters["pic_param"]["pixel_format"] = NV12
    done(himpi.vdec_set_chn_param(channel, parameters))
    done(himpi.vdec_start_recv_stream(channel))


def test_a_jpeg_file_is_decoded_as_the_guide_does_it(acl, himpi):
    data = file_of(gradient(200, 120), "JPEG", subsampling=2)
    started(himpi)
    info, ret = send(acl, data)
    done(ret)
    assert (info["width"], info["height"], info["width_stride"], info["height_stride"]) == (200, 120, 256, 128)
    frame, supplement, stream, ret = himpi.vdec_get_frame(0, 1000)
    done(ret)
    picture = frame["v_frame"]
    assert (picture["frame_flag"], picture["width"], picture["height"], picture["pts"]) == (0, 200, 120, 7)
    assert supplement["type"] == JPEG
    assert stream["len"] == len(data)
    # The same file through acl.media gives the same bytes.
    media = acl.media
    channel, pic = media.dvpp_create_channel_desc(), media.dvpp_create_pic_desc()
    done(media.dvpp_create_channel(channel))
    target = made(media.dvpp_malloc(info["img_buf_size"]))
    media.dvpp_set_pic_desc_data(pic, target)
    media.dvpp_set_pic_desc_size(pic, info["img_buf_size"])
    media.dvpp_set_pic_desc_format(pic, NV12)
    done(media.dvpp_jpeg_decode_async(channel, in_device(acl, data), len(data), pic, 0))
    done(acl.rt.synchronize_stream(0))
    nbytes = info["width_stride"] * info["height_stride"] * 3 // 2
    assert content(acl, picture["virt_addr"][0], nbytes) == content(acl, target, nbytes)
    done(himpi.vdec_release_frame(0, frame))
    done(himpi.dvpp_free(picture["virt_addr"][0]))
    done(himpi.vdec_stop_recv_stream(0))
    done(himpi.vdec_destroy_chn(0))
    done(himpi.sys_exit())


def test_a_program_that_polls_gets_its_frames_in_the_order_in_which_it_sent_them(acl, himpi):
    started(himpi, 3)
    for side in (64, 96, 128):
        done(send(acl, file_of(gradient(side, side), "JPEG"), 3)[1])
    widths = []
    for _ in range(10_000):
        frame, _, _, ret = himpi.vdec_get_frame(3, 0)
        if ret == 0:
            widths.append(frame["v_frame"]["width"])
        if len(widths) == 3:
            break
    assert widths == [64, 96, 128]
    status = made(himpi.vdec_query_status(3))
    assert (status["recv_stream_frames"], status["dec_stream_frames"], status["left_decoded_frames"]) == (3, 3, 0)


def test_a_damaged_file_gives_a_frame_with_a_flag_and_the_next_one_is_well(acl, himpi, capsys):
    whole = file_of(gradient(64, 64), "JPEG")
    started(himpi)
    good = whole.index(b"\xff\xda") + 30  # the header, and the begin of the picture
    done(send(acl, whole[:good] + bytes(len(whole) - good), width_stride=7)[1])
    assert himpi.vdec_get_frame(0, 1000)[0]["v_frame"]["frame_flag"] == 1
    assert "JPEG decoding failed" in capsys.readouterr().err
    done(send(acl, whole)[1])
    assert himpi.vdec_get_frame(0, 1000)[0]["v_frame"]["frame_flag"] == 0
    assert made(himpi.vdec_query_status(0))["dec_err"]["format_err"] == 1


# --- images


def picture(acl, width, height, data=None):
    """A picture in NV12 as a dict, with *data* in it."""
    stride, nbytes = (width + 15) // 16 * 16, (width + 15) // 16 * 16 * height * 3 // 2
    address = in_device(acl, data) if data is not None else made(acl.himpi.dvpp_malloc(0, nbytes))
    return {
        "picture_address": address, "picture_buffer_size": nbytes, "picture_width": width, "picture_height": height,
        "picture_width_stride": stride, "picture_height_stride": height, "picture_format": NV12,
    }  # fmt: skip


@pytest.fixture
def source(acl, himpi):
    return picture(acl, 128, 64, bytes(range(256)) * (128 * 64 * 3 // 2 // 256))


def bytes_in(acl, pic):
    return np.frombuffer(content(acl, pic["picture_address"], pic["picture_buffer_size"]), np.uint8)


def test_a_part_of_an_image_is_cut_out(acl, himpi, source):
    done(himpi.vpc_create_chn(0, {"attr": 0, "pic_width": 0, "pic_height": 0}))
    target = picture(acl, 32, 16)
    area = {"top_offset": 8, "left_offset": 16, "crop_width": 32, "crop_height": 16}
    task = made(himpi.vpc_crop(0, source, [{"dest_pic_info": target, "crop_region": area}], 1, -1))
    done(himpi.vpc_get_process_result(0, task, -1))
    luma = bytes_in(acl, source)[: 128 * 64].reshape(64, 128)[8:24, 16:48]
    assert (bytes_in(acl, target)[: 32 * 16].reshape(16, 32) == luma).all()
    done(himpi.vpc_destroy_chn(0))


def test_resizing_and_cropping_with_a_size_are_those_of_acl_media(acl, himpi, source):
    channel = made(himpi.vpc_sys_create_chn({"attr": 0}))
    whole, part = picture(acl, 64, 32), picture(acl, 64, 32)
    first = made(himpi.vpc_resize(channel, source, whole, 0, 0, 0, -1))
    region = {
        "dest_pic_info": part,
        "crop_region": {"top_offset": 0, "left_offset": 0, "crop_width": 128, "crop_height": 64},
        "resize_info": {"resize_width": 64, "resize_height": 32, "interpolation": 0},
    }
    second = made(himpi.vpc_crop_resize(channel, source, [region], 1, -1))
    done(himpi.vpc_get_process_result(channel, first, -1))
    done(himpi.vpc_get_process_result(channel, second, -1))
    assert (bytes_in(acl, whole) == bytes_in(acl, part)).all()
    assert bytes_in(acl, whole).any()


# --- what is refused


def test_nothing_works_before_sys_init(acl):
    assert acl.himpi.vdec_create_chn(0, ATTRIBUTES) == VDEC | NOT_READY
    assert acl.himpi.vpc_create_chn(0, {}) == VPC | NOT_READY


def test_channels_and_calls_in_the_wrong_order_have_their_codes(acl, himpi):
    data = file_of(gradient(64, 64), "JPEG")
    assert himpi.vdec_start_recv_stream(0) == VDEC | MISSING
    done(himpi.vdec_create_chn(0, ATTRIBUTES))
    assert himpi.vdec_create_chn(0, ATTRIBUTES) == VDEC | EXISTS
    assert himpi.vdec_create_chn(1000, ATTRIBUTES) == VDEC | 2
    assert send(acl, data)[1] == VDEC | NOT_PERMITTED  # it does not receive yet
    assert himpi.vdec_get_frame(0, 10) == ({}, {}, {}, VDEC | EMPTY)
    assert himpi.sys_exit() == SYS | NOT_PERMITTED
    done(himpi.vdec_start_recv_stream(0))
    assert himpi.vdec_destroy_chn(0) == VDEC | NOT_PERMITTED  # it receives
    assert himpi.vpc_get_process_result(0, 1, -1) == VPC | MISSING
    assert "vpc_create_chn" in acl.get_recent_err_msg()


def test_what_the_hardware_would_not_do_is_refused(acl, himpi, source):
    started(himpi)
    data = file_of(gradient(64, 64), "JPEG")
    assert send(acl, data, pixel_format=99)[1] == VDEC | ILLEGAL
    assert send(acl, data, vir_addr=0)[1] == VDEC | ILLEGAL
    done(himpi.vpc_create_chn(0, {}))
    unlike = picture(acl, 64, 32)
    region = {"dest_pic_info": unlike, "crop_region": {}, "resize_info": {"resize_width": 8}}
    assert himpi.vpc_crop_resize(0, source, [region], 1, -1) == (0, VPC | ILLEGAL)
    odd = {"dest_pic_info": unlike, "crop_region": {"top_offset": 1, "crop_width": 32, "crop_height": 16}}
    task = made(himpi.vpc_crop(0, source, [odd], 1, -1))
    assert himpi.vpc_get_process_result(0, task, -1) == VPC | ILLEGAL


def test_other_kinds_of_arguments_raise_as_in_the_binding(himpi, source):
    done(himpi.vpc_create_chn(0, {}))
    with pytest.raises(TypeError, match="hi_vpc_pic_info argument is not dict"):
        himpi.vpc_resize(0, [], source, 0, 0, 0, -1)
    with pytest.raises(TypeError, match="not equal with count"):
        himpi.vpc_crop(0, source, [], 1, -1)
    with pytest.raises(TypeError, match=r"acl\.himpi\.vdec_create_chn args parse failed"):
        himpi.vdec_create_chn(0)
    with pytest.raises(ValueError, match="PyLong_AsUnsignedLong"):
        himpi.vdec_create_chn(0, {"type": -1})


def test_the_rest_is_refused_by_name_and_videos_are_sent_to_acl_media(himpi, acl, capsys):
    assert himpi.vpc_flip(0, {}, -1) == (0, 207000)
    assert himpi.venc_create_chn(0, {}) == 207000
    assert "acl.himpi.vpc_flip is not simulated" in capsys.readouterr().err
    assert himpi.vdec_create_chn(0, ATTRIBUTES | {"type": 96}) == 207000
    assert "acl.media.vdec_create_channel" in acl.get_recent_err_msg()
