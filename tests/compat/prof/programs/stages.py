"""One window of profiling around a stage, in a class that raises on each code, as a benchmark of operators has it."""

import csv
import glob
from contextlib import contextmanager

import acl


class StageProfiler:
    def __init__(self, output, device_id=0):
        self.output, self.device_id = output, device_id
        self._config, self._active = None, False

    @staticmethod
    def _check(ret, what):
        if ret != 0:
            raise RuntimeError(f"acl.prof.{what} failed: {ret}")

    def __enter__(self):
        self._check(acl.prof.init(self.output), "init")
        self._config = acl.prof.create_config([self.device_id], 0xFF, 0, 0x3)
        if not self._config:
            raise RuntimeError("acl.prof.create_config returned a null config")
        return self

    @contextmanager
    def capture(self):
        acl.rt.synchronize_device()
        self._check(acl.prof.start(self._config), "start")
        self._active = True
        try:
            yield
        finally:
            acl.rt.synchronize_device()
            self._active = False
            self._check(acl.prof.stop(self._config), "stop")

    def __exit__(self, *_):
        self._check(acl.prof.destroy_config(self._config), "destroy_config")
        self._check(acl.prof.finalize(), "finalize")


acl.init()
acl.rt.set_device(0)
desc = acl.create_tensor_desc(0, [64], 2)
memory, _ = acl.rt.malloc(256, 0)
acl.rt.memset(memory, 256, 0, 256)
buffer, attributes = acl.create_data_buffer(memory, 256), acl.op.create_attr()


def operator(name, inputs):
    assert acl.op.execute_v2(name, [desc] * inputs, [buffer] * inputs, [desc], [buffer], attributes, 0) == 0


with StageProfiler("stage") as profiler:
    operator("Add", 2)  # to warm up, outside
    with profiler.capture():
        operator("Add", 2)
        operator("Relu", 1)
    operator("Mul", 2)
    with profiler.capture():
        operator("Relu", 1)
try:
    profiler.__exit__()
except RuntimeError as error:
    print(error)
(path,) = glob.glob("stage/PROF_*/mindstudio_profiler_output/op_summary_*.csv")
with open(path, newline="") as file:
    print([row["OP Type"] for row in csv.DictReader(file)])
acl.op.destroy_attr(attributes)
acl.destroy_data_buffer(buffer)
acl.destroy_tensor_desc(desc)
acl.rt.free(memory)
acl.rt.reset_device(0)
acl.finalize()
