"""Dynamic AIPP of one input, step by step as the vendor's guide has it: the index by its name, the parameters, then
set_input_aipp. The picture is NV12, with an area to cut out.
"""

import acl
import numpy as np

ACL_YUV420SP_U8 = 1
ACL_MEM_MALLOC_HUGE_FIRST = 0
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2
WIDTH, HEIGHT = 16, 12


def check_ret(message, ret):
    if ret != 0:
        raise Exception(f"{message} failed ret={ret}: {acl.get_recent_err_msg()}")


def model_set_dynamic_aipp(model_id, model_desc, dataset):
    index, ret = acl.mdl.get_input_index_by_name(model_desc, "ascend_dynamic_aipp_data")
    check_ret("get_input_index_by_name", ret)
    aipp = acl.mdl.create_aipp(1)
    check_ret("size", acl.mdl.set_aipp_src_image_size(aipp, WIDTH, HEIGHT))
    check_ret("format", acl.mdl.set_aipp_input_format(aipp, ACL_YUV420SP_U8))
    check_ret(
        "csc", acl.mdl.set_aipp_csc_params(aipp, 1, 256, 0, 359, 256, -88, -183, 256, 454, 0, 0, 0, 0, 0, 128, 128)
    )
    check_ret("swap", acl.mdl.set_aipp_rbuv_swap_switch(aipp, 0))
    check_ret("mean", acl.mdl.set_aipp_dtc_pixel_mean(aipp, 104, 117, 123, 0, 0))
    check_ret("min", acl.mdl.set_aipp_dtc_pixel_min(aipp, 0, 0, 0, 0, 0))
    check_ret("var", acl.mdl.set_aipp_pixel_var_reci(aipp, 1, 1, 1, 1, 0))
    check_ret("crop", acl.mdl.set_aipp_crop_params(aipp, 1, 2, 2, 8, 8, 0))
    check_ret("set_input_aipp", acl.mdl.set_input_aipp(model_id, dataset, index, aipp))
    check_ret("destroy_aipp", acl.mdl.destroy_aipp(aipp))


def main():
    check_ret("init", acl.init())
    check_ret("set_device", acl.rt.set_device(0))
    model_id, ret = acl.mdl.load_from_file("one.om")
    check_ret("load_from_file", ret)
    desc = acl.mdl.create_desc()
    check_ret("get_desc", acl.mdl.get_desc(desc, model_id))
    inputs, outputs, owned = acl.mdl.create_dataset(), acl.mdl.create_dataset(), []
    for dataset, count, size_of in (
        (inputs, acl.mdl.get_num_inputs(desc), acl.mdl.get_input_size_by_index),
        (outputs, acl.mdl.get_num_outputs(desc), acl.mdl.get_output_size_by_index),
    ):
        for index in range(count):
            size = size_of(desc, index)
            pointer, ret = acl.rt.malloc(size, ACL_MEM_MALLOC_HUGE_FIRST)
            check_ret("malloc", ret)
            buffer = acl.create_data_buffer(pointer, size)
            _, ret = acl.mdl.add_dataset_buffer(dataset, buffer)
            check_ret("add_dataset_buffer", ret)
            owned.append((pointer, buffer, size))
            print("buffer of", size, "bytes")
    picture = np.full(WIDTH * HEIGHT * 3 // 2, 128, np.uint8)
    picture[: WIDTH * HEIGHT].reshape(HEIGHT, WIDTH)[2:10, 2:10] = 150
    check_ret("memset", acl.rt.memset(owned[0][0], owned[0][2], 0, owned[0][2]))
    data = picture.tobytes()
    pointer, _, size = owned[0]
    check_ret("memcpy", acl.rt.memcpy(pointer, size, acl.util.bytes_to_ptr(data), len(data), ACL_MEMCPY_HOST_TO_DEVICE))
    model_set_dynamic_aipp(model_id, desc, inputs)
    check_ret("execute", acl.mdl.execute(model_id, inputs, outputs))
    result = bytes(12)
    check_ret("memcpy", acl.rt.memcpy(acl.util.bytes_to_ptr(result), 12, owned[-1][0], 12, ACL_MEMCPY_DEVICE_TO_HOST))
    print("means:", np.frombuffer(result, np.float32).tolist())
    for pointer, buffer, _ in owned:
        acl.destroy_data_buffer(buffer)
        acl.rt.free(pointer)
    acl.mdl.destroy_dataset(inputs)
    acl.mdl.destroy_dataset(outputs)
    acl.mdl.destroy_desc(desc)
    acl.mdl.unload(model_id)
    acl.rt.reset_device(0)
    acl.finalize()


if __name__ == "__main__":
    main()
