"""Flags and locks between blocks need fences: a card may move accesses across a flag, although memory here does not."""

import numpy as np
import pytest
from checked import findings
from lanes import kernel

HEAD = """
.reg .u32 %t, %r, %c, %n; .reg .u64 %a, %o; .reg .pred %p, %q;
mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; ld.param.u64 %a, [y]; mul.wide.u32 %o, %t, 4; add.u64 %o, %a, %o;
"""
BEFORE, AFTER = "a fence before the flag is set", "a fence after the flag is read"
# Block 0 stores data, and then a flag; block 1 waits for the flag, and loads the data.
MESSAGE = """
    setp.eq.u32 %p, %c, 0; @!%p bra READ;
    st.global.u32 [%a], 1;
    SET;
    ret;
    READ: GET; setp.eq.u32 %p, %r, 0; @%p bra READ;
    THEN
    ld.global.u32 %r, [%a];
    ret;
"""
PLAIN = {"SET": "FENCE st.volatile.global.u32 [%a+4], 1", "GET": "ld.volatile.global.u32 %r, [%a+4]"}
RELAXED = {"SET": "FENCE st.relaxed.gpu.global.u32 [%a+4], 1", "GET": "ld.relaxed.gpu.global.u32 %r, [%a+4]"}
ATOMIC = {"SET": "FENCE red.global.add.u32 [%a+4], 1", "GET": "atom.global.or.b32 %r, [%a+4], 0"}
LOCK = {"SET": "FENCE atom.global.exch.b32 %r, [%a+4], 1", "GET": "atom.global.cas.b32 %r, [%a+4], 7, 0"}


def found(body, *, grid=2, block=1, nbytes=64):
    """What is missing between which lines of *body*, from 1 on."""
    made = findings(
        kernel(HEAD + body, ".param .u64 y"), np.zeros(nbytes, "u4"), grid=(grid, 1, 1), block=(block, 1, 1)
    )
    before = kernel(HEAD, ".param .u64 y").count("\n") - 2
    return [(each.rule.name, each.missing, *(place.line - before for place in each.places)) for each in made]


def message(flag, fence="", then=""):
    text = MESSAGE.replace("THEN", then)
    for old, new in flag.items():
        text = text.replace(old, new)
    return text.replace("FENCE", fence)


@pytest.mark.parametrize("flag", [PLAIN, RELAXED, ATOMIC, LOCK])
@pytest.mark.parametrize("fence", ["membar.gl;", "membar.sys;", "fence.acq_rel.gpu;", "fence.sc.sys;"])
def test_a_message_needs_a_fence_on_either_side(flag, fence):
    assert found(message(flag, fence, fence)) == []
    assert found(message(flag, "", fence)) == [("RAW", BEFORE, 3, 8)]
    assert found(message(flag, fence, "")) == [("RAW", AFTER, 3, 8)]


@pytest.mark.parametrize("flag", [PLAIN, RELAXED, LOCK])
def test_a_flag_in_a_kernel_without_fences_orders_nothing(flag):
    assert found(message(flag)) == [("RAW", BEFORE, 3, 8)]


@pytest.mark.parametrize("fence", ["membar.cta;", "fence.acq_rel.cta;", "fence.proxy.async;"])
def test_a_fence_for_the_block_orders_nothing_between_blocks(fence):
    assert found(message(PLAIN, fence, "membar.gl;")) == [("RAW", BEFORE, 3, 8)]
    assert found(message(PLAIN, "membar.gl;", fence)) == [("RAW", AFTER, 3, 8)]


def test_a_release_and_an_acquire_need_no_fence_and_theirs_are_not_those_of_the_block():
    right = {"SET": "st.release.gpu.global.u32 [%a+4], 1", "GET": "ld.acquire.gpu.global.u32 %r, [%a+4]"}
    assert found(message(right)) == []
    assert found(message(right | {"SET": "red.release.gpu.global.add.u32 [%a+4], 1"})) == []
    assert found(message(right | {"GET": "atom.acquire.gpu.global.or.b32 %r, [%a+4], 0"})) == []
    of_block = ("RAW", "the scope of the device", 4, 6)
    assert found(message(right | {"SET": "st.release.cta.global.u32 [%a+4], 1"})) == [of_block, ("RAW", BEFORE, 3, 8)]
    assert found(message(right | {"GET": "ld.acquire.cta.global.u32 %r, [%a+4]"})) == [of_block, ("RAW", AFTER, 3, 8)]
    assert found(message(right | {"GET": "ld.relaxed.gpu.global.u32 %r, [%a+4]"})) == [("RAW", AFTER, 3, 8)]


