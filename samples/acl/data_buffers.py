"""Shows: data buffers, datasets and tensor descriptions: their contents, and how to change them.

Scenario: the bookkeeping of all inference code, without an inference.
"""

import acl
import numpy as np

ACL_FLOAT, ACL_INT8, ACL_FORMAT_NCHW, ACL_FORMAT_ND = 0, 2, 0, 2
ACL_MEM_MALLOC_NORMAL_ONLY = 2


def check(ret):
    assert ret == 0, f"ret={ret}"


check(acl.init())
check(acl.rt.set_device(0))

sizes = [64, 256, 1024]
memory = []
dataset = acl.mdl.create_dataset()
for size in sizes:
    pointer, ret = acl.rt.malloc(size, ACL_MEM_MALLOC_NORMAL_ONLY)
    check(ret)
    memory.append(pointer)
    _, ret = acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(pointer, size))
    check(ret)

count = acl.mdl.get_dataset_num_buffers(dataset)
buffers = [acl.mdl.get_dataset_buffer(dataset, index) for index in range(count)]
print("buffers:", count, "sizes:", [acl.get_data_buffer_size_v2(buffer) for buffer in buffers])
print("addresses are those of the memory:", [acl.get_data_buffer_addr(buffer) for buffer in buffers] == memory)

check(acl.update_data_buffer(buffers[0], memory[2], 512))
print("updated:", acl.get_data_buffer_addr(buffers[0]) == memory[2], acl.get_data_buffer_size(buffers[0]))

desc = acl.create_tensor_desc(ACL_FLOAT, [1, 3, 4, 5], ACL_FORMAT_NCHW)
acl.set_tensor_desc_name(desc, "pictures")
print("name:", acl.get_tensor_desc_name(desc))
print("dims:", [acl.get_tensor_desc_dim_v2(desc, i)[0] for i in range(acl.get_tensor_desc_num_dims(desc))])
print("elements:", acl.get_tensor_desc_element_count(desc), "bytes:", acl.get_tensor_desc_size(desc))
print("type and format:", acl.get_tensor_desc_type(desc), acl.get_tensor_desc_format(desc))
check(acl.set_tensor_format(desc, ACL_FORMAT_ND))
acl.destroy_tensor_desc(desc)

print("bytes of an int8 and a float:", acl.data_type_size(ACL_INT8), acl.data_type_size(ACL_FLOAT))
print("one half as 16 bits:", hex(acl.float_to_float16(0.5)), acl.float16_to_float(0x3800))

# A data buffer may also have host memory.
array = np.zeros(16, np.float32)
pointer, array = acl.util.numpy_contiguous_to_ptr(array)
buffer = acl.create_data_buffer(pointer, array.nbytes)
view = acl.util.ptr_to_numpy(acl.get_data_buffer_addr(buffer), (4, 4), 11)
view[1] = 7
print("through the address:", array.sum())
check(acl.destroy_data_buffer(buffer))

for buffer in buffers:
    check(acl.destroy_data_buffer(buffer))
check(acl.mdl.destroy_dataset(dataset))
for pointer in memory:
    check(acl.rt.free(pointer))
check(acl.rt.reset_device(0))
check(acl.finalize())
