"""A subscription as the vendor's guide has it: a thread reads what each execution took from a pipe."""

import os

import acl

ACL_AICORE_NONE = 0xFF


def read_records(args):
    (descriptor,) = args
    size, ret = acl.prof.get_op_desc_size()
    assert ret == 0
    while True:
        data = os.read(descriptor, size * 10)
        if not data:
            break
        pointer = acl.util.bytes_to_ptr(data)
        number, ret = acl.prof.get_op_num(pointer, len(data))
        assert ret == 0, ret
        for index in range(number):
            model = acl.prof.get_model_id(pointer, len(data), index)
            kind, ret = acl.prof.get_op_type(pointer, len(data), index, 65)
            name, ret = acl.prof.get_op_name(pointer, len(data), index, 275)
            start = acl.prof.get_op_start(pointer, len(data), index)
            end = acl.prof.get_op_end(pointer, len(data), index)
            duration = acl.prof.get_op_duration(pointer, len(data), index)
            print(model == model_id, kind, name, end - start == duration, duration)


acl.init()
acl.rt.set_device(0)
model_id, ret = acl.mdl.load_from_file("net.om")
reading, writing = os.pipe()
thread, ret = acl.util.start_thread(read_records, [reading])
config = acl.prof.create_subscribe_config(1, ACL_AICORE_NONE, writing)
assert acl.prof.model_subscribe(model_id, config) == 0
given, wanted, pointers = acl.mdl.create_dataset(), acl.mdl.create_dataset(), []
for dataset in (given, wanted):
    pointer, ret = acl.rt.malloc(64, 0)
    acl.rt.memset(pointer, 64, 0, 64)
    acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(pointer, 64))
    pointers.append(pointer)
for _ in range(3):
    assert acl.mdl.execute(model_id, given, wanted) == 0
assert acl.prof.model_unsubscribe(model_id) == 0
assert acl.mdl.execute(model_id, given, wanted) == 0
assert acl.prof.destroy_subscribe_config(config) == 0
os.close(writing)
assert acl.util.stop_thread(thread) == 0
os.close(reading)
for dataset, pointer in zip((given, wanted), pointers, strict=True):
    acl.destroy_data_buffer(acl.mdl.get_dataset_buffer(dataset, 0))
    acl.mdl.destroy_dataset(dataset)
    acl.rt.free(pointer)
acl.mdl.unload(model_id)
acl.rt.reset_device(0)
acl.finalize()
