"""The device runtime: functions in PTX that a card's linker takes from a library when a text needs them.

A grid waits as cooperative groups do. One thread of each block adds to a counter, the first block adds so much that the
highest bit changes with the last arrival, and each block waits for this change. The next wait finds the counter ready.

Memory comes from a heap of the module, of the size that a card's heap has. One word has how many allocations there are,
and behind them where the free part begins. When the last allocation is given back, all of the heap is free again.
"""

import re

_NEEDED = re.compile(r"\.extern\s+\.func\s+(?:\([^)]*\)\s*)?(\w+)")
_HEAP_BYTES = 8 << 20
_HEAP = f"""
.global .align 16 .b8 acl_py_heap[{_HEAP_BYTES}];
.global .align 8 .u64 acl_py_heap_used;
"""
_FUNCTIONS = {
    "malloc": f"""
.visible .func (.param .b64 result) malloc(.param .b64 nbytes)
{{
    .reg .pred %p; .reg .b64 %n, %old, %new, %seen, %end, %place;
    ld.param.b64 %n, [nbytes]; mov.u64 %place, 0;
    setp.gt.u64 %p, %n, {_HEAP_BYTES}; @%p bra DONE;
    add.u64 %n, %n, 15; and.b64 %n, %n, -16;
    ld.volatile.global.u64 %old, [acl_py_heap_used];
AGAIN:
    and.b64 %end, %old, 0xFFFFFFFF; add.u64 %new, %end, %n;
    setp.gt.u64 %p, %new, {_HEAP_BYTES}; @%p bra DONE;
    add.u64 %new, %old, %n; add.u64 %new, %new, 0x100000000;
    atom.global.cas.b64 %seen, [acl_py_heap_used], %old, %new;
    setp.ne.u64 %p, %seen, %old; mov.u64 %old, %seen; @%p bra AGAIN;
    mov.u64 %place, acl_py_heap; cvta.global.u64 %place, %place; add.u64 %place, %place, %end;
DONE:
    st.param.b64 [result], %place; ret;
}}
""",
    "free": """
.visible .func free(.param .b64 place)
{
    .reg .pred %p; .reg .b64 %x, %old, %new, %seen;
    ld.param.b64 %x, [place]; setp.eq.u64 %p, %x, 0; @%p bra DONE;
    ld.volatile.global.u64 %old, [acl_py_heap_used];
AGAIN:
    sub.u64 %new, %old, 0x100000000; setp.lt.u64 %p, %new, 0x100000000; selp.b64 %new, 0, %new, %p;
    atom.global.cas.b64 %seen, [acl_py_heap_used], %old, %new;
    setp.ne.u64 %p, %seen, %old; mov.u64 %old, %seen; @%p bra AGAIN;
DONE:
    ret;
}
""",
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
    heap = _HEAP if {"malloc", "free"} & set(needed) else ""
    return "".join([text, heap, *(_FUNCTIONS[name] for name in needed)])
