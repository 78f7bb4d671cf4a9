"""Shows: memory of host and device, copies in every direction, a stream. A card prints the same.

Scenario: the first test on a new machine. The argument is the number of the device, by default 0.
"""

import sys

import acl
import numpy as np

ACL_MEM_MALLOC_HUGE_FIRST = 0
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2
ACL_MEMCPY_DEVICE_TO_DEVICE = 3


def check(ret, what):
    if ret != 0:
        raise RuntimeError(f"{what} failed, ret={ret}")


def to_ptr(data):
    # Old versions have numpy_to_ptr only.
    if "bytes_to_ptr" in dir(acl.util):
        return acl.util.bytes_to_ptr(data)
    return acl.util.numpy_to_ptr(np.frombuffer(data, np.byte))


def main(device):
    check(acl.init(), "init")
    check(acl.rt.set_device(device), "set_device")
    mode, ret = acl.rt.get_run_mode()
    check(ret, "get_run_mode")
    print("run mode:", "host" if mode == 1 else "device")

    values = np.arange(1024, dtype=np.int32)
    size = values.nbytes
    first, ret = acl.rt.malloc(size, ACL_MEM_MALLOC_HUGE_FIRST)
    check(ret, "malloc")
    second, ret = acl.rt.malloc(size, ACL_MEM_MALLOC_HUGE_FIRST)
    check(ret, "malloc")

    # The blocking way: host memory of any kind.
    source = values.tobytes()
    check(acl.rt.memcpy(first, size, to_ptr(source), size, ACL_MEMCPY_HOST_TO_DEVICE), "memcpy")
    check(acl.rt.memcpy(second, size, first, size, ACL_MEMCPY_DEVICE_TO_DEVICE), "memcpy")
    back = bytes(size)
    check(acl.rt.memcpy(to_ptr(back), size, second, size, ACL_MEMCPY_DEVICE_TO_HOST), "memcpy")
    print("there and back:", np.array_equal(np.frombuffer(back, np.int32), values))

    # The asynchronous way: pinned host memory and a stream.
    stream, ret = acl.rt.create_stream()
    check(ret, "create_stream")
    pinned, ret = acl.rt.malloc_host(size)
    check(ret, "malloc_host")
    check(acl.rt.memset_async(first, size, 1, size, stream), "memset_async")
    check(acl.rt.memcpy_async(pinned, size, first, size, ACL_MEMCPY_DEVICE_TO_HOST, stream), "memcpy_async")
    check(acl.rt.synchronize_stream(stream), "synchronize_stream")
    print("set to ones:", set(acl.util.ptr_to_bytes(pinned, size)))

    check(acl.rt.free_host(pinned), "free_host")
    check(acl.rt.destroy_stream(stream), "destroy_stream")
    check(acl.rt.free(first), "free")
    check(acl.rt.free(second), "free")
    check(acl.rt.reset_device(device), "reset_device")
    check(acl.finalize(), "finalize")


main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
