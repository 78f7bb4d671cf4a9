"""Shows: pictures on the card: a JPEG is decoded, cropped, resized and given to a model, without a copy to the host.

Scenario: the preprocessing of most inference programs. The picture has four grey quarters.
"""

import os

import acl
import numpy as np

ACL_MEM_MALLOC_HUGE_FIRST = 0
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2
PIXEL_FORMAT_YUV_SEMIPLANAR_420 = 1
HERE = os.path.dirname(os.path.abspath(__file__))
PICTURE = os.path.join(HERE, "pictures", "quarters.jpg")
MODEL = os.path.join(HERE, "models", "brightness.om")
WIDTH, HEIGHT = 64, 64


def check_ret(message, ret):
    if ret != 0:
        raise Exception(f"{message} failed ret={ret}")


def align_up(value, alignment):
    return (value + alignment - 1) // alignment * alignment


class Dvpp:
    def __init__(self, stream):
        self.stream = stream
        self.channel = acl.media.dvpp_create_channel_desc()
        check_ret("dvpp_create_channel", acl.media.dvpp_create_channel(self.channel))
        self.resize_config = acl.media.dvpp_create_resize_config()

    @staticmethod
    def picture(buffer, width, height, width_stride, height_stride):
        desc = acl.media.dvpp_create_pic_desc()
        acl.media.dvpp_set_pic_desc_data(desc, buffer)
        acl.media.dvpp_set_pic_desc_format(desc, PIXEL_FORMAT_YUV_SEMIPLANAR_420)
        acl.media.dvpp_set_pic_desc_width(desc, width)
        acl.media.dvpp_set_pic_desc_height(desc, height)
        acl.media.dvpp_set_pic_desc_width_stride(desc, width_stride)
        acl.media.dvpp_set_pic_desc_height_stride(desc, height_stride)
        acl.media.dvpp_set_pic_desc_size(desc, width_stride * height_stride * 3 // 2)
        return desc

    def decode(self, path):
        with open(path, "rb") as file:
            data = file.read()
        pointer = acl.util.bytes_to_ptr(data)
        width, height, _, ret = acl.media.dvpp_jpeg_get_image_info(pointer, len(data))
        check_ret("dvpp_jpeg_get_image_info", ret)
        size, ret = acl.media.dvpp_jpeg_predict_dec_size(pointer, len(data), PIXEL_FORMAT_YUV_SEMIPLANAR_420)
        check_ret("dvpp_jpeg_predict_dec_size", ret)
        source, ret = acl.media.dvpp_malloc(len(data))
        check_ret("dvpp_malloc", ret)
        check_ret("memcpy", acl.rt.memcpy(source, len(data), pointer, len(data), ACL_MEMCPY_HOST_TO_DEVICE))
        target, ret = acl.media.dvpp_malloc(size)
        check_ret("dvpp_malloc", ret)
        desc = self.picture(target, width, height, align_up(width, 128), align_up(height, 16))
        ret = acl.media.dvpp_jpeg_decode_async(self.channel, source, len(data), desc, self.stream)
        check_ret("dvpp_jpeg_decode_async", ret)
        check_ret("synchronize_stream", acl.rt.synchronize_stream(self.stream))
        check_ret("decode", acl.media.dvpp_get_pic_desc_ret_code(desc))
        check_ret("dvpp_free", acl.media.dvpp_free(source))
        print(f"decoded: {width} x {height}")
        return target, desc

    def resize(self, source):
        target, ret = acl.media.dvpp_malloc(WIDTH * HEIGHT * 3 // 2)
        check_ret("dvpp_malloc", ret)
        desc = self.picture(target, WIDTH, HEIGHT, WIDTH, HEIGHT)
        ret = acl.media.dvpp_vpc_resize_async(self.channel, source, desc, self.resize_config, self.stream)
        check_ret("dvpp_vpc_resize_async", ret)
        check_ret("synchronize_stream", acl.rt.synchronize_stream(self.stream))
        return target, desc

    def crop(self, source, left, right, top, bottom):
        target, ret = acl.media.dvpp_malloc(WIDTH * HEIGHT * 3 // 2)
        check_ret("dvpp_malloc", ret)
        desc = self.picture(target, WIDTH, HEIGHT, WIDTH, HEIGHT)
        area = acl.media.dvpp_create_roi_config(left, right, top, bottom)
        ret = acl.media.dvpp_vpc_crop_resize_async(self.channel, source, desc, area, self.resize_config, self.stream)
        check_ret("dvpp_vpc_crop_resize_async", ret)
        check_ret("synchronize_stream", acl.rt.synchronize_stream(self.stream))
        check_ret("dvpp_destroy_roi_config", acl.media.dvpp_destroy_roi_config(area))
        return target, desc

    def release(self):
        check_ret("dvpp_destroy_resize_config", acl.media.dvpp_destroy_resize_config(self.resize_config))
        check_ret("dvpp_destroy_channel", acl.media.dvpp_destroy_channel(self.channel))
        check_ret("dvpp_destroy_channel_desc", acl.media.dvpp_destroy_channel_desc(self.channel))


def brightness(model, buffer):
    """Return the mean of each quarter, computed by the model."""
    result, ret = acl.rt.malloc(16, ACL_MEM_MALLOC_HUGE_FIRST)
    check_ret("malloc", ret)
    datasets = acl.mdl.create_dataset(), acl.mdl.create_dataset()
    parts = (
        acl.create_data_buffer(buffer, WIDTH * HEIGHT * 3 // 2),
        acl.create_data_buffer(result, 16),
    )
    for dataset, part in zip(datasets, parts, strict=True):
        check_ret("add_dataset_buffer", acl.mdl.add_dataset_buffer(dataset, part)[1])
    check_ret("execute", acl.mdl.execute(model, *datasets))
    host = bytes(16)
    check_ret("memcpy", acl.rt.memcpy(acl.util.bytes_to_ptr(host), 16, result, 16, ACL_MEMCPY_DEVICE_TO_HOST))
    for dataset, part in zip(datasets, parts, strict=True):
        acl.destroy_data_buffer(part)
        acl.mdl.destroy_dataset(dataset)
    check_ret("free", acl.rt.free(result))
    return [int(round(value, -1)) for value in np.frombuffer(host, np.float32).tolist()]


def main():
    check_ret("init", acl.init())
    check_ret("set_device", acl.rt.set_device(0))
    stream, ret = acl.rt.create_stream()
    check_ret("create_stream", ret)
    model, ret = acl.mdl.load_from_file(MODEL)
    check_ret("load_from_file", ret)
    dvpp = Dvpp(stream)
    decoded = dvpp.decode(PICTURE)
    small = dvpp.resize(decoded[1])
    print("brightness of the quarters:", brightness(model, small[0]))
    corner = dvpp.crop(decoded[1], 160, 319, 120, 239)
    print("brightness of one of them:", brightness(model, corner[0]))
    for buffer, desc in (decoded, small, corner):
        check_ret("dvpp_free", acl.media.dvpp_free(buffer))
        check_ret("dvpp_destroy_pic_desc", acl.media.dvpp_destroy_pic_desc(desc))
    dvpp.release()
    check_ret("unload", acl.mdl.unload(model))
    check_ret("destroy_stream", acl.rt.destroy_stream(stream))
    check_ret("reset_device", acl.rt.reset_device(0))
    check_ret("finalize", acl.finalize())


main()
