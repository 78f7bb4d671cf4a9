"""A kernel in CUDA C++, compiled to machine code and launched by cuda.core."""

import numpy as np
from cuda.core import Device, LaunchConfig, LegacyPinnedMemoryResource, Program, ProgramOptions, launch

CODE = """
template<typename T> __global__ void add(const T* a, const T* b, T* c, size_t n) {
    size_t i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) c[i] = a[i] + b[i];
}
"""
SIZE = 5000

device = Device()
device.set_current()
stream = device.create_stream()
options = ProgramOptions(std="c++17", arch=f"sm_{device.arch}")
kernel = Program(CODE, code_type="c++", options=options).compile("cubin", name_expressions=("add<float>",))
kernel = kernel.get_kernel("add<float>")

pinned = LegacyPinnedMemoryResource()
on_host = [pinned.allocate(4 * SIZE, stream=stream) for _ in range(3)]
a, b, c = (np.from_dlpack(each).view(np.float32) for each in on_host)
a[:], b[:], c[:] = np.arange(SIZE), 2, 0
on_device = [device.allocate(4 * SIZE, stream=stream) for _ in range(3)]
for target, source in zip(on_device[:2], on_host[:2], strict=True):
    target.copy_from(source, stream=stream)
launch(stream, LaunchConfig(grid=(SIZE + 255) // 256, block=256), kernel, *on_device, np.uint64(SIZE))
on_device[2].copy_to(on_host[2], stream=stream)
stream.sync()
print("right" if np.array_equal(c, a + b) else "wrong")
