"""A model on each part of a large picture, from memory of Python: no input is copied to the device.

The outline of the detection programs for Orange Pi boards that cut a picture into slices. A data buffer is made on the
address of `item.tobytes()`, the execution is synchronous, and results are taken with acl.util.ptr_to_bytes().
"""

import os
import sys

import acl
import numpy as np

ACL_MEM_MALLOC_NORMAL_ONLY = 2
SLICE_WIDTH, SLICE_HEIGHT = 64, 96


def check_ret(message, ret):
    if ret != 0:
        raise RuntimeError(f"{message} failed ret={ret}")


class Model:
    def __init__(self, path):
        check_ret("acl.init", acl.init())
        check_ret("acl.rt.set_device", acl.rt.set_device(0))
        self.context, ret = acl.rt.create_context(0)
        check_ret("acl.rt.create_context", ret)
        self.model_id, ret = acl.mdl.load_from_file(path)
        check_ret("acl.mdl.load_from_file", ret)
        self.desc = acl.mdl.create_desc()
        check_ret("acl.mdl.get_desc", acl.mdl.get_desc(self.desc, self.model_id))
        self.outputs = acl.mdl.create_dataset()
        for index in range(acl.mdl.get_num_outputs(self.desc)):
            size = acl.mdl.get_output_size_by_index(self.desc, index)
            memory, ret = acl.rt.malloc(size, ACL_MEM_MALLOC_NORMAL_ONLY)
            check_ret("acl.rt.malloc", ret)
            acl.mdl.add_dataset_buffer(self.outputs, acl.create_data_buffer(memory, size))

    def execute(self, arrays):
        inputs = acl.mdl.create_dataset()
        for item in arrays:
            pointer = acl.util.bytes_to_ptr(item.tobytes())
            buffer = acl.create_data_buffer(pointer, item.size * item.itemsize)
            acl.mdl.add_dataset_buffer(inputs, buffer)
        check_ret("acl.mdl.execute", acl.mdl.execute(self.model_id, inputs, self.outputs))
        for index in range(acl.mdl.get_dataset_num_buffers(inputs)):
            check_ret("destroy", acl.destroy_data_buffer(acl.mdl.get_dataset_buffer(inputs, index)))
        check_ret("acl.mdl.destroy_dataset", acl.mdl.destroy_dataset(inputs))
        return [self.output(index) for index in range(acl.mdl.get_dataset_num_buffers(self.outputs))]

    def output(self, index):
        buffer = acl.mdl.get_dataset_buffer(self.outputs, index)
        dims, ret = acl.mdl.get_cur_output_dims(self.desc, index)
        check_ret("acl.mdl.get_cur_output_dims", ret)
        data = acl.util.ptr_to_bytes(acl.get_data_buffer_addr(buffer), acl.get_data_buffer_size(buffer))
        return np.frombuffer(data, np.float32).reshape(dims["dims"])

    def release(self):
        for index in range(acl.mdl.get_dataset_num_buffers(self.outputs)):
            buffer = acl.mdl.get_dataset_buffer(self.outputs, index)
            check_ret("acl.rt.free", acl.rt.free(acl.get_data_buffer_addr(buffer)))
            check_ret("acl.destroy_data_buffer", acl.destroy_data_buffer(buffer))
        check_ret("acl.mdl.destroy_dataset", acl.mdl.destroy_dataset(self.outputs))
        check_ret("acl.mdl.destroy_desc", acl.mdl.destroy_desc(self.desc))
        check_ret("acl.mdl.unload", acl.mdl.unload(self.model_id))
        check_ret("acl.rt.destroy_context", acl.rt.destroy_context(self.context))
        check_ret("acl.rt.reset_device", acl.rt.reset_device(0))
        check_ret("acl.finalize", acl.finalize())


def main(models):
    picture = np.zeros((SLICE_HEIGHT, 3 * SLICE_WIDTH), np.uint8)
    for number in range(3):  # each slice has another light quarter
        row, column = 32 * (number // 2), SLICE_WIDTH * number + 32 * (number % 2)
        picture[row : row + 32, column : column + 32] = 200
    model = Model(os.path.join(models, "brightness.om"))
    for number in range(3):
        part = picture[:, SLICE_WIDTH * number : SLICE_WIDTH * (number + 1)]
        [[means]] = model.execute([part[None]])
        print(f"slice {number}:", means.tolist())
    model.release()


if __name__ == "__main__":
    main(*sys.argv[1:])
