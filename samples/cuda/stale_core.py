"""Shows: a missing synchronisation in cuda.core: the bytes that it reads, the finding with its lines, and a fix tried.

Scenario: a kernel counts in one stream. Another stream, which does not wait for it, copies its result to the host, and
gets the old bytes. Run it with `acl-py run --sanitize=device --fix stale_core.py`.
"""

import numpy as np
from cuda.core import Device, LaunchConfig, LegacyPinnedMemoryResource, Program, ProgramOptions, launch

CODE = """
extern "C" __global__ void count(volatile float* x, int steps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int step = 0; step < steps; step++) x[i] += 1;
}
"""
SIZE, STEPS = 1 << 14, 100

device = Device()
device.set_current()
compute = device.create_stream()
download = device.create_stream()
count = Program(CODE, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("ptx").get_kernel("count")
pinned = LegacyPinnedMemoryResource()
source = pinned.allocate(4 * SIZE, stream=compute)
result = pinned.allocate(4 * SIZE, stream=compute)
on_device = device.allocate(4 * SIZE, stream=compute)
numbers, answer = (np.from_dlpack(each).view(np.float32) for each in (source, result))
numbers[:] = 0
answer[:] = 0
on_device.copy_from(source, stream=compute)
compute.sync()

launch(compute, LaunchConfig(grid=SIZE // 256, block=256), count, on_device, np.int32(STEPS))
# missing: download.wait(compute)
on_device.copy_to(result, stream=download)
download.sync()
print(f"wanted {STEPS} in {SIZE:,} places, and {int((answer != STEPS).sum()):,} have something else: {answer[-1]}")
compute.sync()
