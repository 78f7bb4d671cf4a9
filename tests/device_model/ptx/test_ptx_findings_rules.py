"""What a finding says, and where the rules end: one small kernel each."""

import numpy as np
import pytest
from checked import findings
from lanes import kernel

from device_model.kernel.findings import KernelError

Y = ".param .u64 y"
HEAD = """
.reg .u32 %t, %r, %b, %s, %c; .reg .u64 %a, %o; .reg .pred %p, %q; .shared .align 16 .b8 s[512]; .local .b8 l[16];
mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mov.u32 %b, s; shl.b32 %s, %t, 2; add.u32 %b, %b, %s; ld.param.u64 %a, [y];
"""


def found(body, *args, **options):
    """The findings of a kernel with this body: pairs of a rule and what is missing."""
    text = kernel(HEAD + body, Y)
    return [(each.rule.name, each.missing) for each in findings(text, *(args or (np.zeros(64, "u4"),)), **options)]


def test_a_race_names_both_lines_the_bytes_and_what_is_missing():
    turned = "xor.b32 %s, %s, 128;\nmov.u32 %b, s; add.u32 %b, %b, %s; ld.shared.u32 %r, [%b]; ret;"
    body = f"st.shared.u32 [%b], %t;\n{turned}"
    (one,) = findings(kernel(HEAD + body, Y), np.zeros(1, "u4"), block=(64, 1, 1))
    assert one.where == "block 0, thread 0"
    assert (one.block, one.thread, [place.line for place in one.places]) == (0, 0, [10, 12])
    assert one.text == (
        "thread 0 reads s, bytes 128:132, in PTX line 12 while thread 32 may still write it, in PTX line 10; "
        "missing bar.sync"
    )


def test_lanes_of_one_warp_need_a_meeting_and_one_instruction_is_no_race():
    around = "\nxor.b32 %s, %s, 4; mov.u32 %b, s; add.u32 %b, %b, %s;\n"
    read = "ld.shared.u32 %r, [%b];\n"
    write = "st.shared.u32 [%b], %t;\n"
    assert found(write + around + read + "ret;") == [("RAW", "syncwarp")]
    assert found(write + "bar.warp.sync -1;" + around + read + "ret;") == []
    assert found(write + "bar.warp.sync -1;" + around + read + read + around + write + "ret;") == [("WAR", "syncwarp")]


def test_a_volatile_variable_does_not_order_lanes_of_a_warp_but_is_a_flag_between_warps():
    around = "\nxor.b32 %s, %s, {}; mov.u32 %b, s; add.u32 %b, %b, %s;\n"
    body = "st.volatile.shared.u32 [%b], %t;" + around + "ld.volatile.shared.u32 %r, [%b]; ret;"
    assert found(body.replace("{}", "4")) == [("RAW", "syncwarp")]
    assert found(body.replace("{}", "128"), block=(64, 1, 1)) == []


@pytest.mark.parametrize("place", ["", "+4"])
def test_a_volatile_load_may_guess_what_a_compare_and_swap_then_checks(place):
    """As numba makes the largest of f64, in a variable whose address a register gets first."""
    body = f"""
        .reg .u32 %d, %n; setp.ne.u32 %p, %t, 0; @%p bra MEET; st.shared.u32 [s{place}], 0; MEET: bar.sync 0;
        ld.volatile.shared.u32 %r, [s{place}]; mov.u32 %d, s;
        LOOP: mov.u32 %n, %r; atom.shared.cas.b32 %r, [%d{place}], %n, %t;
        setp.ne.u32 %p, %r, %n; @%p bra LOOP; ret;"""
    assert found(body) == []
    unchecked = body.replace(f"atom.shared.cas.b32 %r, [%d{place}], %n, %t", f"atom.shared.add.u32 %n, [%d{place}], %t")
    assert found(unchecked.replace("@%p bra LOOP;", "")) == [("WAR", "syncwarp")]


def test_lanes_that_met_in_parts_know_their_own_part_only():
    """Halves of a warp meet: lane 0 reads what lane 8 wrote, or what lane 16 wrote."""
    body = """
        st.shared.u32 [%b], %t;
        setp.lt.u32 %p, %t, 16; mov.u32 %r, 0xffff0000; selp.u32 %r, 0xffff, %r, %p; bar.warp.sync %r;
        xor.b32 %s, %s, BY; mov.u32 %b, s; add.u32 %b, %b, %s; ld.shared.u32 %r, [%b]; ret;"""
    assert found(body.replace("BY", "32")) == []
    assert found(body.replace("BY", "64")) == [("RAW", "syncwarp")]


