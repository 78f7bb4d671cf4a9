"""Three models in a row, as a vision-language-action program has them: eyes, language, action.

The outline of a program that runs OpenVLA on a board. Each model reads what the one before wrote into an array of
Python, and writes into an array of Python; only the sum of all steps is in memory of acl. Steps repeat with new words.
"""

import os
import sys

import acl
import numpy as np


def check_ret(message, ret):
    if ret != 0:
        raise RuntimeError(f"{message} failed ret={ret}")


class Model:
    """A model whose data buffers lie on arrays of the program."""

    def __init__(self, path):
        self.model_id, ret = acl.mdl.load_from_file(path)
        check_ret(f"acl.mdl.load_from_file {path}", ret)
        self.desc = acl.mdl.create_desc()
        check_ret("acl.mdl.get_desc", acl.mdl.get_desc(self.desc, self.model_id))
        dims, ret = acl.mdl.get_output_dims(self.desc, 0)
        check_ret("acl.mdl.get_output_dims", ret)
        self.output = np.zeros(dims["dims"], np.float32)

    def __call__(self, *arrays):
        inputs, outputs = acl.mdl.create_dataset(), acl.mdl.create_dataset()
        for array in arrays:
            acl.mdl.add_dataset_buffer(
                inputs, acl.create_data_buffer(acl.util.bytes_to_ptr(array.tobytes()), array.nbytes)
            )
        pointer = acl.util.numpy_to_ptr(self.output)
        acl.mdl.add_dataset_buffer(outputs, acl.create_data_buffer(pointer, self.output.nbytes))
        check_ret("acl.mdl.execute", acl.mdl.execute(self.model_id, inputs, outputs))
        for dataset in (inputs, outputs):
            for index in range(acl.mdl.get_dataset_num_buffers(dataset)):
                check_ret("destroy", acl.destroy_data_buffer(acl.mdl.get_dataset_buffer(dataset, index)))
            check_ret("acl.mdl.destroy_dataset", acl.mdl.destroy_dataset(dataset))
        return self.output

    def release(self):
        check_ret("acl.mdl.destroy_desc", acl.mdl.destroy_desc(self.desc))
        check_ret("acl.mdl.unload", acl.mdl.unload(self.model_id))


def main(models):
    check_ret("acl.init", acl.init())
    check_ret("acl.rt.set_device", acl.rt.set_device(0))
    eyes, language, action = (Model(os.path.join(models, f"{name}.om")) for name in ("eyes", "language", "action"))
    picture = np.arange(2 * 3, dtype=np.float32).reshape(2, 3)
    features = eyes(picture).copy()
    for step in range(2):
        hidden = language(features, np.array([step], np.int64))
        print(f"step {step}:", action(hidden).tolist())
    for model in (eyes, language, action):
        model.release()
    check_ret("acl.rt.reset_device", acl.rt.reset_device(0))
    check_ret("acl.finalize", acl.finalize())


if __name__ == "__main__":
    main(*sys.argv[1:])
