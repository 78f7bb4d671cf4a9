"""Static AIPP of a model with dynamic batch: RGB pictures as a camera gives them, as many as there are."""

import acl
import numpy as np

acl.init()
acl.rt.set_device(0)
model, ret = acl.mdl.load_from_file("batch.om")
assert ret == 0, acl.get_recent_err_msg()
desc = acl.mdl.create_desc()
acl.mdl.get_desc(desc, model)
print("dims:", acl.mdl.get_input_dims(desc, 0)[0]["dims"], "of", acl.mdl.get_input_size_by_index(desc, 0), "bytes")
index, ret = acl.mdl.get_input_index_by_name(desc, "ascend_mbatch_shape_data")
sizes = [acl.mdl.get_input_size_by_index(desc, each) for each in range(acl.mdl.get_num_inputs(desc))]
given, wanted = acl.mdl.create_dataset(), acl.mdl.create_dataset()
sizes.append(acl.mdl.get_output_size_by_index(desc, 0))
memory = [acl.rt.malloc(size, 2)[0] for size in sizes]
for place, (pointer, size) in enumerate(zip(memory, sizes, strict=True)):
    acl.mdl.add_dataset_buffer(given if place < 2 else wanted, acl.create_data_buffer(pointer, size))
for batch in (1, 4):
    pictures = np.stack([np.full((4, 6, 3), 10 * (each + 1), np.uint8) for each in range(batch)])
    acl.rt.memcpy(memory[0], sizes[0], acl.util.numpy_to_ptr(pictures), pictures.nbytes, 1)
    assert acl.mdl.set_dynamic_batch_size(model, given, index, batch) == 0
    assert acl.mdl.execute(model, given, wanted) == 0
    result = np.zeros(batch, np.float32)
    acl.rt.memcpy(acl.util.numpy_to_ptr(result), result.nbytes, memory[-1], result.nbytes, 2)
    print("means:", result.tolist())
for dataset in (given, wanted):
    for place in range(acl.mdl.get_dataset_num_buffers(dataset)):
        acl.destroy_data_buffer(acl.mdl.get_dataset_buffer(dataset, place))
    acl.mdl.destroy_dataset(dataset)
for pointer in memory:
    acl.rt.free(pointer)
acl.mdl.destroy_desc(desc)
acl.mdl.unload(model)
acl.rt.reset_device(0)
acl.finalize()
