"""Lanes run PTX: branches, loops, barriers, warps, calls, memory of all kinds."""

import numpy as np
from lanes import HEAD, kernel, launch

from device_model.ptx.lanes.watching import Watch

TID = """
    .reg .u32 %t; .reg .u64 %a, %o;
    mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 4; ld.param.u64 %a, [y]; add.u64 %a, %a, %o;"""
Y = ".param .u64 y"


def test_lanes_go_different_ways_and_meet_again():
    body = """
        .reg .pred %p; .reg .u32 %r;
        and.b32 %r, %t, 1; setp.eq.u32 %p, %r, 0; mov.u32 %r, 5; @%p bra EVEN;
        mul.lo.u32 %r, %t, 10; bra JOIN;
        EVEN: add.u32 %r, %r, %t;
        JOIN: st.global.u32 [%a], %r; ret;"""
    y = np.zeros(64, np.uint32)
    launch(kernel(TID + body, Y), y, block=(64, 1, 1))
    t = np.arange(64)
    assert y.tolist() == np.where(t % 2, t * 10, t + 5).tolist()


def test_each_lane_repeats_a_loop_as_often_as_it_wants():
    body = """
        .reg .pred %p; .reg .u32 %n, %s;
        mov.u32 %n, %t; mov.u32 %s, 0;
        L: add.u32 %s, %s, %n; sub.u32 %n, %n, 1; setp.ne.s32 %p, %n, -1; @%p bra L;
        st.global.u32 [%a], %s; ret;"""
    y = np.zeros(100, np.uint32)
    launch(kernel(TID + body, Y), y, block=(100, 1, 1))
    assert y.tolist() == [n * (n + 1) // 2 for n in range(100)]


def test_the_way_back_from_a_function_is_no_loop_that_waits_for_others():
    text = (
        HEAD
        + """
        .func (.param .b32 f_z) f(.param .b64 f_p) {
            .reg .u64 %p; .reg .u32 %v;
            ld.param.u64 %p, [f_p]; ld.global.u32 %v, [%p]; st.param.b32 [f_z], %v; ret;
        }
        .visible .entry k(.param .u64 y) {
            .reg .u64 %a; .reg .u32 %i, %v; .reg .pred %p;
            ld.param.u64 %a, [y]; mov.u32 %i, 0;
            L: add.u32 %i, %i, 1;
            { .param .b64 a0; st.param.b64 [a0], %a; .param .b32 z0; call (z0), f, (a0); ld.param.b32 %v, [z0]; }
            setp.lt.u32 %p, %i, 70; @%p bra L;
            st.global.u32 [%a], %i; ret;
        }"""
    )
    y = np.zeros(1, np.uint32)
    launch(text, y, block=(64, 1, 1))
    assert y.tolist() == [70]


def test_a_block_reverses_its_threads_through_shared_memory():
    body = """
        .shared .align 4 .b8 s[512]; .reg .u32 %r, %c; .reg .u64 %g;
        shl.b32 %r, %t, 2; mov.u32 %c, s; add.u32 %r, %r, %c; st.shared.u32 [%r], %t; bar.sync 0;
        sub.u32 %r, 127, %t; shl.b32 %r, %r, 2; add.u32 %r, %r, %c; ld.shared.u32 %r, [%r];
        mov.u32 %c, %ctaid.x; mul.wide.u32 %g, %c, 512; add.u64 %a, %a, %g; st.global.u32 [%a], %r; ret;"""
    y = np.zeros(3 * 128, np.uint32)
    launch(kernel(TID + body, Y), y, grid=(3, 1, 1), block=(128, 1, 1))
    assert y.tolist() == [*range(127, -1, -1)] * 3


def test_dynamic_shared_memory_lies_behind_static_memory():
    text = kernel(
        TID + ".shared .b8 s[4]; .reg .u32 %r; mov.u32 %r, d; st.global.u32 [%a], %r; mov.u32 %r, %dynamic_smem_size;"
        "st.global.u32 [%a+4], %r; ret;", Y, ".extern .shared .align 16 .b8 d[];"
    )  # fmt: skip
    y = np.zeros(2, np.uint32)
    launch(text, y, block=(1, 1, 1), shared=100)
    assert y.tolist() == [16, 100]


def test_a_barrier_waits_for_those_that_have_not_ended_only():
    body = """
        .reg .pred %p; .shared .b8 s[256]; .reg .u32 %r;
        setp.ge.u32 %p, %t, 40; @%p exit;
        shl.b32 %r, %t, 2; st.shared.u32 [%r], %t; bar.sync 0;
        ld.shared.u32 %r, [%r]; st.global.u32 [%a], %r; ret;"""
    y = np.zeros(64, np.uint32)
    launch(kernel(TID + body, Y), y, block=(64, 1, 1))
    assert y.tolist() == [*range(40), *[0] * 24]


def test_a_reduction_at_a_barrier_counts_the_threads_of_each_block():
    body = """
        .reg .pred %p; .reg .u32 %r, %c; .reg .u64 %g;
        mov.u32 %c, %ctaid.x; add.u32 %r, %c, 10; setp.lt.u32 %p, %t, %r; bar.red.popc.u32 %r, 0, %p;
        mul.wide.u32 %g, %c, 256; add.u64 %a, %a, %g; st.global.u32 [%a], %r; ret;"""
    y = np.zeros(128, np.uint32)
    launch(kernel(TID + body, Y), y, grid=(2, 1, 1), block=(64, 1, 1))
    assert y.tolist() == [10] * 64 + [11] * 64


def test_lanes_of_a_warp_exchange_vote_and_match():
    body = """
        .reg .pred %p, %q; .reg .u32 %r, %s;
        shfl.sync.bfly.b32 %r, %t, 1, 31, -1; st.global.u32 [%a], %r;
        shfl.sync.down.b32 %r|%p, %t, 4, 0x181f, -1; selp.u32 %s, %r, 99, %p; st.global.u32 [%a+256], %s;
        and.b32 %r, %t, 3; setp.eq.u32 %q, %r, 0; vote.sync.ballot.b32 %s, %q, -1; st.global.u32 [%a+512], %s;
        match.any.sync.b32 %s, %r, -1; st.global.u32 [%a+768], %s;
        redux.sync.add.u32 %s, %t, -1; st.global.u32 [%a+1024], %s; ret;"""
    y = np.zeros(5 * 64, np.uint32)
    launch(kernel(TID + body, Y), y, block=(64, 1, 1))
    lanes = np.arange(64)
    assert y[:64].tolist() == (lanes ^ 1).tolist()
    assert y[64:128].tolist() == np.where(lanes % 8 < 4, lanes + 4, 99).tolist()
    assert y[128:192].tolist() == [0x11111111] * 64
    assert y[192:256].tolist() == [0x11111111 << lane % 4 for lane in range(64)]
    assert y[256:].tolist() == [sum(range(32))] * 32 + [sum(range(32, 64))] * 32


def test_lanes_wait_for_those_of_their_warp_that_an_exchange_names():
    """Lane 0 comes to the exchange by a longer way."""
    body = """
        .reg .pred %p; .reg .u32 %r, %n;
        mov.u32 %n, 0; setp.ne.u32 %p, %t, 0; @%p bra HERE; bra FAR;
        HERE: shfl.sync.idx.b32 %r, %n, 0, 31, -1; st.global.u32 [%a], %r; ret;
        FAR: mov.u32 %n, 7; bra HERE;"""
    y = np.zeros(32, np.uint32)
    launch(kernel(TID + body, Y), y)
    assert y.tolist() == [7] * 32


def test_atomics_give_each_lane_another_number_in_the_order_of_lanes():
    body = """
        .reg .u32 %r; .reg .u64 %c;
        ld.param.u64 %c, [c]; atom.global.add.u32 %r, [%c], 2; st.global.u32 [%a], %r; ret;"""
    y, c = np.zeros(64, np.uint32), np.array([5], np.uint32)
    launch(kernel(TID + body, Y + ", .param .u64 c"), y, c, block=(64, 1, 1))
    assert y.tolist() == [*range(5, 133, 2)]
    assert c.tolist() == [133]


def test_a_lock_of_one_warp_lets_each_lane_in():
    body = """
        .reg .pred %p; .reg .u32 %r;
        ld.param.u64 %a, [y];
        L: atom.global.cas.b32 %r, [%a], 0, 1; setp.ne.u32 %p, %r, 0; @%p bra L;
        ld.global.u32 %r, [%a+4]; add.u32 %r, %r, 1; st.global.u32 [%a+4], %r;
        atom.global.exch.b32 %r, [%a], 0; ret;"""
    y = np.zeros(2, np.uint32)
    launch(kernel(TID + body, Y), y)
    assert y.tolist() == [0, 32]


def test_blocks_that_wait_for_a_flag_of_a_later_block_go_on_when_it_is_set():
    body = """
        .reg .pred %p; .reg .u32 %r, %c;
        ld.param.u64 %a, [y]; mov.u32 %c, %ctaid.x; setp.eq.u32 %p, %c, 99; @%p bra LAST;
        L: ld.volatile.global.u32 %r, [%a]; setp.eq.u32 %p, %r, 0; @%p bra L;
        red.global.add.u32 [%a+4], %r; ret;
        LAST: st.volatile.global.u32 [%a], 3; ret;"""
    y = np.zeros(2, np.uint32)
    launch(kernel(TID + body, Y), y, grid=(100, 1, 1), block=(256, 1, 1))
    assert y.tolist() == [3, 3 * 256 * 99]


def test_functions_are_called_from_two_places_and_return_to_each():
    before = """
        .func (.param .u32 r) twice(.param .u32 x) {
        .reg .u32 %v; ld.param.u32 %v, [x]; add.u32 %v, %v, %v; st.param.u32 [r], %v; ret; }"""
    body = """
        .reg .pred %p; .reg .u32 %r; setp.lt.u32 %p, %t, 8; @%p bra LOW;
        { .param .u32 p0; .param .u32 r0; st.param.u32 [p0], %t; call.uni (r0), twice, (p0); ld.param.u32 %r, [r0]; }
        bra END;
        LOW: { .param .u32 p0; .param .u32 r0; st.param.u32 [p0], 50; call.uni (r0), twice, (p0);
        ld.param.u32 %r, [r0]; }
        END: st.global.u32 [%a], %r; ret;"""
    y = np.zeros(32, np.uint32)
    launch(kernel(TID + body, Y, before), y)
    assert y.tolist() == [100] * 8 + [2 * t for t in range(8, 32)]


def test_a_list_of_labels_is_a_jump_by_number():
    body = """
        .reg .u32 %r; and.b32 %r, %t, 3;
        T: .branchtargets A, B, C, C;
        brx.idx %r, T;
        A: mov.u32 %r, 10; bra END;
        B: mov.u32 %r, 11; bra END;
        C: mov.u32 %r, 12;
        END: st.global.u32 [%a], %r; ret;"""
    y = np.zeros(32, np.uint32)
    launch(kernel(TID + body, Y), y)
    assert y.tolist() == [10, 11, 12, 12] * 8


def test_generic_addresses_reach_shared_local_and_global_memory():
    body = """
        .shared .b8 s[4]; .local .b8 l[4]; .reg .u64 %s, %l, %g; .reg .u32 %r; .reg .pred %p, %q;
        mov.u64 %s, s; cvta.shared.u64 %s, %s; mov.u64 %l, l; cvta.local.u64 %l, %l;
        st.local.u32 [l], %t; bar.sync 0; st.shared.u32 [s], 1000; bar.sync 0;
        setp.lt.u32 %p, %t, 16; selp.u64 %g, %s, %l, %p; ld.u32 %r, [%g]; st.u32 [%a], %r;
        isspacep.shared %q, %g; selp.u32 %r, 1, 0, %q; st.global.u32 [%a+128], %r;
        isspacep.shared::cluster %q, %g; selp.u32 %r, 1, 0, %q; st.global.u32 [%a+256], %r; ret;"""
    y = np.zeros(96, np.uint32)
    launch(kernel(TID + body, Y), y)
    is_shared = [1] * 16 + [0] * 16  # a cluster is one block
    assert y.tolist() == [1000] * 16 + [*range(16, 32)] + is_shared + is_shared


def test_vectors_constants_and_bytes():
    body = """
        .reg .u64 %c; .reg .u32 %r<5>; .reg .u16 %b; .reg .s32 %s;
        mov.u64 %c, table; ld.const.v4.u32 {%r1, %r2, %r3, %r4}, [%c+16]; add.u32 %r1, %r1, %r4;
        ld.const.s8 %s, [%c+3]; add.s32 %r1, %r1, %s; st.global.v2.u32 [%a], {%r1, %r2}; ret;"""
    values = [0, 0, 0, 255, *[0] * 12, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4]
    table = f".const .align 16 .b8 table[32] = {{{', '.join(map(str, values))}}};"
    y = np.zeros(2, np.uint32)
    launch(kernel(TID + body, Y, table), y, block=(1, 1, 1))
    assert y.tolist() == [4, 2]


def test_lanes_print_in_the_order_of_threads():
    text = (
        HEAD + '.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);\n'
        ".global .align 1 .b8 f[11] = {116, 32, 37, 100, 32, 37, 46, 49, 102, 10};\n"
        """.visible .entry k() {
        .local .align 8 .b8 l[16]; .reg .u64 %a, %f; .reg .u32 %t; .reg .f64 %d;
        mov.u64 %a, l; cvta.local.u64 %a, %a; mov.u32 %t, %tid.x; st.local.u32 [l], %t; mov.f64 %d, 0d3FF8000000000000;
        st.local.f64 [l+8], %d; mov.u64 %f, f; cvta.global.u64 %f, %f;
        { .param .b64 p0; st.param.b64 [p0], %f; .param .b64 p1; st.param.b64 [p1], %a; .param .b32 r0;
        call.uni (r0), vprintf, (p0, p1); } ret; }"""
    )  # fmt: skip
    assert launch(text, grid=(2, 1, 1), block=(2, 1, 1)).messages == [
        (0, 0, "t 0 1.5\n"), (0, 1, "t 1 1.5\n"), (1, 0, "t 0 1.5\n"), (1, 1, "t 1 1.5\n"),
    ]  # fmt: skip


def test_of_blocks_that_store_in_the_same_places_the_last_one_counts():
    body = ".reg .u32 %c; mov.u32 %c, %ctaid.x; add.u32 %c, %c, 5; st.global.u32 [%a], %c; ret;"
    y = np.zeros(64, np.uint32)
    launch(kernel(TID + body, Y), y, grid=(3, 1, 1), block=(64, 1, 1))
    assert y.tolist() == [7] * 64


def test_a_clock_is_read_each_time():
    body = (
        ".reg .u64 %c, %d; mov.u64 %c, %clock64; mov.u64 %d, %clock64; sub.u64 %d, %d, %c; st.global.u32 [%a], %d; ret;"
    )
    y = np.ones(32, np.uint32)
    launch(kernel(TID + body, Y), y)
    assert y.tolist() == [0] * 32


def test_a_watch_is_told_of_each_lane_once_also_where_lanes_use_two_arrays():
    class Counting(Watch):
        def __init__(self):
            self.lanes = []

        def load(self, at, space, address, nbytes):
            self.lanes.append(("load", at.count))

        def store(self, at, space, address, nbytes, values):
            self.lanes.append(("store", at.count))

        def change(self, at, space, address, nbytes):
            self.lanes.append(("change", at.count))

    body = """
        .reg .pred %p; .reg .u64 %z; .reg .u32 %r; ld.param.u64 %z, [z]; setp.lt.u32 %p, %t, 8; selp.u64 %a, %a, %z, %p;
        ld.global.u32 %r, [%a]; st.global.u32 [%a], %r; red.global.add.u32 [%a], 1; ret;"""
    y, z, watch = np.zeros(32, np.uint32), np.zeros(1, np.uint32), Counting()
    launch(kernel(TID + body, Y + ", .param .u64 z"), y, z, watch=lambda *_: watch)
    assert sorted(watch.lanes) == [(what, count) for what in ("change", "load", "store") for count in (8, 24)]
    assert (y.tolist(), z.tolist()) == ([1] * 8 + [0] * 24, [24])


def test_registers_of_floats_hold_and_give_the_bits_of_narrower_values():
    body = """
    .reg .f64 %d; .reg .f32 %f; .reg .b64 %a; ld.param.u64 %a, [p];
    ld.global.b8 %d, [%a]; st.global.b64 [%a+8], %d; st.global.b16 [%a+2], %d;
    ld.global.b16 %f, [%a]; st.global.b32 [%a+16], %f; st.global.b8 [%a+20], %f; ret;
    """
    values = np.zeros(6, np.uint32)
    values[0] = 0x8281
    launch(kernel(body, ".param .u64 p"), values, block=(1, 1, 1))
    assert [hex(each) for each in values] == ["0x818281", "0x0", "0x81", "0x0", "0x8281", "0x81"]
