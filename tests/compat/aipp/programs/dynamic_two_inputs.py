"""Dynamic AIPP of two inputs: get_aipp_type says which, and set_aipp_by_input_index sets one after the other. The
second has a batch, in which each picture has an area of its own.
"""

import acl
import numpy as np

ACL_DATA_WITH_DYNAMIC_AIPP = 2
ACL_RGB888_U8, ACL_YUV400_U8 = 3, 4


def aipp_of(batch, width, height, form):
    aipp = acl.mdl.create_aipp(batch)
    rets = [acl.mdl.set_aipp_src_image_size(aipp, width, height), acl.mdl.set_aipp_input_format(aipp, form)]
    assert rets == [0, 0], rets
    return aipp


def run():
    acl.init()
    acl.rt.set_device(0)
    model_id, ret = acl.mdl.load_from_file("two.om")
    assert ret == 0, ret
    desc = acl.mdl.create_desc()
    acl.mdl.get_desc(desc, model_id)
    inputs, outputs, memory = acl.mdl.create_dataset(), acl.mdl.create_dataset(), []
    sizes = [acl.mdl.get_input_size_by_index(desc, index) for index in range(acl.mdl.get_num_inputs(desc))]
    for dataset, size in [*((inputs, size) for size in sizes), (outputs, acl.mdl.get_output_size_by_index(desc, 0))]:
        pointer, ret = acl.rt.malloc(size, 0)
        acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(pointer, size))
        memory.append(pointer)

    kinds = [acl.mdl.get_aipp_type(model_id, index)[:2] for index in range(len(sizes))]
    print("kinds:", kinds)
    need_dynamic_aipp = [index for index, (kind, _) in enumerate(kinds) if kind == ACL_DATA_WITH_DYNAMIC_AIPP]

    first = aipp_of(1, 4, 4, ACL_RGB888_U8)
    acl.mdl.set_aipp_rbuv_swap_switch(first, 1)
    acl.mdl.set_aipp_padding_params(first, 1, 1, 0, 0, 2, 0)
    ret = acl.mdl.set_aipp_by_input_index(model_id, inputs, need_dynamic_aipp[0], first)
    assert ret == 0, acl.get_recent_err_msg()
    acl.mdl.destroy_aipp(first)
    second = aipp_of(2, 6, 6, ACL_YUV400_U8)
    for batch in range(2):
        acl.mdl.set_aipp_crop_params(second, 1, batch, batch + 1, 4, 4, batch)
        acl.mdl.set_aipp_pixel_var_reci(second, 0.5 + batch, 1.0, 1.0, 1.0, batch)
    ret = acl.mdl.set_aipp_by_input_index(model_id, inputs, need_dynamic_aipp[1], second)
    assert ret == 0, acl.get_recent_err_msg()
    acl.mdl.destroy_aipp(second)

    pictures = np.arange(48, dtype=np.uint8), np.zeros(1, np.int32), np.arange(72, dtype=np.uint8)
    for pointer, picture, size in zip(memory, pictures, sizes, strict=False):
        acl.rt.memset(pointer, size, 0, size)
        acl.rt.memcpy(pointer, size, acl.util.numpy_to_ptr(picture), picture.nbytes, 1)
    stream, ret = acl.rt.create_stream()
    assert acl.mdl.execute_async(model_id, inputs, outputs, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    result = np.zeros(4, np.float32)
    acl.rt.memcpy(acl.util.numpy_to_ptr(result), 16, memory[-1], 16, 2)
    print("sums:", result.tolist())
    for dataset in (inputs, outputs):
        for index in range(acl.mdl.get_dataset_num_buffers(dataset)):
            acl.destroy_data_buffer(acl.mdl.get_dataset_buffer(dataset, index))
        acl.mdl.destroy_dataset(dataset)
    for pointer in memory:
        acl.rt.free(pointer)
    acl.rt.destroy_stream(stream)
    acl.mdl.destroy_desc(desc)
    acl.mdl.unload(model_id)
    acl.rt.reset_device(0)
    acl.finalize()


run()
