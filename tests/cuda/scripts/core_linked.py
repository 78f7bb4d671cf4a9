"""Kernels of which parts were compiled apart: linked as PTX, as intermediate code, and as machine code."""

from cuda.bindings import runtime
from cuda.core import Device, LaunchConfig, Linker, LinkerOptions, Program, ProgramOptions, launch

KERNEL = """
extern __device__ int changed(int);
extern "C" __global__ void change(int *x) { x[threadIdx.x] = changed(x[threadIdx.x]); }
"""
FUNCTION = """
static __device__ int step = 5;
__device__ int changed(int x) { return 3 * x + step; }
"""
VALUES = range(64)


def compiled(text, kind):
    options = ProgramOptions(relocatable_device_code=True, link_time_optimization=True if kind == "ltoir" else None)
    return Program(text, "c++", options).compile(kind)


def changed(parts, **options):
    """What the linked kernel makes of the values."""
    kernel = (
        Linker(*parts, options=LinkerOptions(arch=f"sm_{device.arch}", **options)).link("cubin").get_kernel("change")
    )
    values = bytearray(b"".join(each.to_bytes(4, "little") for each in VALUES))
    stream = device.create_stream()
    memory = device.allocate(len(values), stream=stream)
    stream.sync()
    runtime.cudaMemcpy(int(memory.handle), values, len(values), runtime.cudaMemcpyKind.cudaMemcpyHostToDevice)
    runtime.cudaDeviceSynchronize()
    launch(stream, LaunchConfig(grid=1, block=len(VALUES)), kernel, memory)
    stream.sync()
    runtime.cudaMemcpy(values, int(memory.handle), len(values), runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost)
    memory.close()
    return list(memoryview(values).cast("i"))


device = Device()
device.set_current()
results = [
    changed([compiled(text, "ptx") for text in (KERNEL, FUNCTION)], max_register_count=32),
    changed([compiled(text, "cubin") for text in (FUNCTION, KERNEL)]),
    changed([compiled(text, "ltoir") for text in (KERNEL, FUNCTION)], link_time_optimization=True),
    changed([compiled(KERNEL, "ltoir"), compiled(FUNCTION, "ptx")], link_time_optimization=True),
]
print("right" if results == [[3 * each + 5 for each in VALUES]] * 4 else results)
