"""A video is demuxed, decoded by the hardware, resized, and each frame goes through a model.

The outline of the video programs for Atlas 200 DK and 200I DK A2 that are built on acllite: a capture thread demuxes
packets with PyAV and sends them to vdec, callbacks put frames into a queue, and the main thread runs the model. Frames
stay where they were decoded; on a board, the results are read there, too.
"""

import os
import queue
import sys
import threading

import acl
import av
import numpy as np

ACL_HOST = 1
ACL_MEM_MALLOC_HUGE_FIRST = 0
ACL_MEMCPY_HOST_TO_DEVICE, ACL_MEMCPY_DEVICE_TO_HOST, ACL_MEMCPY_DEVICE_TO_DEVICE = 1, 2, 3
PIXEL_FORMAT_YUV_SEMIPLANAR_420 = 1
H264_MAIN_LEVEL = 2
NPY_FLOAT = 11
MODEL_WIDTH, MODEL_HEIGHT = 64, 64
RESULT_SIZE = 16


def check_ret(message, ret):
    if ret != 0:
        raise RuntimeError(f"{message} failed ret={ret}")


def pic_desc(memory, width, height):
    desc, size = acl.media.dvpp_create_pic_desc(), width * height * 3 // 2
    acl.media.dvpp_set_pic_desc_data(desc, memory)
    acl.media.dvpp_set_pic_desc_size(desc, size)
    acl.media.dvpp_set_pic_desc_format(desc, PIXEL_FORMAT_YUV_SEMIPLANAR_420)
    acl.media.dvpp_set_pic_desc_width(desc, width)
    acl.media.dvpp_set_pic_desc_height(desc, height)
    acl.media.dvpp_set_pic_desc_width_stride(desc, width)
    acl.media.dvpp_set_pic_desc_height_stride(desc, height)
    return desc


