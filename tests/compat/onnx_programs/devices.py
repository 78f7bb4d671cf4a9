"""Classify on all cards at once, and by hand with tensors of aclruntime."""

import aclruntime
import numpy as np
from ais_bench.infer.interface import MultiDeviceSession

DEVICES = [0, 1, 2]

random = np.random.default_rng(5)
pictures = {device: [[random.random((1, 3, 8, 8), np.float32)] for _ in range(2)] for device in DEVICES}
outputs = MultiDeviceSession("net.om").infer(pictures, mode="static")
options = aclruntime.session_options()
options.loop = 3
for device in DEVICES:
    session = aclruntime.InferenceSession("net.om", device, options)
    names = [meta.name for meta in session.get_outputs()]
    for feeds, (expected,) in zip(pictures[device], outputs[device], strict=True):
        tensor = aclruntime.Tensor(feeds[0])
        tensor.to_device(device)
        [result] = session.run(names, [tensor])
        result.to_host()
        print(device, result.shape, np.array_equal(np.array(result), expected))
    print(len(session.sumary().exec_time_list))
