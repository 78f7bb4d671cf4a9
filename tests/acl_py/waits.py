"""Kernels in PTX that wait: for a flag, for a time, for other blocks."""

import numpy as np

import acl_py as acl
from acl_py import MemcpyKind, ptx

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
CYCLES_PER_MS = 1_980_000  # of an H200


def kernel(name, body, more=""):
    """The text of a kernel that gets an address in %y, and in %z with *more* of them."""
    given = ", ".join(f".param .u64 p{number}" for number in range(1 + len(more)))
    loads = "".join(f".reg .u64 %{each}; ld.param.u64 %{each}, [p{number}]; " for number, each in enumerate("y" + more))
    return (
        f".visible .entry {name}({given}) {{ {loads}\n"
        ".reg .pred %p; .reg .u32 %r, %t, %b, %n; .reg .u64 %c, %d, %e;\n"
        f"{body}\nret; }}\n"
    )


SPIN = kernel("spin", "L: ld.volatile.global.u32 %r, [%y]; setp.eq.u32 %p, %r, 0; @%p bra L; st.global.u32 [%y+4], %r;")
SET = kernel("set", "st.volatile.global.u32 [%y], 1;")
DELAY = kernel(
    "delay",
    f"""mov.u64 %c, %clock64;
    L: mov.u64 %d, %clock64; sub.u64 %d, %d, %c; setp.lt.u64 %p, %d, {20 * CYCLES_PER_MS}; @%p bra L;
    st.global.u64 [%y], %d;""",
)


async def load(*texts):
    """Load kernels as one module."""
    return await ptx.load(HEAD + "".join(texts))


async def zeros(nbytes=64):
    """Return device memory of zeros."""
    buffer = await acl.Malloc(nbytes)
    await acl.Memset(buffer, nbytes, 0, nbytes)
    return buffer


async def numbers(buffer, dtype, count):
    """Return the first numbers in device memory."""
    held = np.zeros(count, dtype)
    await acl.Memcpy(held, held.nbytes, buffer, held.nbytes, MemcpyKind.DEVICE_TO_HOST)
    return held.tolist()


def run(main, **options):
    """Run *main* on an H200."""
    return acl.run(main, device="h200", rules="cuda", **options)
