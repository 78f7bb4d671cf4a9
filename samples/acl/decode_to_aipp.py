"""Shows: a JPEG file through acl.himpi to a model with AIPP: decoded, resized, and given to the model in NV12.

Scenario: the front of many inference programs of the newer interface: the model's AIPP does colours and normalization.
"""

import os

import acl
import numpy as np

HI_PT_JPEG = 26
HI_VDEC_SEND_MODE_FRAME = 1
HI_PIXEL_FORMAT_YUV_SEMIPLANAR_420 = 1
ACL_MEM_MALLOC_HUGE_FIRST = 0
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2
CHANNEL = 0
SIDE = 64
HERE = os.path.dirname(os.path.abspath(__file__))
PICTURE = os.path.join(HERE, "pictures", "quarters.jpg")
MODEL = os.path.join(HERE, "models", "quarters.om")


def check_ret(message, ret):
    if ret != 0:
        raise Exception(f"{message} failed ret={ret}: {acl.get_recent_err_msg()}")


def made(message, answer):
    *values, ret = answer
    check_ret(message, ret)
    return values[0]


def decode(path):
    """Return the frame that a JPEG file becomes."""
    attributes = {
        "type": HI_PT_JPEG, "mode": HI_VDEC_SEND_MODE_FRAME, "pic_width": 1920, "pic_height": 1080,
        "stream_buf_size": 1920 * 1080, "frame_buf_size": 0, "frame_buf_cnt": 0,
    }  # fmt: skip
    check_ret("vdec_create_chn", acl.himpi.vdec_create_chn(CHANNEL, attributes))
    check_ret("vdec_start_recv_stream", acl.himpi.vdec_start_recv_stream(CHANNEL))
    with open(path, "rb") as file:
        data = file.read()
    pointer = acl.util.bytes_to_ptr(data)
    stream = {"end_of_frame": 1, "end_of_stream": 0, "need_display": 1, "pts": 0, "len": len(data), "addr": pointer}
    info = made("dvpp_get_image_info", acl.himpi.dvpp_get_image_info(HI_PT_JPEG, stream))
    print(f"the file: {info['width']} x {info['height']}, in rows of {info['width_stride']}")
    stream["addr"] = made("dvpp_malloc", acl.himpi.dvpp_malloc(0, len(data)))
    check_ret("memcpy", acl.rt.memcpy(stream["addr"], len(data), pointer, len(data), ACL_MEMCPY_HOST_TO_DEVICE))
    picture = {
        "width": info["width"], "height": info["height"], "width_stride": info["width_stride"],
        "height_stride": info["height_stride"], "pixel_format": HI_PIXEL_FORMAT_YUV_SEMIPLANAR_420,
        "buffer_size": info["img_buf_size"],
        "vir_addr": made("dvpp_malloc", acl.himpi.dvpp_malloc(0, info["img_buf_size"])),
    }  # fmt: skip
    check_ret("vdec_send_stream", acl.himpi.vdec_send_stream(CHANNEL, stream, picture, -1))
    frame, _, _, ret = acl.himpi.vdec_get_frame(CHANNEL, 1000)
    check_ret("vdec_get_frame", ret)
    check_ret("the file", frame["v_frame"]["frame_flag"])
    check_ret("vdec_release_frame", acl.himpi.vdec_release_frame(CHANNEL, frame))
    check_ret("dvpp_free", acl.himpi.dvpp_free(stream["addr"]))
    check_ret("vdec_stop_recv_stream", acl.himpi.vdec_stop_recv_stream(CHANNEL))
    check_ret("vdec_destroy_chn", acl.himpi.vdec_destroy_chn(CHANNEL))
    return frame["v_frame"]


def described(address, width, height, width_stride, height_stride):
    return {
        "picture_address": address, "picture_buffer_size": width_stride * height_stride * 3 // 2,
        "picture_width": width, "picture_height": height, "picture_width_stride": width_stride,
        "picture_height_stride": height_stride, "picture_format": HI_PIXEL_FORMAT_YUV_SEMIPLANAR_420,
    }  # fmt: skip


def resize(frame):
    """Return the address of the frame with the size that the model's AIPP takes."""
    check_ret("vpc_create_chn", acl.himpi.vpc_create_chn(CHANNEL, {"attr": 0}))
    target = made("dvpp_malloc", acl.himpi.dvpp_malloc(0, SIDE * SIDE * 3 // 2))
    source = described(
        frame["virt_addr"][0], frame["width"], frame["height"], frame["width_stride"][0], frame["height_stride"][0]
    )
    task = made(
        "vpc_resize",
        acl.himpi.vpc_resize(CHANNEL, source, described(target, SIDE, SIDE, SIDE, SIDE), 0, 0, 0, -1),
    )
    check_ret("vpc_get_process_result", acl.himpi.vpc_get_process_result(CHANNEL, task, -1))
    check_ret("vpc_destroy_chn", acl.himpi.vpc_destroy_chn(CHANNEL))
    return target


def infer(picture):
    """Return what the model gives for a picture in device memory."""
    model = made("load_from_file", acl.mdl.load_from_file(MODEL))
    desc = acl.mdl.create_desc()
    check_ret("get_desc", acl.mdl.get_desc(desc, model))
    size = acl.mdl.get_input_size_by_index(desc, 0)
    print(f"the model takes {size} bytes of one picture")
    result = made("malloc", acl.rt.malloc(16, ACL_MEM_MALLOC_HUGE_FIRST))
    datasets = acl.mdl.create_dataset(), acl.mdl.create_dataset()
    parts = acl.create_data_buffer(picture, size), acl.create_data_buffer(result, 16)
    for dataset, part in zip(datasets, parts, strict=True):
        check_ret("add_dataset_buffer", acl.mdl.add_dataset_buffer(dataset, part)[1])
    check_ret("execute", acl.mdl.execute(model, *datasets))
    host = bytes(16)
    check_ret("memcpy", acl.rt.memcpy(acl.util.bytes_to_ptr(host), 16, result, 16, ACL_MEMCPY_DEVICE_TO_HOST))
    for dataset, part in zip(datasets, parts, strict=True):
        acl.destroy_data_buffer(part)
        acl.mdl.destroy_dataset(dataset)
    check_ret("free", acl.rt.free(result))
    check_ret("destroy_desc", acl.mdl.destroy_desc(desc))
    check_ret("unload", acl.mdl.unload(model))
    return np.frombuffer(host, np.float32)


check_ret("init", acl.init())
check_ret("set_device", acl.rt.set_device(0))
check_ret("sys_init", acl.himpi.sys_init())
decoded = decode(PICTURE)
small = resize(decoded)
print("the quarters, from 0 to 1:", [round(float(value), 2) for value in infer(small)])
check_ret("dvpp_free", acl.himpi.dvpp_free(decoded["virt_addr"][0]))
check_ret("dvpp_free", acl.himpi.dvpp_free(small))
check_ret("sys_exit", acl.himpi.sys_exit())
check_ret("reset_device", acl.rt.reset_device(0))
check_ret("finalize", acl.finalize())
