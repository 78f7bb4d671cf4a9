"""Dynamic AIPP behind a class with properties, which raises on each code: the form of a library of inference."""

import acl
import numpy as np

NPY_FLOAT = 11


class Aipp:
    def __init__(self, batch=1):
        self._aipp = acl.mdl.create_aipp(batch)
        if not self._aipp:
            raise ValueError("create aipp failed")

    def _check(self, what, ret):
        if ret != 0:
            raise ValueError(f"set aipp {what} failed, return {ret}.")

    def set(self, shape, form, means, var):
        self._check("shape", acl.mdl.set_aipp_src_image_size(self._aipp, *shape))
        self._check("format", acl.mdl.set_aipp_input_format(self._aipp, form))
        self._check("ax", acl.mdl.set_aipp_ax_swap_switch(self._aipp, 1))
        self._check("means", acl.mdl.set_aipp_dtc_pixel_mean(self._aipp, *means, 0, 0))
        self._check("var", acl.mdl.set_aipp_pixel_var_reci(self._aipp, *var, 1.0, 0))
        return self._aipp

    def __del__(self):
        acl.mdl.destroy_aipp(self._aipp)


acl.init()
acl.rt.set_device(0)
model, ret = acl.mdl.load_from_file("one.om")
desc = acl.mdl.create_desc()
acl.mdl.get_desc(desc, model)
names = [acl.mdl.get_input_name_by_index(desc, index) for index in range(acl.mdl.get_num_inputs(desc))]
print("names:", names, "bytes of parameters:", acl.mdl.get_aipp_data_size(1)[0])
buffers = []
dataset, results = acl.mdl.create_dataset(), acl.mdl.create_dataset()
for size in [acl.mdl.get_input_size_by_index(desc, index) for index in range(2)]:
    buffers.append(acl.create_data_buffer(acl.rt.malloc(size, 0)[0], size))
    acl.mdl.add_dataset_buffer(dataset, buffers[-1])
buffers.append(acl.create_data_buffer(acl.rt.malloc(12, 0)[0], 12))
acl.mdl.add_dataset_buffer(results, buffers[-1])
picture = np.zeros((8, 8, 4), np.uint8)
picture[...] = 99, 10, 20, 30  # X, R, G, B
size = acl.get_data_buffer_size(buffers[0])
acl.rt.memset(acl.get_data_buffer_addr(buffers[0]), size, 0, size)
acl.rt.memcpy(acl.get_data_buffer_addr(buffers[0]), size, acl.util.numpy_to_ptr(picture), picture.nbytes, 1)
try:
    Aipp(1).set((8, 8), 7, (0, 0, 0), (1.0, 1.0, 1.0))
except ValueError as error:
    print(error)
aipp = Aipp()
for means in ((0, 0, 0), (10, 10, 10)):
    ret = acl.mdl.set_input_aipp(model, dataset, 1, aipp.set((8, 8), 2, means, (0.5, 1.0, 2.0)))
    assert ret == 0, acl.get_recent_err_msg()
    assert acl.mdl.execute(model, dataset, results) == 0
    host = acl.rt.malloc_host(12)[0]
    acl.rt.memcpy(host, 12, acl.get_data_buffer_addr(buffers[-1]), 12, 2)
    print("means:", acl.util.ptr_to_numpy(host, (3,), NPY_FLOAT).tolist())
    acl.rt.free_host(host)
del aipp
for buffer in buffers:
    acl.rt.free(acl.get_data_buffer_addr(buffer))
    acl.destroy_data_buffer(buffer)
acl.mdl.destroy_dataset(dataset)
acl.mdl.destroy_dataset(results)
acl.mdl.destroy_desc(desc)
acl.mdl.unload(model)
acl.rt.reset_device(0)
acl.finalize()
