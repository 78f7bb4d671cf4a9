"""A JPEG is decoded, resized and given to a model, and the result is read where the model wrote it.

The outline of the image classification programs for an Atlas 200 DK that are built on acllite: AclResource, AclImage,
Dvpp and Model, and helpers that copy as the run mode says. On a board all of them copy from device to device, pointers
of NumPy arrays included, and results are arrays over device memory.
"""

import os
import sys

import acl
import numpy as np

ACL_HOST = 1
ACL_MEM_MALLOC_HUGE_FIRST, ACL_MEM_MALLOC_NORMAL_ONLY = 0, 2
ACL_MEMCPY_HOST_TO_DEVICE, ACL_MEMCPY_DEVICE_TO_HOST, ACL_MEMCPY_DEVICE_TO_DEVICE = 1, 2, 3
PIXEL_FORMAT_YUV_SEMIPLANAR_420 = 1
NPY_BYTE, NPY_FLOAT = 1, 11
MODEL_WIDTH, MODEL_HEIGHT = 64, 64


def check_ret(message, ret):
    if ret != 0:
        raise RuntimeError(f"{message} failed ret={ret}")


def align_up(value, alignment):
    return (value + alignment - 1) // alignment * alignment


def copy_to_dvpp(pointer, size, run_mode):
    memory, ret = acl.media.dvpp_malloc(size)
    check_ret("acl.media.dvpp_malloc", ret)
    kind = ACL_MEMCPY_HOST_TO_DEVICE if run_mode == ACL_HOST else ACL_MEMCPY_DEVICE_TO_DEVICE
    check_ret("acl.rt.memcpy", acl.rt.memcpy(memory, size, pointer, size, kind))
    return memory


class AclResource:
    def __init__(self):
        check_ret("acl.init", acl.init())
        check_ret("acl.rt.set_device", acl.rt.set_device(0))
        self.context, ret = acl.rt.create_context(0)
        check_ret("acl.rt.create_context", ret)
        self.stream, ret = acl.rt.create_stream()
        check_ret("acl.rt.create_stream", ret)
        self.run_mode, ret = acl.rt.get_run_mode()
        check_ret("acl.rt.get_run_mode", ret)

    def release(self):
        check_ret("acl.rt.destroy_stream", acl.rt.destroy_stream(self.stream))
        check_ret("acl.rt.destroy_context", acl.rt.destroy_context(self.context))
        check_ret("acl.rt.reset_device", acl.rt.reset_device(0))
        check_ret("acl.finalize", acl.finalize())


class AclImage:
    def __init__(self, data, width, height, size, is_jpeg=False):
        self.data, self.width, self.height, self.size = data, width, height, size
        self.is_jpeg = is_jpeg

    @classmethod
    def from_file(cls, path):
        data = np.fromfile(path, dtype=np.uint8)
        width, height, _, ret = acl.media.dvpp_jpeg_get_image_info(acl.util.numpy_to_ptr(data), data.size)
        check_ret("acl.media.dvpp_jpeg_get_image_info", ret)
        return cls(data, width, height, data.size, is_jpeg=True)

    def copy_as_nparray(self, run_mode):
        """A copy of device memory, as an array: on a board in device memory again."""
        if run_mode == ACL_HOST:
            memory, ret = acl.rt.malloc_host(self.size)
            check_ret("acl.rt.malloc_host", ret)
            check_ret("memcpy", acl.rt.memcpy(memory, self.size, self.data, self.size, ACL_MEMCPY_DEVICE_TO_HOST))
        else:
            memory, ret = acl.rt.malloc(self.size, ACL_MEM_MALLOC_NORMAL_ONLY)
            check_ret("acl.rt.malloc", ret)
            check_ret("memcpy", acl.rt.memcpy(memory, self.size, self.data, self.size, ACL_MEMCPY_DEVICE_TO_DEVICE))
        array = acl.util.ptr_to_numpy(memory, (self.size,), NPY_BYTE).copy()
        check_ret("free", acl.rt.free_host(memory) if run_mode == ACL_HOST else acl.rt.free(memory))
        return array

    def destroy(self):
        check_ret("acl.media.dvpp_free", acl.media.dvpp_free(self.data))