@pytest.mark.parametrize(("first", "second", "reader", "written"), [((0, 3), (1, 6), 2, 0), ((1, 6), (0, 3), 0, 2)])
def test_what_a_lane_learned_in_one_part_it_tells_in_the_next(first, second, reader, written):
    """Two lanes meet, then one of them and a third one, which then knows what the other did."""

    def meet(start, mask):
        return f"sub.u32 %r, %t, {start}; setp.le.u32 %p, %r, 1; @%p bar.warp.sync {mask};"

    store = "st.shared.u32 [%b], %t;"
    read = f"setp.eq.u32 %p, %t, {reader}; @%p ld.shared.u32 %r, [s+{4 * written}]; ret;"
    assert found(store + meet(*first) + meet(*second) + read) == []
    assert found(store + meet(*second) + read) == [("RAW", "syncwarp")]


def test_warps_that_meet_at_a_counted_barrier_tell_what_they_know():
    """Warps 0 and 1 meet, then 1 and 2: warp 2 knows what warp 0 did."""
    body = """
        st.shared.u32 [%b], %t; setp.lt.u32 %p, %t, 64; @%p bar.sync 1, 64;
        setp.ge.u32 %p, %t, 32; @%p bar.sync 2, 64;
        setp.ge.u32 %p, %t, 64; @%p ld.shared.u32 %r, [%b+-256]; ret;"""
    assert found(body, block=(96, 1, 1)) == []
    assert found(body.replace("@%p bar.sync 1, 64;", ""), block=(96, 1, 1)) == [("RAW", "bar.sync")]


def test_a_thread_that_only_arrives_at_a_barrier_learns_nothing():
    body = """
        st.shared.u32 [%b], %t; setp.lt.u32 %p, %t, 32; @%p bar.arrive 1, 64;
        @!%p bar.sync 1, 64;
        xor.b32 %s, %s, 128; mov.u32 %b, s; add.u32 %b, %b, %s; setp.{}.u32 %p, %t, 32;
        @%p ld.shared.u32 %r, [%b]; ret;"""
    assert found(body.format("ge"), block=(64, 1, 1)) == []
    assert found(body.format("lt"), block=(64, 1, 1)) == [("RAW", "bar.sync")]


def test_a_write_after_reads_of_which_the_last_is_its_own():
    """Thread 0 reads a number that thread 63 then reads and writes; or all threads read it at once."""
    start = "setp.eq.u32 %p, %t, 63; setp.eq.u32 %q, %t, 0; @%p st.shared.u32 [s], 1; bar.sync 0;"
    apart = "@%q ld.shared.u32 %r, [s]; @%p ld.shared.u32 %r, [s]; @%p st.shared.u32 [s], 2; ret;"
    at_once = "ld.shared.u32 %r, [s]; @%p st.shared.u32 [s], 2; ret;"
    assert found(start + apart, block=(64, 1, 1)) == [("WAR", "bar.sync")]
    assert found(start + at_once, block=(64, 1, 1)) == [("WAR", "bar.sync")]


def test_two_lanes_that_store_different_values_to_one_address():
    assert found("st.shared.u32 [s], %t; ret;") == [("TWO_WRITERS", "")]
    assert found("st.shared.u32 [s], 5; ret;") == []
    assert found("st.global.u32 [%a], %t; ret;") == [("TWO_WRITERS", "")]
    assert found("st.global.u32 [%a], 7; ret;", grid=(3, 1, 1)) == []
    assert found("st.global.u32 [%a], %c; ret;", grid=(3, 1, 1)) == [("WAW", "an atomic operation")]


def test_the_same_value_from_two_places_is_no_mistake():
    body = "setp.lt.u32 %p, %t, 9; @%p st.shared.u32 [s], V; @!%p st.shared.u32 [s], 1; ret;"
    assert found(body.replace("V", "1")) == []
    assert found(body.replace("V", "2")) == [("WAW", "syncwarp")]


def test_the_same_value_in_global_memory_is_no_mistake_either():
    body = "setp.lt.u32 %p, %t, 9; @%p st.global.u32 [%a], V; @!%p st.global.u32 [%a], 1; ret;"
    assert found(body.replace("V", "1")) == []
    assert found(body.replace("V", "2")) == [("WAW", "syncwarp")]


