"""Shows: synchronous inference, as in the Net classes of many projects: buffers by size, datasets, execute.

Scenario: a classifier of small pictures, one at a time.
"""

import os

import acl
import numpy as np

ACL_MEM_MALLOC_HUGE_FIRST = 0
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2
ACL_HOST = 1
ACL_DTYPE = {0: "float32", 1: "float16", 2: "int8", 3: "int32", 4: "uint8", 9: "int64"}
MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models", "classifier.om")


def check_ret(message, ret):
    if ret != 0:
        raise Exception(f"{message} failed ret={ret}")


class Net:
    def __init__(self, device_id, model_path):
        self.device_id = device_id
        self.model_id = None
        self.context = None
        self.input_data, self.output_data = [], []
        self.load_input_dataset = self.load_output_dataset = None
        self._init_resource(model_path)

    def _init_resource(self, model_path):
        check_ret("acl.init", acl.init())
        check_ret("acl.rt.set_device", acl.rt.set_device(self.device_id))
        self.context, ret = acl.rt.create_context(self.device_id)
        check_ret("acl.rt.create_context", ret)
        self.model_id, ret = acl.mdl.load_from_file(model_path)
        check_ret("acl.mdl.load_from_file", ret)
        self.model_desc = acl.mdl.create_desc()
        check_ret("acl.mdl.get_desc", acl.mdl.get_desc(self.model_desc, self.model_id))
        inputs = acl.mdl.get_num_inputs(self.model_desc)
        outputs = acl.mdl.get_num_outputs(self.model_desc)
        for index in range(inputs):
            self.input_data.append(self._buffer(acl.mdl.get_input_size_by_index(self.model_desc, index)))
        for index in range(outputs):
            self.output_data.append(self._buffer(acl.mdl.get_output_size_by_index(self.model_desc, index)))
        print(f"the model has {inputs} input and {outputs} output")

    @staticmethod
    def _buffer(size):
        buffer, ret = acl.rt.malloc(size, ACL_MEM_MALLOC_HUGE_FIRST)
        check_ret("acl.rt.malloc", ret)
        return {"buffer": buffer, "size": size}

    @staticmethod
    def _dataset(buffers):
        dataset = acl.mdl.create_dataset()
        for item in buffers:
            data = acl.create_data_buffer(item["buffer"], item["size"])
            if data is None:
                acl.destroy_data_buffer(data)
            _, ret = acl.mdl.add_dataset_buffer(dataset, data)
            check_ret("acl.mdl.add_dataset_buffer", ret)
        return dataset

    @staticmethod
    def _destroy_dataset(dataset):
        for index in range(acl.mdl.get_dataset_num_buffers(dataset)):
            check_ret("destroy", acl.destroy_data_buffer(acl.mdl.get_dataset_buffer(dataset, index)))
        check_ret("acl.mdl.destroy_dataset", acl.mdl.destroy_dataset(dataset))

    def _input(self, images):
        for image, item in zip(images, self.input_data, strict=True):
            data = image.tobytes()
            ret = acl.rt.memcpy(
                item["buffer"], item["size"], acl.util.bytes_to_ptr(data), len(data), ACL_MEMCPY_HOST_TO_DEVICE
            )
            check_ret("acl.rt.memcpy", ret)

    def _output(self):
        results = []
        for index, item in enumerate(self.output_data):
            host, ret = acl.rt.malloc_host(item["size"])
            check_ret("acl.rt.malloc_host", ret)
            ret = acl.rt.memcpy(host, item["size"], item["buffer"], item["size"], ACL_MEMCPY_DEVICE_TO_HOST)
            check_ret("acl.rt.memcpy", ret)
            dims, ret = acl.mdl.get_output_dims(self.model_desc, index)
            check_ret("acl.mdl.get_output_dims", ret)
            dtype = np.dtype(ACL_DTYPE[acl.mdl.get_output_data_type(self.model_desc, index)])
            values = np.frombuffer(acl.util.ptr_to_bytes(host, item["size"]), dtype=dtype).reshape(dims["dims"])
            check_ret("acl.rt.free_host", acl.rt.free_host(host))
            results.append(values)
        return results

    def run(self, images):
        self._input(images)
        inputs, outputs = self._dataset(self.input_data), self._dataset(self.output_data)
        check_ret("acl.mdl.execute", acl.mdl.execute(self.model_id, inputs, outputs))
        self._destroy_dataset(inputs)
        self._destroy_dataset(outputs)
        return self._output()

    def __del__(self):
        check_ret("acl.mdl.unload", acl.mdl.unload(self.model_id))
        check_ret("acl.mdl.destroy_desc", acl.mdl.destroy_desc(self.model_desc))
        for item in self.input_data + self.output_data:
            check_ret("acl.rt.free", acl.rt.free(item["buffer"]))
        check_ret("acl.rt.destroy_context", acl.rt.destroy_context(self.context))
        check_ret("acl.rt.reset_device", acl.rt.reset_device(self.device_id))
        check_ret("acl.finalize", acl.finalize())
        print("all resources are released")


if __name__ == "__main__":
    net = Net(0, MODEL)
    rng = np.random.default_rng(1)
    for number in range(3):
        image = rng.random((1, 64), dtype=np.float32)
        (probabilities,) = net.run([image])
        best = np.argsort(probabilities[0])[::-1][:3]
        print(f"picture {number}:", ", ".join(f"class {each} {probabilities[0][each]:.3f}" for each in best))
