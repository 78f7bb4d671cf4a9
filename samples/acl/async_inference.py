"""Shows: asynchronous inference with a report thread: execute_async, a callback every few runs, one wait at the end.

Scenario: a queue of pictures. Each gets datasets from a pool; the callback reads the results and puts the datasets
back.
"""

import os

import acl
import numpy as np

ACL_MEM_MALLOC_HUGE_FIRST = 0
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2
ACL_CALLBACK_BLOCK = 1
REPORT_TIMEOUT_MS = 100
MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models", "classifier.om")


def check_ret(message, ret):
    if ret != 0:
        raise Exception(f"{message} failed ret={ret}")


class Pool:
    """Datasets with memory of one size per tensor."""

    def __init__(self, sizes, count):
        self.free = [self._make(sizes) for _ in range(count)]

    @staticmethod
    def _make(sizes):
        dataset = acl.mdl.create_dataset()
        for size in sizes:
            buffer, ret = acl.rt.malloc(size, ACL_MEM_MALLOC_HUGE_FIRST)
            check_ret("acl.rt.malloc", ret)
            _, ret = acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(buffer, size))
            check_ret("acl.mdl.add_dataset_buffer", ret)
        return dataset

    def release(self):
        for dataset in self.free:
            for index in range(acl.mdl.get_dataset_num_buffers(dataset)):
                data = acl.mdl.get_dataset_buffer(dataset, index)
                check_ret("acl.rt.free", acl.rt.free(acl.get_data_buffer_addr(data)))
                check_ret("acl.destroy_data_buffer", acl.destroy_data_buffer(data))
            check_ret("acl.mdl.destroy_dataset", acl.mdl.destroy_dataset(dataset))


class Classifier:
    def __init__(self, device_id, model_path, callback_interval, memory_pool):
        self.device_id = device_id
        self.callback_interval = callback_interval
        self.reporting = True
        self.answers = {}
        check_ret("acl.init", acl.init())
        check_ret("acl.rt.set_device", acl.rt.set_device(device_id))
        self.context, ret = acl.rt.create_context(device_id)
        check_ret("acl.rt.create_context", ret)
        self.stream, ret = acl.rt.create_stream()
        check_ret("acl.rt.create_stream", ret)
        self.model, ret = acl.mdl.load_from_file(model_path)
        check_ret("acl.mdl.load_from_file", ret)
        self.desc = acl.mdl.create_desc()
        check_ret("acl.mdl.get_desc", acl.mdl.get_desc(self.desc, self.model))
        self.inputs = Pool([acl.mdl.get_input_size_by_index(self.desc, 0)], memory_pool)
        self.outputs = Pool([acl.mdl.get_output_size_by_index(self.desc, 0)], memory_pool)

    def _report(self, args):
        context, timeout = args
        check_ret("acl.rt.set_context", acl.rt.set_context(context))
        while self.reporting:
            acl.rt.process_report(timeout)

    def _callback(self, finished):
        for number, inputs, outputs in finished:
            data = acl.mdl.get_dataset_buffer(outputs, 0)
            size = acl.get_data_buffer_size(data)
            host = bytes(size)
            ret = acl.rt.memcpy(
                acl.util.bytes_to_ptr(host), size, acl.get_data_buffer_addr(data), size, ACL_MEMCPY_DEVICE_TO_HOST
            )
            check_ret("acl.rt.memcpy", ret)
            self.answers[number] = int(np.frombuffer(host, np.float32).argmax())
            self.inputs.free.append(inputs)
            self.outputs.free.append(outputs)

    def run(self, images):
        thread, ret = acl.util.start_thread(self._report, [self.context, REPORT_TIMEOUT_MS])
        check_ret("acl.util.start_thread", ret)
        check_ret("acl.rt.subscribe_report", acl.rt.subscribe_report(thread, self.stream))
        started = []
        for number, image in enumerate(images):
            if not self.inputs.free:  # all are in use: wait until some are back
                check_ret("acl.rt.synchronize_stream", acl.rt.synchronize_stream(self.stream))
            inputs, outputs = self.inputs.free.pop(), self.outputs.free.pop()
            data = acl.mdl.get_dataset_buffer(inputs, 0)
            source = image.tobytes()
            ret = acl.rt.memcpy(
                acl.get_data_buffer_addr(data),
                acl.get_data_buffer_size(data),
                acl.util.bytes_to_ptr(source),
                len(source),
                ACL_MEMCPY_HOST_TO_DEVICE,
            )
            check_ret("acl.rt.memcpy", ret)
            check_ret("acl.mdl.execute_async", acl.mdl.execute_async(self.model, inputs, outputs, self.stream))
            started.append((number, inputs, outputs))
            if len(started) == self.callback_interval or number == len(images) - 1:
                ret = acl.rt.launch_callback(self._callback, started, ACL_CALLBACK_BLOCK, self.stream)
                check_ret("acl.rt.launch_callback", ret)
                started = []
        check_ret("acl.rt.synchronize_stream", acl.rt.synchronize_stream(self.stream))
        self.reporting = False
        check_ret("acl.util.stop_thread", acl.util.stop_thread(thread))
        check_ret("acl.rt.unsubscribe_report", acl.rt.unsubscribe_report(thread, self.stream))

    def release(self):
        self.inputs.release()
        self.outputs.release()
        check_ret("acl.mdl.unload", acl.mdl.unload(self.model))
        check_ret("acl.mdl.destroy_desc", acl.mdl.destroy_desc(self.desc))
        check_ret("acl.rt.destroy_stream", acl.rt.destroy_stream(self.stream))
        check_ret("acl.rt.destroy_context", acl.rt.destroy_context(self.context))
        check_ret("acl.rt.reset_device", acl.rt.reset_device(self.device_id))
        check_ret("acl.finalize", acl.finalize())


if __name__ == "__main__":
    rng = np.random.default_rng(2)
    pictures = [rng.random((1, 64), dtype=np.float32) for _ in range(20)]
    classifier = Classifier(0, MODEL, callback_interval=3, memory_pool=6)
    classifier.run(pictures)
    print("classes:", *(classifier.answers[number] for number in range(len(pictures))))
    print("datasets back in the pool:", len(classifier.inputs.free), len(classifier.outputs.free))
    classifier.release()