def test_neighbouring_bytes_are_not_one_address():
    body = "mov.u32 %b, s; add.u32 %b, %b, %t; st.shared.u8 [%b], %t; ld.shared.u8 %r, [%b]; ret;"
    assert found(body) == []
    assert found(body.replace("ld.shared.u8 %r, [%b]", "ld.shared.u32 %r, [s]")) == [("RAW", "syncwarp")]


def test_bytes_that_nobody_wrote():
    assert found("ld.shared.u32 %r, [%b]; ret;") == [("UNWRITTEN_READ", "a store")]
    assert found("red.shared.add.u32 [%b], 1; ret;") == [("UNWRITTEN_READ", "a store")]
    assert found("ld.local.u32 %r, [l+4]; ret;") == [("UNWRITTEN_READ", "a store")]
    assert found("st.local.u32 [l+4], 1; ld.local.u32 %r, [l+4]; ret;") == []
    one_lane = "setp.eq.u32 %p, %t, 3; @%p st.local.u32 [l+4], 1; @{}%p ld.local.u32 %r, [l+4]; ret;"
    assert found(one_lane.format("")) == []
    assert found(one_lane.format("!")) == [("UNWRITTEN_READ", "a store")]


def test_each_half_of_a_vector_is_looked_at():
    body = ".reg .u32 %x; st.shared.u32 [s], 1; bar.sync 0; ld.shared.v2.u32 {%r, %x}, [s]; add.u32 %r, %r, %x; ret;"
    assert found(body) == [("UNWRITTEN_READ", "a store")]


@pytest.mark.parametrize("part", ["%x", "_"])
def test_a_part_of_a_vector_that_nothing_reads_may_be_padding(part):
    shared = (
        f".reg .u32 %x; st.shared.u32 [s], 1; bar.sync 0; ld.shared.v2.u32 {{%r, {part}}}, [s]; st.global.u32 [%a], %r;"
    )
    local = f".reg .u32 %x; st.local.u32 [l], 1; ld.local.v2.u32 {{%r, {part}}}, [l]; st.global.u32 [%a], %r;"
    assert found(shared + "ret;") == found(local + "ret;") == []
    if part == "%x":
        read = "st.global.u32 [%a+4], %x; ret;"
        assert found(shared + read) == found(local + read) == [("UNWRITTEN_READ", "a store")]


def test_a_number_of_which_some_bytes_were_written_may_be_a_structure_with_padding():
    assert found("st.shared.u8 [s], 1; bar.sync 0; ld.shared.u32 %r, [s]; ret;") == []


def test_blocks_with_other_addresses_are_told_apart():
    """Threads 0 to 8 of block c write from word c on: in block 1 word 0 was not written."""
    body = """
        shl.b32 %r, %c, 2; add.u32 %b, %b, %r; setp.lt.u32 %p, %t, 9; @%p st.shared.u32 [%b], 1; bar.sync 0;
        ld.shared.u32 %r, [s]; ret;"""
    (one,) = findings(kernel(HEAD + body, Y), np.zeros(1, "u4"), grid=(2, 1, 1))
    assert (one.rule.name, one.block) == ("UNWRITTEN_READ", 1)


@pytest.mark.parametrize("other", ["mov.u32 %r, z;", "mul.lo.u32 %r, %b, 0; add.u32 %r, %r, 512;"])
def test_an_address_that_may_begin_at_two_variables_is_not_held_to_one(other):
    body = f"""
        .shared .align 4 .b8 z[64]; mov.u32 %b, s; {other} setp.eq.u32 %p, %t, 99;
        @!%p mov.u32 %b, %r;
        st.shared.u32 [%b+4], 1; ret;"""
    assert found(body) == []


def test_an_access_that_leaves_its_variable_for_another_one():
    body = ".shared .align 4 .b8 z[64]; mov.u32 %b, s; add.u32 %b, %b, %s; st.shared.u32 [%b+508], 1; ret;"
    text = kernel(HEAD + body.replace("; ", ";\n"), Y)
    (one,) = findings(text, np.zeros(1, "u4"), block=(4, 1, 1))
    assert (one.rule.name, one.thread) == ("OUT_OF_VARIABLE", 1)
    assert one.text.startswith("an access of 4 bytes that end 4 bytes behind s, which has 512 bytes, in PTX line ")
    with pytest.raises(KernelError, match=r"thread 1 and 30 more: an access of 4 bytes that end 4 bytes behind s"):
        findings(text, np.zeros(1, "u4"), block=(32, 1, 1))


