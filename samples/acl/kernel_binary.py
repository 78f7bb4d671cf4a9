"""Shows: a binary of kernels: load it, get its functions, append arguments, a placeholder for the tiling, launch.

Scenario: z = x + y by an Ascend C kernel on 8 vector cores, then z = 3 z by one whose arguments are on the device.
"""

import os

import acl
import numpy as np

ACL_MEM_MALLOC_HUGE_FIRST = 0
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2
BINARY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernels", "add_custom.o")
BLOCKS, TILES, TILE = 8, 4, 2048
LENGTH = BLOCKS * TILES * TILE


def check(ret, what):
    if ret != 0:
        raise RuntimeError(f"{what}: ret={ret}: {acl.get_recent_err_msg()}")


def made(answer, what):
    thing, ret = answer
    check(ret, what)
    return thing


def device_memory(size, data=None):
    address = made(acl.rt.malloc(size, ACL_MEM_MALLOC_HUGE_FIRST), "malloc")
    if data is not None:
        check(acl.rt.memcpy(address, size, acl.util.bytes_to_ptr(data), size, ACL_MEMCPY_HOST_TO_DEVICE), "memcpy")
    return address


def append(args, value):
    """Append bytes at a host address: here those of a number."""
    data = value.tobytes()
    made(acl.rt.kernel_args_append(args, acl.util.bytes_to_ptr(data), len(data)), "kernel_args_append")


def add(function, x, y, z, stream):
    args = made(acl.rt.kernel_args_init(function), "kernel_args_init")
    for address in (x, y, z):
        append(args, np.uint64(address))
    tiling = made(acl.rt.kernel_args_append_place_holder(args), "kernel_args_append_place_holder")
    buffer = made(acl.rt.kernel_args_get_place_holder_buffer(args, tiling, 8), "kernel_args_get_place_holder_buffer")
    acl.util.ptr_to_numpy(buffer, (2,), np.dtype(np.uint32).num)[:] = LENGTH, TILES
    check(acl.rt.kernel_args_finalize(args), "kernel_args_finalize")
    check(acl.rt.launch_kernel_with_config(function, BLOCKS, stream, [], args, 0), "launch_kernel_with_config")


def main():
    check(acl.init(), "init")
    check(acl.rt.set_device(0), "set_device")
    stream = made(acl.rt.create_stream(), "create_stream")
    binary = made(acl.rt.binary_load_from_file(BINARY, []), "binary_load_from_file")
    function = made(acl.rt.binary_get_function(binary, "add_custom"), "binary_get_function")
    scale = made(acl.rt.binary_get_function(binary, "scale_custom"), "binary_get_function")
    print("functions:", *(made(acl.rt.get_function_name(each, 64), "get_function_name") for each in (function, scale)))

    rng = np.random.default_rng(8)
    x, y = (rng.integers(-99, 100, LENGTH).astype(np.float16) for _ in range(2))
    nbytes = x.nbytes
    x_device, y_device = device_memory(nbytes, x.tobytes()), device_memory(nbytes, y.tobytes())
    z_device = device_memory(nbytes)
    add(function, x_device, y_device, z_device, stream)

    # Each argument at a multiple of 8 bytes: the address, the factor, the length.
    arguments = b"".join(
        value.tobytes().ljust(8, b"\0") for value in (np.uint64(z_device), np.float32(3), np.uint32(LENGTH))
    )
    args_device = device_memory(len(arguments), arguments)
    check(acl.rt.launch_kernel(scale, 1, args_device, len(arguments), stream), "launch_kernel")
    check(acl.rt.synchronize_stream(stream), "synchronize_stream")

    result = bytes(nbytes)
    pointer = acl.util.bytes_to_ptr(result)
    check(acl.rt.memcpy(pointer, nbytes, z_device, nbytes, ACL_MEMCPY_DEVICE_TO_HOST), "memcpy")
    z = np.frombuffer(result, np.float16)
    print("3 * (x + y) as in NumPy:", np.array_equal(z, 3 * (x + y)))

    _, ret = acl.rt.binary_get_function(binary, "mul_custom")
    print(f"a kernel that is not in the binary: ret={ret}")
    check(acl.rt.binary_unload(binary), "binary_unload")
    print(
        f"a function of an unloaded binary: ret={acl.rt.launch_kernel(scale, 1, args_device, len(arguments), stream)}"
    )
    for address in (x_device, y_device, z_device, args_device):
        check(acl.rt.free(address), "free")
    check(acl.rt.destroy_stream(stream), "destroy_stream")
    check(acl.rt.reset_device(0), "reset_device")
    check(acl.finalize(), "finalize")


main()
