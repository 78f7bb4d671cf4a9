"""A picture in NV12 is encoded sixteen times to H.265, and the stream is written to a file.

The outline of venc_image, one of the vendor's samples for pyACL: its classes, its calls and their order. It asks for
the run mode, and on a board it neither copies to the host nor from it.
"""

import sys

import acl
import numpy as np

ACL_DEVICE, ACL_HOST = 0, 1
ACL_MEMCPY_HOST_TO_DEVICE, ACL_MEMCPY_DEVICE_TO_HOST, ACL_MEMCPY_DEVICE_TO_DEVICE = 1, 2, 3
PIXEL_FORMAT_YUV_SEMIPLANAR_420 = 1
H265_MAIN_LEVEL = 0
NPY_BYTE = 1
TIMEOUT_MS = 1000


def check_ret(message, ret):
    if ret != 0:
        raise RuntimeError(f"{message} failed ret={ret}")


class AclVenc:
    def __init__(self, width, height, output):
        self.width, self.height, self.output = width, height, output
        self.callback_run_flag = True
        self.sizes = []

    def init_resource(self):
        check_ret("acl.init", acl.init())
        check_ret("acl.rt.set_device", acl.rt.set_device(0))
        self.context, ret = acl.rt.create_context(0)
        check_ret("acl.rt.create_context", ret)
        self.run_mode, ret = acl.rt.get_run_mode()
        check_ret("acl.rt.get_run_mode", ret)
        print("run mode:", "ACL_HOST" if self.run_mode == ACL_HOST else "ACL_DEVICE")

    def cb_thread_func(self, args_list):
        context, timeout = args_list
        check_ret("acl.rt.set_context", acl.rt.set_context(context))
        while self.callback_run_flag:
            acl.rt.process_report(timeout)

    def callback_func(self, input_pic_desc, output_stream_desc, user_data):
        data = acl.media.dvpp_get_stream_desc_data(output_stream_desc)
        size = acl.media.dvpp_get_stream_desc_size(output_stream_desc)
        check_ret("the encoder", acl.media.dvpp_get_stream_desc_ret_code(output_stream_desc))
        with open(self.output, "ab") as file:
            file.write(self.get_stream_data(data, size))
        self.sizes.append(size)

    def get_stream_data(self, data, size):
        if self.run_mode == ACL_DEVICE:
            return acl.util.ptr_to_numpy(data, (size,), NPY_BYTE).tobytes()
        host = bytes(size)
        ret = acl.rt.memcpy(acl.util.bytes_to_ptr(host), size, data, size, ACL_MEMCPY_DEVICE_TO_HOST)
        check_ret("acl.rt.memcpy", ret)
        return host

    def init_venc(self):
        self.cb_thread_id, ret = acl.util.start_thread(self.cb_thread_func, [self.context, TIMEOUT_MS])
        check_ret("acl.util.start_thread", ret)
        desc = self.channel_desc = acl.media.venc_create_channel_desc()
        acl.media.venc_set_channel_desc_thread_id(desc, self.cb_thread_id)
        acl.media.venc_set_channel_desc_callback(desc, self.callback_func)
        acl.media.venc_set_channel_desc_entype(desc, H265_MAIN_LEVEL)
        acl.media.venc_set_channel_desc_pic_format(desc, PIXEL_FORMAT_YUV_SEMIPLANAR_420)
        acl.media.venc_set_channel_desc_pic_width(desc, self.width)
        acl.media.venc_set_channel_desc_pic_height(desc, self.height)
        acl.media.venc_set_channel_desc_key_frame_interval(desc, 16)
        check_ret("acl.media.venc_create_channel", acl.media.venc_create_channel(desc))
        self.frame_config = acl.media.venc_create_frame_config()

    def load_picture(self, path):
        picture = np.fromfile(path, dtype=np.byte).tobytes()
        memory, ret = acl.media.dvpp_malloc(len(picture))
        check_ret("acl.media.dvpp_malloc", ret)
        kind = ACL_MEMCPY_HOST_TO_DEVICE if self.run_mode == ACL_HOST else ACL_MEMCPY_DEVICE_TO_DEVICE
        ret = acl.rt.memcpy(memory, len(picture), acl.util.bytes_to_ptr(picture), len(picture), kind)
        check_ret("acl.rt.memcpy", ret)
        return memory, len(picture)

    def set_frame_config(self, eos, force_i_frame):
        check_ret("set eos", acl.media.venc_set_frame_config_eos(self.frame_config, eos))
        check_ret("set i frame", acl.media.venc_set_frame_config_force_i_frame(self.frame_config, force_i_frame))

    def venc_process(self, memory, size):
        self.set_frame_config(0, 0)
        pic_desc = acl.media.dvpp_create_pic_desc()
        check_ret("set data", acl.media.dvpp_set_pic_desc_data(pic_desc, memory))
        check_ret("set size", acl.media.dvpp_set_pic_desc_size(pic_desc, size))
        for _ in range(16):
            ret = acl.media.venc_send_frame(self.channel_desc, pic_desc, 0, self.frame_config, None)
            check_ret("acl.media.venc_send_frame", ret)
        self.set_frame_config(1, 0)
        ret = acl.media.venc_send_frame(self.channel_desc, 0, 0, self.frame_config, None)
        check_ret("acl.media.venc_send_frame", ret)
        check_ret("acl.media.dvpp_destroy_pic_desc", acl.media.dvpp_destroy_pic_desc(pic_desc))

    def release_resource(self, memory):
        check_ret("acl.media.dvpp_free", acl.media.dvpp_free(memory))
        check_ret("acl.media.venc_destroy_channel", acl.media.venc_destroy_channel(self.channel_desc))
        check_ret("acl.media.venc_destroy_channel_desc", acl.media.venc_destroy_channel_desc(self.channel_desc))
        check_ret("acl.media.venc_destroy_frame_config", acl.media.venc_destroy_frame_config(self.frame_config))
        self.callback_run_flag = False
        check_ret("acl.util.stop_thread", acl.util.stop_thread(self.cb_thread_id))
        check_ret("acl.rt.destroy_context", acl.rt.destroy_context(self.context))
        check_ret("acl.rt.reset_device", acl.rt.reset_device(0))
        check_ret("acl.finalize", acl.finalize())


def main(path, width, height, output):
    venc = AclVenc(int(width), int(height), output)
    venc.init_resource()
    venc.init_venc()
    memory, size = venc.load_picture(path)
    venc.venc_process(memory, size)
    venc.release_resource(memory)
    print("frames encoded:", len(venc.sizes))
    print("the first one is the largest:", venc.sizes[0] == max(venc.sizes) > 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
