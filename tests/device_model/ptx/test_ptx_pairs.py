"""Forms with more than one value: pairs of 16 bits, vectors of atomics, 128 bits, two results."""

import numpy as np
import pytest
from lanes import kernel, launch

from device_model.kernel.findings import KernelError
from device_model.ptx.text.errors import PtxError

TID = """
    .reg .u32 %t, %r, %s; .reg .u64 %a, %o; .reg .pred %p, %q; .reg .b32 %x, %y; .reg .b16 %h<4>; .reg .f32 %f<4>;
    .reg .b64 %d<4>; .reg .b128 %w<3>;
    mov.u32 %t, %tid.x; ld.param.u64 %a, [y];"""
Y = ".param .u64 y"


def ran(body, y, **options):
    launch(kernel(TID + body, Y), y, **options)
    return y


def bf16(value):
    """The bits of *value*, rounded to nearest."""
    bits = int(np.float32(value).view(np.uint32))
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def test_atomics_on_pairs_of_16_bits_take_the_lanes_in_their_order():
    body = """
        cvt.rn.f32.u32 %f0, %t; cvt.rn.f16x2.f32 %x, 0f3F800000, %f0; atom.global.add.noftz.f16x2 %y, [%a], %x;
        mad.wide.u32 %o, %t, 4, %a; st.global.b32 [%o+64], %y; cvt.rn.bf16x2.f32 %x, %f0, 0f40000000;
        red.global.add.noftz.bf16x2 [%a+4], %x; red.global.max.noftz.v2.f16x2 [%a+8], {%y, %x}; ret;"""
    y = ran(body, np.zeros(48 * 2, np.float16))
    total = 0.0
    for lane in range(32):
        total = float(np.uint32(bf16(total + lane) << 16).view(np.float32))
    sums = np.concatenate([[0], np.cumsum(np.arange(32))])
    assert y[:2].tolist() == [sums[-1], 32]
    assert y[32::2].tolist() == sums[:-1].tolist()
    assert y[33::2].tolist() == [*range(32)]
    assert y.view(np.uint16)[2:4].tolist() == [bf16(64), bf16(total)]
    assert y[4:6].tolist() == [sums[-2], 31]


def test_atomics_on_parts_of_vectors():
    body = """
        cvt.rn.f32.u32 %f0, %t; mov.f32 %f1, 0f3F800000;
        red.global.add.v2.f32 [%a], {%f0, %f1}; atom.global.add.v2.f32 {%f2, %f3}, [%a+8], {%f1, %f1};
        mad.wide.u32 %o, %t, 4, %a; st.global.f32 [%o+16], %f3; ret;"""
    y = ran(body, np.zeros(36, np.float32))
    assert y.tolist() == [496, 32, 32, 32, *range(32)]


def test_a_vector_of_atomics_that_is_not_aligned():
    with pytest.raises(KernelError, match="an access of 8 bytes at the address 0x1000000000000004"):
        ran("red.global.add.v2.f32 [%a+4], {0f3F800000, 0f3F800000}; ret;", np.zeros(4, np.float32))


def test_atomics_on_shared_memory_in_floats_and_16_bits():
    body = """
        .shared .align 8 .b8 s[16]; .reg .f64 %e; .reg .b16 %c;
        setp.eq.u32 %p, %t, 0; @%p st.shared.u64 [s], 0; @%p st.shared.u64 [s+8], 0; bar.sync 0;
        cvt.rn.f64.u32 %e, %t; red.shared.add.f64 [s], %e; cvt.rn.f32.u32 %f0, %t; red.shared.add.f32 [s+8], %f0;
        cvt.u16.u32 %h0, %t; atom.shared.cas.b16 %c, [s+12], 0, %h0; bar.sync 0;
        ld.shared.f64 %e, [s]; cvt.rzi.u32.f64 %r, %e; st.global.u32 [%a], %r;
        ld.shared.f32 %f0, [s+8]; cvt.rzi.u32.f32 %r, %f0; st.global.u32 [%a+4], %r;
        ld.shared.u16 %h0, [s+12]; cvt.u32.u16 %r, %h0; st.global.u32 [%a+8], %r; ret;"""
    assert ran(body, np.zeros(3, np.uint32)).tolist() == [496, 496, 1]


def test_values_of_128_bits_are_moved_loaded_stored_and_swapped():
    """Lane after lane swaps if it finds what it expects: its own number in the upper half."""
    body = """
        cvt.u64.u32 %d0, %t; add.u64 %d1, %d0, 1; mov.u64 %d2, 0; mov.b128 %w0, {%d2, %d0}; mov.b128 %w1, {%d2, %d1};
        atom.global.cas.b128 %w2, [%a], %w0, %w1; mov.b128 {%d2, %d3}, %w2;
        mad.wide.u32 %o, %t, 16, %a; st.global.b128 [%o+16], %w2; setp.lt.u32 %p, %t, 4; @%p exit;
        ld.global.b128 %w2, [%a]; mov.b128 {%d0, %d1}, %w2; st.global.u64 [%o+16], %d1; ret;"""
    y = ran(body, np.zeros((33, 2), np.uint64))
    assert y[0].tolist() == [0, 32]
    assert y[1:5].tolist() == [[0, n] for n in range(4)]
    assert y[5:].tolist() == [[32, n] for n in range(4, 32)]


