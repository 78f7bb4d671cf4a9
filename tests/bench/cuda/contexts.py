"""What destroying a context, or resetting the device, waits for: run it on a card, with cuda.bindings.

A kernel behind the others writes a mark into the host's memory, so the output shows whether they ran.
"""

import ctypes
import mmap
import time

import numpy as np
from cuda.bindings import driver, nvrtc, runtime

SOURCE = rb"""
extern "C" __global__ void spin(long long ns) {
  long long now, end;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  end = now + ns;
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); while (now < end);
}
extern "C" __global__ void mark(volatile int *place, int value) { *place = value; __threadfence_system(); }
"""
BOX = mmap.mmap(-1, 4096)
MARK = np.frombuffer(BOX, dtype=np.int32)


def ok(answer):
    assert int(answer[0]) == 0, answer[0]
    return answer[1] if len(answer) > 1 else None


def compiled():
    program = ok(nvrtc.nvrtcCreateProgram(SOURCE, b"contexts.cu", 0, [], []))
    ok(nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=sm_90"]))
    code = b" " * ok(nvrtc.nvrtcGetPTXSize(program))
    ok(nvrtc.nvrtcGetPTX(program, code))
    return code


def busy(code, kernels):
    """Queue *kernels* of 10 ms and the mark in a new stream of the current context. Return it, and when that began."""
    module = ok(driver.cuModuleLoadData(code))
    spin, mark = (ok(driver.cuModuleGetFunction(module, name)) for name in (b"spin", b"mark"))
    MARK[0] = 0
    ok(driver.cuMemHostRegister(MARK.ctypes.data, 4096, driver.CU_MEMHOSTREGISTER_DEVICEMAP))
    place = int(ok(driver.cuMemHostGetDevicePointer(MARK.ctypes.data, 0)))
    stream = ok(driver.cuStreamCreate(1))

    def launch(kernel, values, types):
        ok(driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, (values, types), 0))

    launch(spin, (1_000,), (ctypes.c_longlong,))  # the first launch loads the kernel
    ok(driver.cuStreamSynchronize(stream))
    begin = time.perf_counter()
    for _ in range(kernels):
        launch(spin, (10_000_000,), (ctypes.c_longlong,))
    launch(mark, (place, 7), (ctypes.c_void_p, ctypes.c_int))
    return stream, begin


def timed(what, begin, call):
    entered = time.perf_counter()
    ok(call())
    left = time.perf_counter()
    at_once = int(MARK[0])
    time.sleep(0.3)
    print(
        f"{what}: the call took {1000 * (left - entered):6.2f} ms, and ended {1000 * (left - begin):6.2f} ms after the "
        f"queue began; the mark was {at_once}, and then {MARK[0]}"
    )


def main():
    code = compiled()
    ok(driver.cuInit(0))
    device = ok(driver.cuDeviceGet(0))
    for kernels in (0, 1, 5, 20):
        context = ok(driver.cuCtxCreate(None, 0, device))
        _, begin = busy(code, kernels)
        timed(f"cuCtxDestroy, {kernels} kernels of 10 ms", begin, lambda context=context: driver.cuCtxDestroy(context))
    for kernels in (0, 1, 5, 20):
        ok(runtime.cudaFree(0))
        _, begin = busy(code, kernels)
        timed(f"cudaDeviceReset, {kernels} kernels of 10 ms", begin, runtime.cudaDeviceReset)
    ok(runtime.cudaFree(0))
    stream, begin = busy(code, 5)
    timed("cuStreamDestroy, 5 kernels of 10 ms", begin, lambda: driver.cuStreamDestroy(stream))


if __name__ == "__main__":
    main()