def test_an_address_that_a_parameter_of_a_function_holds_is_no_address_of_the_parameter():
    """As compilers write a function that gives its result through a pointer."""
    function = """
        .func put(.param .b64 to, .param .b32 value) {
            .reg .u64 %d; .reg .u32 %v; ld.param.u64 %d, [to]; ld.param.u32 %v, [value];
            st.u32 [%d], %v;
            ret; }"""
    body = """
        .reg .u64 %d; cvta.local.u64 %d, l;
        .param .b64 to; .param .b32 value; st.param.b64 [to], %d; st.param.b32 [value], 5; call put, (to, value);
        ld.local.u32 %r, [l]; st.global.u32 [%a], %r; ret;"""
    y = np.zeros(1, "u4")
    assert (findings(kernel(HEAD + body, Y, function), y, block=(1, 1, 1)), y[0]) == ([], 5)


def test_blocks_have_no_order_but_by_atomic_operations():
    """Block 1 reads what block 0 wrote; then with a flag between them."""
    plain = "setp.eq.u32 %p, %c, 0; @%p st.global.u32 [%a], 1; @!%p ld.global.u32 %r, [%a]; ret;"
    assert found(plain, grid=(2, 1, 1), block=(1, 1, 1)) == [("RAW", "an atomic operation")]
    flag = """
        setp.eq.u32 %p, %c, 0; @!%p bra READ;
        st.global.u32 [%a], 1; st.release.gpu.global.u32 [%a+4], 1; ret;
        READ: ld.acquire.gpu.global.u32 %r, [%a+4]; setp.eq.u32 %p, %r, 0; @%p bra READ;
        ld.global.u32 %r, [%a]; ret;"""
    assert found(flag, grid=(2, 1, 1), block=(1, 1, 1)) == []


def test_a_group_that_comes_later_knows_what_an_earlier_one_did():
    body = "setp.eq.u32 %p, %c, 0; @%p st.global.u32 [%a], 1; @!%p ld.global.u32 %r, [%a]; ret;"
    assert found(body, grid=(100, 1, 1), block=(1024, 1, 1)) == [("RAW", "an atomic operation")]


def test_a_barrier_orders_global_memory_within_a_block():
    body = """
        mul.wide.u32 %o, %t, 4; add.u64 %o, %a, %o; st.global.u32 [%o], %t; SYNC
        xor.b32 %r, %t, 32; mul.wide.u32 %o, %r, 4; add.u64 %o, %a, %o; ld.global.u32 %r, [%o]; ret;"""
    assert found(body.replace("SYNC", "bar.sync 0;"), block=(64, 1, 1)) == []
    assert found(body.replace("SYNC", ""), block=(64, 1, 1)) == [("RAW", "bar.sync")]


def test_a_block_whose_threads_wait_at_two_barriers():
    body = "setp.lt.u32 %p, %t, 9; @%p bra A;\nbar.sync 0; ret;\nA: bar.sync 0; ret;"
    (one,) = findings(kernel(HEAD + body, Y), np.zeros(1, "u4"))
    assert (one.rule.name, [place.line for place in one.places]) == ("DIVERGENT_BARRIER", [11, 12])


def test_blocks_that_do_different_things_are_told_apart():
    """All blocks write; only block 2 reads without a barrier."""
    body = """
        st.shared.u32 [%b], %t; setp.eq.u32 %p, %c, 2; @%p bra READ; bar.sync 0;
        READ: xor.b32 %s, %s, 128; mov.u32 %b, s; add.u32 %b, %b, %s; ld.shared.u32 %r, [%b]; ret;"""
    (one,) = findings(kernel(HEAD + body, Y), np.zeros(1, "u4"), grid=(4, 1, 1), block=(64, 1, 1))
    assert (one.rule.name, one.block) == ("RAW", 2)


def test_one_address_of_all_lanes_is_looked_at_in_each_block():
    """Block 1 of three goes past the barrier, and then lanes of all blocks load one number."""
    body = """
        setp.eq.u32 %p, %t, 5; @%p st.shared.u32 [s], 1; setp.eq.u32 %p, %c, 1; @%p bra OVER; bar.sync 0;
        OVER: setp.lt.u32 %p, %t, 40; @%p ld.shared.u32 %r, [s]; ret;"""
    (one,) = findings(kernel(HEAD + body, Y), np.zeros(1, "u4"), grid=(3, 1, 1), block=(64, 1, 1))
    assert (one.rule.name, one.block) == ("RAW", 1)


