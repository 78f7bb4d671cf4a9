"""Kernels for a card: one that does nothing, and one that lasts as long as it is told."""

SPIN = """
.version 7.0
.target sm_80
.address_size 64
.visible .entry nothing()
{
    ret;
}
.visible .entry spin(.param .u64 nanoseconds)
{
    .reg .u64 %end, %now, %left;
    .reg .pred %on;
    ld.param.u64 %left, [nanoseconds];
    mov.u64 %now, %globaltimer;
    add.u64 %end, %now, %left;
again:
    mov.u64 %now, %globaltimer;
    setp.lt.u64 %on, %now, %end;
    @%on bra again;
    ret;
}
"""
