"""Calls of the driver in C, as a program makes them: with ctypes and nothing else.

cuda = Cuda()
cuda("cuInit", 0)                                         # the code
code, stream = cuda.get("cuStreamCreate", OUT, 0)         # the code, and what was written
"""

import ctypes

OUT = object()  # stands for the address of 8 bytes, of which the call writes some
PTX = """
.version 8.0
.target sm_90
.address_size 64
.global .align 4 .u32 counter[2];
.visible .entry add(.param .u64 x, .param .u32 value, .param .u32 n)
{
    .reg .pred %p; .reg .u32 %i, %b, %t, %n, %v, %w; .reg .u64 %x, %o;
    mov.u32 %b, %ctaid.x; mov.u32 %t, %ntid.x; mov.u32 %i, %tid.x; mad.lo.u32 %i, %b, %t, %i;
    ld.param.u32 %n, [n]; setp.ge.u32 %p, %i, %n; @%p ret;
    ld.param.u64 %x, [x]; ld.param.u32 %v, [value]; mul.wide.u32 %o, %i, 4; add.u64 %x, %x, %o;
    ld.global.u32 %w, [%x]; add.u32 %w, %w, %v; st.global.u32 [%x], %w; ret;
}
"""
EMPTY = ".version 8.0 .target sm_90 .address_size 64 .visible .entry empty() { ret; }"


class Cuda:
    """The library that the loader gives for *soname*; calls of its functions return their codes."""

    def __init__(self, soname="libcuda.so.1"):
        self.library = ctypes.CDLL(soname)

    def __call__(self, name, *args):
        """Call the function *name*. Ints are passed with 64 bits, which does for each kind of number."""
        function = self.library[name]
        return function(*[ctypes.c_uint64(each) if isinstance(each, int) else each for each in args])

    def get(self, name, *args):
        """Call with places for results where OUT is; return the code, and the unsigned numbers found there."""
        places = [ctypes.c_uint64() for each in args if each is OUT]
        left = iter(places)
        code = self(name, *[ctypes.byref(next(left)) if each is OUT else each for each in args])
        return code, *[place.value for place in places]

    def begin(self, device=0):
        """Make the primary context of *device* current."""
        assert self("cuInit", 0) == 0
        code, context = self.get("cuDevicePrimaryCtxRetain", OUT, device)
        assert (code, self("cuCtxSetCurrent", context)) == (0, 0)
        return context

    def allocate(self, nbytes):
        """Return the address of new memory of the device."""
        code, address = self.get("cuMemAlloc_v2", OUT, nbytes)
        assert code == 0
        return address

    def function(self, text=PTX, name=b"add"):
        """Return the handle of a kernel in *text*."""
        code, module = self.get("cuModuleLoadData", OUT, text.encode())
        assert code == 0
        code, function = self.get("cuModuleGetFunction", OUT, module, name)
        assert code == 0
        return function


def pointers(*values):
    """Return the array of addresses that a launch takes, over *values* of ctypes, which it keeps alive."""
    array = (ctypes.c_void_p * len(values))(*(ctypes.addressof(each) for each in values))
    array.kept = values
    return array