def test_a_flag_shows_what_came_before_a_counted_barrier_too():
    body = """
        mul.wide.u32 %o, %t, 4; add.u64 %o, %a, %o; setp.eq.u32 %q, %t, 0; setp.eq.u32 %p, %c, 0; @!%p bra READ;
        st.global.u32 [%o+16], %t; bar.sync 1, 64; @%q st.release.gpu.global.u32 [%a], 1; ret;
        READ: @!%q bra ON;
        L: ld.acquire.gpu.global.u32 %r, [%a]; setp.eq.u32 %p, %r, 0; @%p bra L;
        ON: bar.sync 1, 64; ld.global.u32 %r, [%o+16]; ret;"""
    assert found(body, np.zeros(80, "u4"), grid=(2, 1, 1), block=(64, 1, 1)) == []


def test_the_same_mistake_is_one_finding_with_a_count():
    body = "\nL: st.shared.u32 [s], %t; sub.u32 %c, %c, 1; setp.ne.s32 %p, %c, -4; @%p bra L; ret;"
    (one,) = [each for each in findings(kernel(HEAD + body, Y), np.zeros(1, "u4")) if each.rule.name == "TWO_WRITERS"]
    assert one.count == 4


@pytest.mark.parametrize("pointer", ["", "mov.u64 %o, %a; setp.lt.u32 %p, %t, 99; selp.u64 %a, %a, %z, %p;"])
def test_a_write_of_what_others_read_is_found_through_any_pointer(pointer):
    """Each thread replaces its own number by that of the thread 32 further on."""
    body = f"""
        .reg .u64 %z; ld.param.u64 %z, [z]; {pointer}
        mul.wide.u32 %o, %t, 4; add.u64 %a, %a, %o; ld.global.u32 %r, [%a+128]; st.global.u32 [%a], %r; ret;"""
    text = kernel(HEAD + body, Y + ", .param .u64 z")
    made = findings(text, np.arange(96, dtype="u4"), np.zeros(96, "u4"), block=(64, 1, 1))
    assert [(each.rule.name, each.missing) for each in made] == [("WAR", "bar.sync")]


def test_a_parameter_that_is_written_through_another_one_is_looked_at_as_well():
    """Both parameters are one buffer: what is stored through y is loaded through z."""
    body = """
        .reg .u64 %z; ld.param.u64 %z, [z]; mul.wide.u32 %o, %t, 4; add.u64 %a, %a, %o; add.u64 %z, %z, %o;
        ld.global.u32 %r, [%z+128]; st.global.u32 [%a], %r; ret;"""
    text = kernel(HEAD + body, Y + ", .param .u64 z")
    address = np.uint64(1 << 60)  # of the first array
    made = findings(text, np.arange(96, dtype="u4"), address, block=(64, 1, 1))
    assert [each.rule.name for each in made] == ["WAR"]


def test_arrivals_at_an_mbarrier_order_what_came_before_them_for_those_that_wait():
    make = ".shared .align 8 .b8 m[8]; .reg .b64 %v; setp.eq.u32 %p, %t, 0; @%p mbarrier.init.shared.b64 [m], COUNT;\n"
    turn = "xor.b32 %s, %s, 128; mov.u32 %b, s; add.u32 %b, %b, %s;\n"
    wait = "L: mbarrier.try_wait.{}shared.b64 %q, [m], {};\n@!%q bra L;\n"
    read = "ld.shared.u32 %r, [%b];\nret;"
    arrive = "mbarrier.arrive.{}shared.b64 %v, [m];\n"
    body = f"{make}bar.sync 0;\nst.shared.u32 [%b], %t;\n{turn}".replace("COUNT", "64")
    known = body + arrive.format("") + wait.format("", "%v") + read
    assert found(known, block=(64, 1, 1)) == []
    assert found(known.replace("arrive.", "arrive.relaxed.cta."), block=(64, 1, 1)) == [("RAW", "bar.sync")]
    assert found(known.replace("try_wait.", "try_wait.relaxed.cta."), block=(64, 1, 1)) == [("RAW", "bar.sync")]
    assert found(known.replace("bar.sync 0;\n", "\n"), block=(64, 1, 1)) == [("RAW", "bar.sync")]  # it is not made yet
    copy = """@!%p bra L; mbarrier.arrive.expect_tx.shared.b64 _, [m], 256;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%a], 256, [m];\n"""
    copied = make.replace("COUNT", "1") + "bar.sync 0;\n" + copy + wait.format("parity.", "0") + read
    assert found(copied, block=(64, 1, 1)) == []