def test_a_fence_in_front_of_the_data_does_not_show_them():
    body = message(PLAIN, "", "membar.gl;").replace("st.global.u32 [%a], 1;", "membar.gl; st.global.u32 [%a], 1;")
    assert found(body) == [("RAW", BEFORE, 3, 8)]


def test_a_fence_only_behind_a_guard_counts_for_those_that_run_it():
    fence = "setp.eq.u32 %q, %t, 99; @%q membar.gl;"
    assert found(message(PLAIN, fence, "membar.gl;")) == [("RAW", BEFORE, 3, 8)]
    assert found(message(PLAIN, fence.replace("eq", "ne"), "membar.gl;")) == []


def test_data_that_are_volatile_themselves_need_no_fence():
    body = message(PLAIN).replace("st.global.u32 [%a]", "st.volatile.global.u32 [%a]")
    assert found(body.replace("ld.global.u32 %r, [%a];", "ld.volatile.global.u32 %r, [%a];")) == []


# All threads of block 0 store; one of them sets the flag; one thread of block 1 waits for it, and all load.
OF_BLOCKS = """
    setp.eq.u32 %p, %c, 0; setp.eq.u32 %q, %t, 0; @!%p bra READ;
    st.global.u32 [%o+16], %t;
    ALL bar.sync 0; @!%q ret; ONE st.volatile.global.u32 [%a], 1;
    ret;
    READ: @!%q bra ON;
    LOOP: ld.volatile.global.u32 %r, [%a]; setp.eq.u32 %p, %r, 0; @%p bra LOOP;
    ON: bar.sync 0; BEHIND
    ld.global.u32 %r, [%o+16]; ret;
"""


@pytest.mark.parametrize("behind", ["", "membar.gl;"])
@pytest.mark.parametrize(("all_", "one"), [("membar.gl;", ""), ("", "membar.gl;")])
def test_a_barrier_hands_fences_on(all_, one, behind):
    body = OF_BLOCKS.replace("ALL", all_).replace("ONE", one).replace("BEHIND", behind)
    assert found(body, block=64, nbytes=80) == []


def test_a_barrier_is_no_fence_in_front_of_a_flag():
    body = OF_BLOCKS.replace("ALL", "").replace("ONE", "").replace("BEHIND", "membar.gl;")
    assert found(body, block=64, nbytes=80) == [("RAW", BEFORE, 3, 9)]


def test_a_fence_of_another_warp_counts_only_behind_a_barrier():
    """Warp 1 stores and has no fence; warp 0 has one, before or behind the barrier."""
    fence = "setp.lt.u32 %p, %t, 32; @%p membar.gl;"
    body = OF_BLOCKS.replace("ONE", "").replace("BEHIND", "membar.gl;")
    assert found(body.replace("ALL", fence), block=64, nbytes=80) == [("RAW", BEFORE, 3, 9)]
    assert found(body.replace("ALL", "bar.sync 0; " + fence), block=64, nbytes=80) == []


# Each block adds its part; the last one to take a ticket sums them up, and puts the counter back.
LAST = """
    mul.wide.u32 %o, %c, 4; add.u64 %o, %a, %o; mov.u32 %n, %nctaid.x; sub.u32 %n, %n, 1;
    st.global.u32 [%o+16], %c;
    FENCE atom.global.inc.u32 %r, [%a], 99; setp.ne.u32 %p, %r, %n; @%p ret;
    THEN
    ld.global.u32 %r, [%a+16];
    st.global.u32 [%a], 0;
    ret;
"""


