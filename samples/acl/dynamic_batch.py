"""Shows: a model with dynamic batch: its gears, the sizes of its buffers, the size set by each call, and its outputs.

Scenario: pictures arrive in different numbers; each call sets the smallest gear that has room for them.
"""

import os

import acl
import numpy as np

ACL_MEM_MALLOC_HUGE_FIRST = 0
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2
DYNAMIC_TENSOR_NAME = "ascend_mbatch_shape_data"
MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models", "classifier_batch.om")


def check(ret, what):
    if ret != 0:
        raise RuntimeError(f"{what}: ret={ret}")


def main():
    check(acl.init(), "init")
    check(acl.rt.set_device(0), "set_device")
    model, ret = acl.mdl.load_from_file(MODEL)
    check(ret, "load_from_file")
    desc = acl.mdl.create_desc()
    check(acl.mdl.get_desc(desc, model), "get_desc")

    gears, ret = acl.mdl.get_dynamic_batch(desc)
    check(ret, "get_dynamic_batch")
    print("gears:", gears["batch"])
    dims, ret = acl.mdl.get_input_dims(desc, 0)
    check(ret, "get_input_dims")
    print("input:", dims["name"], dims["dims"], "buffer of", acl.mdl.get_input_size_by_index(desc, 0), "bytes")
    dynamic, ret = acl.mdl.get_input_index_by_name(desc, DYNAMIC_TENSOR_NAME)
    check(ret, "get_input_index_by_name")

    buffers = []
    datasets = []
    for count, size_of in (
        (acl.mdl.get_num_inputs(desc), acl.mdl.get_input_size_by_index),
        (acl.mdl.get_num_outputs(desc), acl.mdl.get_output_size_by_index),
    ):
        dataset = acl.mdl.create_dataset()
        datasets.append(dataset)
        for index in range(count):
            size = size_of(desc, index)
            pointer, ret = acl.rt.malloc(size, ACL_MEM_MALLOC_HUGE_FIRST)
            check(ret, "malloc")
            buffers.append((pointer, acl.create_data_buffer(pointer, size)))
            check(acl.mdl.add_dataset_buffer(dataset, buffers[-1][1])[1], "add_dataset_buffer")
    inputs, outputs = datasets

    rng = np.random.default_rng(3)
    for came in (1, 3, 8):
        gear = min(each for each in gears["batch"] if each >= came)
        images = np.zeros((gear, 64), np.float32)
        images[:came] = rng.random((came, 64), dtype=np.float32)
        data = images.tobytes()
        pointer = acl.get_data_buffer_addr(acl.mdl.get_dataset_buffer(inputs, 0))
        check(
            acl.rt.memcpy(pointer, len(data), acl.util.bytes_to_ptr(data), len(data), ACL_MEMCPY_HOST_TO_DEVICE),
            "memcpy",
        )
        check(acl.mdl.set_dynamic_batch_size(model, inputs, dynamic, gear), "set_dynamic_batch_size")
        check(acl.mdl.execute(model, inputs, outputs), "execute")
        shape, ret = acl.mdl.get_cur_output_dims(desc, 0)
        check(ret, "get_cur_output_dims")
        result = bytes(4 * int(np.prod(shape["dims"])))
        pointer = acl.get_data_buffer_addr(acl.mdl.get_dataset_buffer(outputs, 0))
        check(
            acl.rt.memcpy(acl.util.bytes_to_ptr(result), len(result), pointer, len(result), ACL_MEMCPY_DEVICE_TO_HOST),
            "memcpy",
        )
        classes = np.frombuffer(result, np.float32).reshape(shape["dims"])[:came].argmax(axis=1)
        print(f"{came} pictures in gear {gear}: output {shape['dims']}, classes {classes.tolist()}")

    print("a gear that does not exist is refused:", acl.mdl.set_dynamic_batch_size(model, inputs, dynamic, 5) != 0)

    for pointer, buffer in buffers:
        check(acl.rt.free(pointer), "free")
        check(acl.destroy_data_buffer(buffer), "destroy_data_buffer")
    for dataset in datasets:
        check(acl.mdl.destroy_dataset(dataset), "destroy_dataset")
    check(acl.mdl.unload(model), "unload")
    check(acl.mdl.destroy_desc(desc), "destroy_desc")
    check(acl.rt.reset_device(0), "reset_device")
    check(acl.finalize(), "finalize")


main()