class Dvpp:
    def __init__(self, resource):
        self.stream, self.run_mode = resource.stream, resource.run_mode
        self.channel = acl.media.dvpp_create_channel_desc()
        check_ret("acl.media.dvpp_create_channel", acl.media.dvpp_create_channel(self.channel))
        self.resize_config = acl.media.dvpp_create_resize_config()

    def pic_desc(self, memory, width, height, stride_width, stride_height):
        desc = acl.media.dvpp_create_pic_desc()
        size = stride_width * stride_height * 3 // 2
        acl.media.dvpp_set_pic_desc_data(desc, memory)
        acl.media.dvpp_set_pic_desc_format(desc, PIXEL_FORMAT_YUV_SEMIPLANAR_420)
        acl.media.dvpp_set_pic_desc_width(desc, width)
        acl.media.dvpp_set_pic_desc_height(desc, height)
        acl.media.dvpp_set_pic_desc_width_stride(desc, stride_width)
        acl.media.dvpp_set_pic_desc_height_stride(desc, stride_height)
        acl.media.dvpp_set_pic_desc_size(desc, size)
        return desc, size

    def jpegd(self, image):
        source = copy_to_dvpp(acl.util.numpy_to_ptr(image.data), image.size, self.run_mode)
        stride_width, stride_height = align_up(image.width, 128), align_up(image.height, 16)
        memory, ret = acl.media.dvpp_malloc(stride_width * stride_height * 3 // 2)
        check_ret("acl.media.dvpp_malloc", ret)
        desc, size = self.pic_desc(memory, image.width, image.height, stride_width, stride_height)
        ret = acl.media.dvpp_jpeg_decode_async(self.channel, source, image.size, desc, self.stream)
        check_ret("acl.media.dvpp_jpeg_decode_async", ret)
        check_ret("acl.rt.synchronize_stream", acl.rt.synchronize_stream(self.stream))
        check_ret("acl.media.dvpp_destroy_pic_desc", acl.media.dvpp_destroy_pic_desc(desc))
        check_ret("acl.media.dvpp_free", acl.media.dvpp_free(source))
        return AclImage(memory, image.width, image.height, size)

    def resize(self, image, width, height):
        source, _ = self.pic_desc(
            image.data, image.width, image.height, align_up(image.width, 128), align_up(image.height, 16)
        )
        memory, ret = acl.media.dvpp_malloc(width * height * 3 // 2)
        check_ret("acl.media.dvpp_malloc", ret)
        target, size = self.pic_desc(memory, width, height, align_up(width, 16), align_up(height, 2))
        ret = acl.media.dvpp_vpc_resize_async(self.channel, source, target, self.resize_config, self.stream)
        check_ret("acl.media.dvpp_vpc_resize_async", ret)
        check_ret("acl.rt.synchronize_stream", acl.rt.synchronize_stream(self.stream))
        for desc in (source, target):
            check_ret("acl.media.dvpp_destroy_pic_desc", acl.media.dvpp_destroy_pic_desc(desc))
        return AclImage(memory, width, height, size)

    def release(self):
        check_ret("acl.media.dvpp_destroy_resize_config", acl.media.dvpp_destroy_resize_config(self.resize_config))
        check_ret("acl.media.dvpp_destroy_channel", acl.media.dvpp_destroy_channel(self.channel))
        check_ret("acl.media.dvpp_destroy_channel_desc", acl.media.dvpp_destroy_channel_desc(self.channel))


class Model:
    def __init__(self, resource, path):
        self.run_mode = resource.run_mode
        self.model_id, ret = acl.mdl.load_from_file(path)
        check_ret("acl.mdl.load_from_file", ret)
        self.desc = acl.mdl.create_desc()
        check_ret("acl.mdl.get_desc", acl.mdl.get_desc(self.desc, self.model_id))
        self.output_dataset = acl.mdl.create_dataset()
        for index in range(acl.mdl.get_num_outputs(self.desc)):
            size = acl.mdl.get_output_size_by_index(self.desc, index)
            memory, ret = acl.rt.malloc(size, ACL_MEM_MALLOC_HUGE_FIRST)
            check_ret("acl.rt.malloc", ret)
            _, ret = acl.mdl.add_dataset_buffer(self.output_dataset, acl.create_data_buffer(memory, size))
            check_ret("acl.mdl.add_dataset_buffer", ret)

    def execute(self, image):
        dataset, buffer = acl.mdl.create_dataset(), acl.create_data_buffer(image.data, image.size)
        _, ret = acl.mdl.add_dataset_buffer(dataset, buffer)
        check_ret("acl.mdl.add_dataset_buffer", ret)
        check_ret("acl.mdl.execute", acl.mdl.execute(self.model_id, dataset, self.output_dataset))
        check_ret("acl.destroy_data_buffer", acl.destroy_data_buffer(buffer))
        check_ret("acl.mdl.destroy_dataset", acl.mdl.destroy_dataset(dataset))
        return [self.output(index) for index in range(acl.mdl.get_dataset_num_buffers(self.output_dataset))]

    def output(self, index):
        buffer = acl.mdl.get_dataset_buffer(self.output_dataset, index)
        memory, size = acl.get_data_buffer_addr(buffer), acl.get_data_buffer_size(buffer)
        dims, ret = acl.mdl.get_cur_output_dims(self.desc, index)
        check_ret("acl.mdl.get_cur_output_dims", ret)
        if self.run_mode != ACL_HOST:
            return acl.util.ptr_to_numpy(memory, tuple(dims["dims"]), NPY_FLOAT)
        host = bytes(size)
        ret = acl.rt.memcpy(acl.util.bytes_to_ptr(host), size, memory, size, ACL_MEMCPY_DEVICE_TO_HOST)
        check_ret("acl.rt.memcpy", ret)
        return np.frombuffer(host, np.float32).reshape(dims["dims"])

    def release(self):
        for index in range(acl.mdl.get_dataset_num_buffers(self.output_dataset)):
            buffer = acl.mdl.get_dataset_buffer(self.output_dataset, index)
            check_ret("acl.rt.free", acl.rt.free(acl.get_data_buffer_addr(buffer)))
            check_ret("acl.destroy_data_buffer", acl.destroy_data_buffer(buffer))
        check_ret("acl.mdl.destroy_dataset", acl.mdl.destroy_dataset(self.output_dataset))
        check_ret("acl.mdl.destroy_desc", acl.mdl.destroy_desc(self.desc))
        check_ret("acl.mdl.unload", acl.mdl.unload(self.model_id))


def main(picture, models):
    resource = AclResource()
    print("run mode:", resource.run_mode)
    dvpp, model = Dvpp(resource), Model(resource, os.path.join(models, "brightness.om"))
    decoded = dvpp.jpegd(AclImage.from_file(picture))
    print("decoded:", decoded.width, "x", decoded.height)
    resized = dvpp.resize(decoded, MODEL_WIDTH, MODEL_HEIGHT)
    print("bytes of the picture for the model:", resized.copy_as_nparray(resource.run_mode).size)
    [[scores]] = model.execute(resized)
    print("scores:", [int(round(float(value), -1)) for value in scores], "the best one is", int(scores.argmax()))
    for image in (decoded, resized):
        image.destroy()
    model.release()
    dvpp.release()
    resource.release()


if __name__ == "__main__":
    main(*sys.argv[1:])
