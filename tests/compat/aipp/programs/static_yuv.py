"""Static AIPP in the manner of acllite: the picture of the image processor goes to the model as it is, in NV12."""

import acl
import numpy as np


class AclLiteModel:
    def __init__(self, path):
        self._model_id, ret = acl.mdl.load_from_file(path)
        assert ret == 0, ret
        self._desc = acl.mdl.create_desc()
        assert acl.mdl.get_desc(self._desc, self._model_id) == 0
        self._input_size = acl.mdl.get_input_size_by_index(self._desc, 0)
        self._output_size = acl.mdl.get_output_size_by_index(self._desc, 0)
        self._output, _ = acl.rt.malloc(self._output_size, 0)

    def execute(self, pointer, size):
        if size != self._input_size:
            raise ValueError(f"the input has {size} bytes, and the model wants {self._input_size}")
        given, wanted = acl.mdl.create_dataset(), acl.mdl.create_dataset()
        for dataset, address, nbytes in ((given, pointer, size), (wanted, self._output, self._output_size)):
            _, ret = acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(address, nbytes))
            assert ret == 0, ret
        assert acl.mdl.execute(self._model_id, given, wanted) == 0
        data = bytes(self._output_size)
        acl.rt.memcpy(acl.util.bytes_to_ptr(data), len(data), self._output, len(data), 2)
        for dataset in (given, wanted):
            acl.destroy_data_buffer(acl.mdl.get_dataset_buffer(dataset, 0))
            acl.mdl.destroy_dataset(dataset)
        return np.frombuffer(data, np.float32)

    def describe(self):
        dims, v2 = (each(self._desc, 0)[0]["dims"] for each in (acl.mdl.get_input_dims, acl.mdl.get_input_dims_v2))
        kind, _, _ = acl.mdl.get_aipp_type(self._model_id, 0)
        info, _ = acl.mdl.get_first_aipp_info(self._model_id, 0)
        print("input:", dims, v2, "type", acl.mdl.get_input_data_type(self._desc, 0), "AIPP", kind)
        print("source:", info["inputFormat"], info["srcImageSizeW"], info["srcImageSizeH"], info["outDims"][0])

    def destroy(self):
        acl.rt.free(self._output)
        acl.mdl.unload(self._model_id)
        acl.mdl.destroy_desc(self._desc)


acl.init()
acl.rt.set_device(0)
model = AclLiteModel("still.om")
model.describe()
frame = np.full(16 * 12 * 3 // 2, 128, np.uint8)
frame[: 16 * 12] = np.arange(16 * 12)
memory, _ = acl.media.dvpp_malloc(frame.nbytes)
acl.rt.memcpy(memory, frame.nbytes, acl.util.numpy_to_ptr(frame), frame.nbytes, 1)
print("sums:", model.execute(memory, frame.nbytes).tolist())
try:
    model.execute(memory, 16 * 12)
except ValueError as error:
    print(error)
acl.media.dvpp_free(memory)
model.destroy()
acl.rt.reset_device(0)
acl.finalize()
