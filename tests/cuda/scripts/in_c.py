"""A copy, a kernel and a copy back, with nothing but ctypes: `too_early` reads the result without a wait."""

import ctypes
import sys

PTX = b"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry twice(.param .u64 x)
{
    .reg .u32 %i, %w; .reg .u64 %x, %o;
    mov.u32 %i, %tid.x; ld.param.u64 %x, [x]; mul.wide.u32 %o, %i, 4; add.u64 %x, %x, %o;
    ld.global.u32 %w, [%x]; add.u32 %w, %w, %w; st.global.u32 [%x], %w; ret;
}
"""
COUNT = 256
cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *args):
    """Call a function; a code is an error."""
    code = cuda[name](*[ctypes.c_uint64(each) if isinstance(each, int) else each for each in args])
    if code:
        raise RuntimeError(f"{name} returned {code}")


def made(name, *args):
    """Call a function that writes a handle or an address, and return that."""
    result = ctypes.c_uint64()
    call(name, ctypes.byref(result), *args)
    return result.value


call("cuInit", 0)
call("cuCtxSetCurrent", made("cuDevicePrimaryCtxRetain", 0))
kernel = made("cuModuleGetFunction", made("cuModuleLoadData", PTX), b"twice")
work = made("cuStreamCreate", 1)
pageable = (ctypes.c_uint32 * COUNT)(*range(COUNT))
device = made("cuMemAlloc_v2", 4 * COUNT)
result = (ctypes.c_uint32 * COUNT).from_address(made("cuMemAllocHost_v2", 4 * COUNT))
call("cuMemcpyHtoDAsync_v2", device, pageable, 4 * COUNT, work)
argument = ctypes.c_uint64(device)
arguments = (ctypes.c_void_p * 1)(ctypes.addressof(argument))
call("cuLaunchKernel", kernel, 1, 1, 1, COUNT, 1, 1, 0, work, arguments, None)
call("cuMemcpyDtoHAsync_v2", result, device, 4 * COUNT, work)
if "too_early" not in sys.argv:
    call("cuStreamSynchronize", work)
is_right = list(result) == [2 * each for each in range(COUNT)]
call("cuCtxSynchronize")
call("cuStreamDestroy_v2", work)
call("cuMemFree_v2", device)
call("cuMemFreeHost", result)
print("right" if is_right else "wrong")


def check():
    """Whether the result was right."""
    return is_right
