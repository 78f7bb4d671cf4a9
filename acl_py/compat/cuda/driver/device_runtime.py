"""The device runtime: functions in PTX that a card's linker takes from a library when a text needs them.

A grid waits as cooperative groups do: one thread of each block adds to a counter, the first block adds so much that the
highest bit changes with the last arrival, and each block waits for this change. The next wait finds the counter ready.
"""

import re

_NEEDED = re.compile(r"\.extern\s+\.func\s+\([^)]*\)\s*(cudaCG\w+)")
_FUNCTIONS = {
    "cudaCGGetIntrinsicHandle": """
.visible .func (.param .b64 result) cudaCGGetIntrinsicHandle(.param .b32 scope)
{
    .reg .b64 %handle; cvt.u64.u32 %handle, 1; st.param.b64 [result], %handle; ret;
}
""",
    "cudaCGSynchronize": """
.global .align 4 .u32 acl_py_arrivals;
.visible .func (.param .b32 result) cudaCGSynchronize(.param .b64 handle, .param .b32 flags)
{
    .reg .pred %p; .reg .b32 %t, %u, %n, %m, %old, %new;
    barrier.sync 0;
    mov.u32 %t, %tid.x; mov.u32 %u, %tid.y; or.b32 %t, %t, %u; mov.u32 %u, %tid.z; or.b32 %t, %t, %u;
    setp.ne.u32 %p, %t, 0; @%p bra DONE;
    mov.u32 %n, %nctaid.x; mov.u32 %m, %nctaid.y; mul.lo.u32 %n, %n, %m; mov.u32 %m, %nctaid.z; mul.lo.u32 %n, %n, %m;
    sub.u32 %n, 0x80000001, %n;
    mov.u32 %t, %ctaid.x; mov.u32 %u, %ctaid.y; or.b32 %t, %t, %u; mov.u32 %u, %ctaid.z; or.b32 %t, %t, %u;
    setp.ne.u32 %p, %t, 0; selp.u32 %n, 1, %n, %p;
    fence.acq_rel.gpu;
    atom.global.add.u32 %old, [acl_py_arrivals], %n;
WAIT:
    ld.acquire.gpu.global.u32 %new, [acl_py_arrivals]; xor.b32 %new, %new, %old;
    setp.ge.s32 %p, %new, 0; @%p bra WAIT;
DONE:
    barrier.sync 0;
    mov.b32 %t, 0; st.param.b32 [result], %t; ret;
}
""",
}


def with_device_runtime(text: str) -> str:
    """Return *text* with those functions of the device runtime that it declares and does not have."""
    needed = sorted(set(_NEEDED.findall(text)) & _FUNCTIONS.keys())
    return "".join([text, *(_FUNCTIONS[name] for name in needed)])
