"""A script for Ascend cards: the stream of the copy back is not the one that is synchronised."""

import acl

N = 4096


def main():
    acl.init()
    acl.rt.set_device(0)
    device, _ = acl.rt.malloc(N, 0)
    host, _ = acl.rt.malloc_host(N)
    acl.rt.memset(host, N, 1, N)
    up, _ = acl.rt.create_stream()
    down, _ = acl.rt.create_stream()
    acl.rt.memcpy_async(device, N, host, N, 1, up)
    acl.rt.synchronize_stream(up)
    acl.rt.memset(host, N, 0, N)
    acl.rt.memcpy_async(host, N, device, N, 2, down)
    acl.rt.memcpy_async(device, N, host, N, 1, up)
    acl.rt.synchronize_stream(up)
    result = acl.util.ptr_to_bytes(host, N)
    acl.rt.synchronize_stream(down)
    acl.rt.reset_device(0)
    acl.finalize()
    return result


RESULT = main()


def is_copied():
    return bytes([1]) * N == RESULT
