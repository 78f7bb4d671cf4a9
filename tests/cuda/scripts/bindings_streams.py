"""Two streams, an event, and a function of the host, by cuda.bindings."""

import ctypes

from cuda.bindings import driver


def checked(answer):
    """The results of a call that must not fail."""
    error, *results = answer
    assert error == driver.CUresult.CUDA_SUCCESS, driver.cuGetErrorName(error)
    return results[0] if len(results) == 1 else results


checked(driver.cuInit(0))
device = checked(driver.cuDeviceGet(0))
checked(driver.cuCtxSetCurrent(checked(driver.cuDevicePrimaryCtxRetain(device))))
first, second = (checked(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)) for _ in range(2))
event = checked(driver.cuEventCreate(0))
memory = checked(driver.cuMemAlloc(1024))
host = checked(driver.cuMemAllocHost(1024))
calls = []
function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(calls.append)

checked(driver.cuMemsetD8Async(memory, 5, 1024, first))
checked(driver.cuEventRecord(event, first))
checked(driver.cuStreamWaitEvent(second, event, 0))
checked(driver.cuMemcpyDtoHAsync(host, memory, 1024, second))
checked(driver.cuLaunchHostFunc(second, ctypes.cast(function, ctypes.c_void_p).value, 7))
checked(driver.cuStreamSynchronize(second))
is_right = ctypes.string_at(host, 1024) == bytes([5]) * 1024 and calls == [7]
for stream in (first, second):
    checked(driver.cuStreamDestroy(stream))
checked(driver.cuEventDestroy(event))
checked(driver.cuMemFree(memory))
checked(driver.cuMemFreeHost(host))
print("right" if is_right else "wrong")