class DvppVdec:
    """The channel, and the thread for its callbacks."""

    def __init__(self, channel_id, width, height, run_mode, context):
        self.width, self.height, self.run_mode, self.context = width, height, run_mode, context
        self.frames = queue.Queue()
        self.runs = True
        self.report_thread, ret = acl.util.start_thread(self._report, [])
        check_ret("acl.util.start_thread", ret)
        desc = self.channel_desc = acl.media.vdec_create_channel_desc()
        acl.media.vdec_set_channel_desc_channel_id(desc, channel_id)
        acl.media.vdec_set_channel_desc_thread_id(desc, self.report_thread)
        acl.media.vdec_set_channel_desc_callback(desc, self._callback)
        acl.media.vdec_set_channel_desc_entype(desc, H264_MAIN_LEVEL)
        acl.media.vdec_set_channel_desc_out_pic_format(desc, PIXEL_FORMAT_YUV_SEMIPLANAR_420)
        acl.media.vdec_set_channel_desc_out_pic_width(desc, width)
        acl.media.vdec_set_channel_desc_out_pic_height(desc, height)
        check_ret("acl.media.vdec_create_channel", acl.media.vdec_create_channel(desc))
        self.frame_config = acl.media.vdec_create_frame_config()

    def _report(self, _):
        check_ret("acl.rt.set_context", acl.rt.set_context(self.context))
        while self.runs:
            acl.rt.process_report(300)

    def _callback(self, stream_desc, picture_desc, user_data):
        check_ret("acl.media.dvpp_free", acl.media.dvpp_free(acl.media.dvpp_get_stream_desc_data(stream_desc)))
        check_ret("acl.media.dvpp_destroy_stream_desc", acl.media.dvpp_destroy_stream_desc(stream_desc))
        memory = acl.media.dvpp_get_pic_desc_data(picture_desc)
        ret = acl.media.dvpp_get_pic_desc_ret_code(picture_desc)
        check_ret("acl.media.dvpp_destroy_pic_desc", acl.media.dvpp_destroy_pic_desc(picture_desc))
        if ret == 0:
            self.frames.put((user_data, memory))
        else:
            acl.media.dvpp_free(memory)

    def process(self, packet, frame_id):
        source, ret = acl.media.dvpp_malloc(len(packet))
        check_ret("acl.media.dvpp_malloc", ret)
        kind = ACL_MEMCPY_HOST_TO_DEVICE if self.run_mode == ACL_HOST else ACL_MEMCPY_DEVICE_TO_DEVICE
        ret = acl.rt.memcpy(source, len(packet), acl.util.bytes_to_ptr(packet), len(packet), kind)
        check_ret("acl.rt.memcpy", ret)
        stream_desc = acl.media.dvpp_create_stream_desc()
        acl.media.dvpp_set_stream_desc_data(stream_desc, source)
        acl.media.dvpp_set_stream_desc_size(stream_desc, len(packet))
        target, ret = acl.media.dvpp_malloc(self.width * self.height * 3 // 2)
        check_ret("acl.media.dvpp_malloc", ret)
        ret = acl.media.vdec_send_frame(
            self.channel_desc, stream_desc, pic_desc(target, self.width, self.height), self.frame_config, frame_id
        )
        check_ret("acl.media.vdec_send_frame", ret)

    def finish(self):
        stream_desc = acl.media.dvpp_create_stream_desc()
        acl.media.dvpp_set_stream_desc_eos(stream_desc, 1)
        ret = acl.media.vdec_send_frame(self.channel_desc, stream_desc, 0, self.frame_config, None)
        check_ret("acl.media.vdec_send_frame", ret)
        check_ret("acl.media.dvpp_destroy_stream_desc", acl.media.dvpp_destroy_stream_desc(stream_desc))
        self.frames.put(None)

    def release(self):
        check_ret("acl.media.vdec_destroy_channel", acl.media.vdec_destroy_channel(self.channel_desc))
        check_ret("acl.media.vdec_destroy_channel_desc", acl.media.vdec_destroy_channel_desc(self.channel_desc))
        check_ret("acl.media.vdec_destroy_frame_config", acl.media.vdec_destroy_frame_config(self.frame_config))
        self.runs = False
        check_ret("acl.util.stop_thread", acl.util.stop_thread(self.report_thread))


class VideoCapture:
    """The thread that demuxes, and sends what it finds."""

    def __init__(self, path, run_mode, context):
        self.context = context
        self.container = av.open(path)
        video = self.container.streams.video[0]
        self.vdec = DvppVdec(10, video.width, video.height, run_mode, context)
        self.thread = threading.Thread(target=self._read, name="capture")
        self.thread.start()

    def _read(self):
        check_ret("acl.rt.set_context", acl.rt.set_context(self.context))
        for frame_id, packet in enumerate(each for each in self.container.demux(video=0) if each.size):
            self.vdec.process(bytes(packet), frame_id)
        self.vdec.finish()

    def read(self):
        """The number of the next frame and its memory, or None."""
        return self.vdec.frames.get()

    def release(self):
        self.thread.join()
        self.container.close()
        self.vdec.release()


class Preprocess:
    def __init__(self, stream):
        self.stream = stream
        self.channel = acl.media.dvpp_create_channel_desc()
        check_ret("acl.media.dvpp_create_channel", acl.media.dvpp_create_channel(self.channel))
        self.config = acl.media.dvpp_create_resize_config()

    def resize(self, memory, width, height):
        resized, ret = acl.media.dvpp_malloc(MODEL_WIDTH * MODEL_HEIGHT * 3 // 2)
        check_ret("acl.media.dvpp_malloc", ret)
        source, target = pic_desc(memory, width, height), pic_desc(resized, MODEL_WIDTH, MODEL_HEIGHT)
        ret = acl.media.dvpp_vpc_resize_async(self.channel, source, target, self.config, self.stream)
        check_ret("acl.media.dvpp_vpc_resize_async", ret)
        check_ret("acl.rt.synchronize_stream", acl.rt.synchronize_stream(self.stream))
        for desc in (source, target):
            check_ret("acl.media.dvpp_destroy_pic_desc", acl.media.dvpp_destroy_pic_desc(desc))
        return resized

    def release(self):
        check_ret("acl.media.dvpp_destroy_resize_config", acl.media.dvpp_destroy_resize_config(self.config))
        check_ret("acl.media.dvpp_destroy_channel", acl.media.dvpp_destroy_channel(self.channel))
        check_ret("acl.media.dvpp_destroy_channel_desc", acl.media.dvpp_destroy_channel_desc(self.channel))


def infer(model, memory, result, run_mode):
    """The brightness of each quarter of a picture."""
    datasets = acl.mdl.create_dataset(), acl.mdl.create_dataset()
    size = MODEL_WIDTH * MODEL_HEIGHT * 3 // 2
    buffers = acl.create_data_buffer(memory, size), acl.create_data_buffer(result, RESULT_SIZE)
    for dataset, buffer in zip(datasets, buffers, strict=True):
        check_ret("acl.mdl.add_dataset_buffer", acl.mdl.add_dataset_buffer(dataset, buffer)[1])
    check_ret("acl.mdl.execute", acl.mdl.execute(model, *datasets))
    for dataset, buffer in zip(datasets, buffers, strict=True):
        acl.destroy_data_buffer(buffer)
        acl.mdl.destroy_dataset(dataset)
    if run_mode != ACL_HOST:
        return acl.util.ptr_to_numpy(result, (4,), NPY_FLOAT).tolist()
    host = bytes(RESULT_SIZE)
    ret = acl.rt.memcpy(acl.util.bytes_to_ptr(host), RESULT_SIZE, result, RESULT_SIZE, ACL_MEMCPY_DEVICE_TO_HOST)
    check_ret("acl.rt.memcpy", ret)
    return np.frombuffer(host, np.float32).tolist()


def main(video, models):
    check_ret("acl.init", acl.init())
    check_ret("acl.rt.set_device", acl.rt.set_device(0))
    context, ret = acl.rt.create_context(0)
    check_ret("acl.rt.create_context", ret)
    stream, ret = acl.rt.create_stream()
    check_ret("acl.rt.create_stream", ret)
    run_mode, ret = acl.rt.get_run_mode()
    check_ret("acl.rt.get_run_mode", ret)
    print("run mode:", run_mode)
    model, ret = acl.mdl.load_from_file(os.path.join(models, "brightness.om"))
    check_ret("acl.mdl.load_from_file", ret)
    result, ret = acl.rt.malloc(RESULT_SIZE, ACL_MEM_MALLOC_HUGE_FIRST)
    check_ret("acl.rt.malloc", ret)
    preprocess, capture = Preprocess(stream), VideoCapture(video, run_mode, context)
    while (frame := capture.read()) is not None:
        frame_id, memory = frame
        resized = preprocess.resize(memory, capture.vdec.width, capture.vdec.height)
        print(f"frame {frame_id}:", [int(round(value, -1)) for value in infer(model, resized, result, run_mode)])
        for each in (memory, resized):
            check_ret("acl.media.dvpp_free", acl.media.dvpp_free(each))
    capture.release()
    preprocess.release()
    check_ret("acl.rt.free", acl.rt.free(result))
    check_ret("acl.mdl.unload", acl.mdl.unload(model))
    check_ret("acl.rt.destroy_stream", acl.rt.destroy_stream(stream))
    check_ret("acl.rt.destroy_context", acl.rt.destroy_context(context))
    check_ret("acl.rt.reset_device", acl.rt.reset_device(0))
    check_ret("acl.finalize", acl.finalize())


if __name__ == "__main__":
    main(*sys.argv[1:])