def test_the_last_block_reads_the_parts_of_others_and_resets_their_counter():
    right = LAST.replace("FENCE", "membar.gl;")
    assert found(right.replace("THEN", "membar.gl;"), grid=4) == []
    assert found(right.replace("THEN", "bar.sync 0;"), grid=4) == []
    assert found(right.replace("THEN", ""), grid=4) == [("RAW", AFTER, 3, 6)]
    assert found(LAST.replace("FENCE", "").replace("THEN", "membar.gl;"), grid=4) == [("RAW", BEFORE, 3, 6)]


LOCKED = """
    LOOP: atom.global.cas.b32 %r, [%a], 0, 1; setp.ne.u32 %p, %r, 0; @%p bra LOOP;
    ENTER
    ld.global.u32 %r, [%a+4]; add.u32 %r, %r, 1;
    st.global.u32 [%a+4], %r;
    LEAVE
    OPEN [%a], 0;
    ret;
"""


@pytest.mark.parametrize("open_", ["atom.global.exch.b32 %n,", "st.volatile.global.u32", "st.relaxed.gpu.global.u32"])
def test_a_lock_needs_a_fence_where_it_is_taken_and_where_it_is_left(open_):
    body = LOCKED.replace("OPEN", open_)
    assert found(body.replace("ENTER", "membar.gl;").replace("LEAVE", "membar.gl;"), grid=3) == []
    wrong = found(body.replace("ENTER", "membar.gl;").replace("LEAVE", ""), grid=3)
    assert {(rule, missing) for rule, missing, *_ in wrong} == {("RAW", BEFORE), ("WAR", BEFORE), ("WAW", BEFORE)}
    wrong = found(body.replace("ENTER", "").replace("LEAVE", "membar.gl;"), grid=3)
    assert {(rule, missing) for rule, missing, *_ in wrong} == {("RAW", AFTER), ("WAR", AFTER), ("WAW", AFTER)}


def test_a_chain_of_blocks_hands_on_what_the_first_one_did():
    """Block 0 stores; each block waits for the one before it, and tells the next one; the last one loads."""
    body = """
        mul.wide.u32 %o, %c, 4; add.u64 %o, %a, %o; setp.eq.u32 %p, %c, 0; @!%p bra READ;
        st.global.u32 [%a+64], 1;
        bra SET;
        READ: ld.volatile.global.u32 %r, [%o]; setp.eq.u32 %p, %r, 0; @%p bra READ;
        FENCE
        SET: membar.gl; st.volatile.global.u32 [%o+4], 1;
        setp.ne.u32 %p, %c, 3; @%p ret; ld.global.u32 %r, [%a+64]; ret;"""
    assert found(body.replace("FENCE", "membar.gl;"), grid=4) == []


@pytest.mark.one_in(3)
@pytest.mark.parametrize("copy", ["", "mov.u64 %z, %a;", "cvta.to.global.u64 %z, %a;"])
def test_a_plain_load_may_guess_what_a_compare_and_swap_then_checks(copy):
    """As the programming guide makes a sum of f64; without the check the load is a race."""
    body = f"""
        .reg .u64 %z; .reg .b64 %old, %new, %was; {copy}
        ld.global.u64 %old, [%a];
        LOOP: add.u64 %new, %old, 1; atom.global.cas.b64 %was, [{"%z" if copy else "%a"}], %old, %new;
        setp.ne.u64 %p, %old, %was; mov.u64 %old, %was; @%p bra LOOP; ret;"""
    assert found(body, grid=3, block=64) == []
    assert found(body.replace("%old, [%a]", "%old, [%a+8]").replace("LOOP:", "LOOP: red.global.add.u64 [%a+8], 1;"),
                 grid=3, block=64) != []  # fmt: skip


@pytest.mark.parametrize("access", ["red.{}.global.add.u32 [%a], 1;", "st.relaxed.{}.global.u32 [%a], %c;"])
def test_an_access_for_the_block_races_with_those_of_other_blocks(access):
    assert found(access.format("relaxed.gpu" if "red" in access else "gpu") + " ret;", block=64) == []
    narrow = access.format("relaxed.cta" if "red" in access else "cta") + " ret;"
    assert found(narrow, grid=1, block=64) == []
    assert {missing for _, missing, *_ in found(narrow, block=64)} == {"the scope of the device"}