def test_comparisons_of_pairs_have_two_results():
    """1 < 2 in the lower half, 3 < 3 in the upper."""
    body = """
        mov.b32 %x, 0x42003c00; mov.b32 %y, 0x42004000; setp.lt.f16x2 %p|%q, %x, %y;
        selp.u32 %r, 1, 0, %p; selp.u32 %s, 1, 0, %q; st.global.v2.u32 [%a], {%r, %s};
        setp.ge.and.f16x2 %p|%q, %x, %y, %p; selp.u32 %r, 1, 0, %p; selp.u32 %s, 1, 0, %q;
        st.global.v2.u32 [%a+8], {%r, %s};
        set.lt.f16x2.f16x2 %x, %x, %y; st.global.u32 [%a+16], %x;
        mov.b32 %x, 0x40403f80; mov.b32 %y, 0x40404000; set.eq.u32.bf16x2 %r, %x, %y; st.global.u32 [%a+20], %r; ret;"""
    y = ran(body, np.zeros(6, np.uint32), block=(1, 1, 1))
    assert y.tolist() == [1, 0, 0, 1, 0x3C00, 0xFFFF0000]


def test_logic_of_three_with_a_predicate_and_integers_packed_with_clamping():
    body = """
        setp.eq.u32 %p, %t, 0; lop3.and.b32 %r|%q, 12, 10, 0, 0xc0, %p; selp.u32 %s, 1, 0, %q;
        st.global.v2.u32 [%a], {%r, %s}; lop3.or.b32 %r|%q, 12, 3, 0, 0xc0, 0; selp.u32 %s, 1, 0, %q;
        st.global.v2.u32 [%a+8], {%r, %s};
        mov.u32 %r, -300; mov.u32 %s, 77; cvt.pack.sat.s8.s32.b32 %x, %r, %s, 0x1234; st.global.u32 [%a+16], %x;
        cvt.pack.sat.u16.s32 %x, 70000, %r; st.global.u32 [%a+20], %x; ret;"""
    y = ran(body, np.zeros(6, np.uint32), block=(1, 1, 1))
    assert y.tolist() == [8, 1, 0, 0, 0x1234804D, 0xFFFF0000]


def test_votes_and_matches_of_warps_without_sync():
    body = """
        setp.lt.u32 %p, %t, 3; vote.ballot.b32 %r, %p; vote.all.pred %q, %p; selp.u32 %s, 1, 0, %q;
        mad.wide.u32 %o, %t, 8, %a; st.global.v2.u32 [%o], {%r, %s}; ret;"""
    y = np.zeros((32, 2), np.uint32)
    launch(kernel(TID + body, Y).replace("8.0", "6.3").replace("sm_90", "sm_70"), y)  # newer texts have them with .sync
    assert y.tolist() == [[7, 0]] * 32


def test_a_barrier_whose_number_and_count_are_in_registers():
    body = """
        .shared .b8 s[256]; shr.u32 %r, %t, 5; add.u32 %r, %r, 1; mov.u32 %s, 32; mad.lo.u32 %x, %t, 4, 0;
        st.shared.u32 [%x], %t; barrier.sync %r, %s; xor.b32 %x, %x, 4; ld.shared.u32 %y, [%x];
        mad.wide.u32 %o, %t, 4, %a; st.global.u32 [%o], %y; ret;"""
    assert ran(body, np.zeros(64, np.uint32), block=(64, 1, 1)).tolist() == [n ^ 1 for n in range(64)]


@pytest.mark.parametrize(
    "text",
    [
        "atom.global.min.f32 %f0, [%a], %f1;",
        "red.global.add.v2.f64 [%a], {%d0, %d1};",
        "add.f32x2 %d0, %d1, %d2;",
        "vadd.u32.u32.u32 %r, %r, %r;",
        "alloca.u64 %d0, 16;",
    ],
)
def test_what_no_card_up_to_sm_90_has_is_refused_by_name(text):
    with pytest.raises(PtxError, match=text.split()[0].replace(".", r"\.")):
        ran(text + " ret;", np.zeros(4, np.uint32))


def test_pairs_of_floats_of_8_bits_and_back():
    body = """
        cvt.rn.satfinite.e4m3x2.f32 %h0, 0f40000000, 0fC3E00000; cvt.rn.relu.f16x2.e4m3x2 %x, %h0;
        cvt.u32.u16 %r, %h0; cvt.rn.satfinite.e5m2x2.f16x2 %h1, %x; cvt.u32.u16 %s, %h1;
        st.global.v2.u32 [%a], {%r, %s}; st.global.u32 [%a+8], %x; ret;"""
    y = ran(body, np.zeros(3, np.uint32), block=(1, 1, 1))
    assert y.tolist() == [0x40FE, 0x4000, 0x40000000]
