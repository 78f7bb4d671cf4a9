"""Functions that call themselves: each call has registers, variables and parameters of its own."""

import numpy as np
import pytest
from lanes import kernel, launch

from device_model.kernel.findings import KernelError
from device_model.ptx.checks.hazards import Hazards

Y = ".param .u64 y"
CALL = """
    .reg .u32 %t; .reg .u64 %y, %o; .reg .s64 %n;
    mov.u32 %t, %tid.x; cvt.u64.u32 %n, %t; ld.param.u64 %y, [y]; mul.wide.u32 %o, %t, 8; add.u64 %y, %y, %o;
    { .param .b64 a; .param .b64 r; st.param.b64 [a], %n; call (r), f, (a); ld.param.b64 %n, [r]; }
    st.global.u64 [%y], %n; ret;"""


def results(functions, lanes=12):
    """What `f` gives for the numbers from 0 on; no mistake is found."""
    watches = []

    def watch(module, program):
        watches.append(Hazards(module, program))
        return watches[-1]

    y = np.zeros(lanes, np.int64)
    launch(kernel(CALL, Y, functions), y, block=(lanes, 1, 1), watch=watch)
    assert list(watches[0].findings) == []
    return y.tolist()


def test_a_function_calls_itself_twice():
    assert results("""
        .func (.param .b64 r) f(.param .b64 x) {
        .reg .pred %p; .reg .b64 %n, %m, %a, %b;
        ld.param.b64 %n, [x]; setp.lt.s64 %p, %n, 2; mov.b64 %a, %n; @%p bra DONE;
        add.s64 %m, %n, -1;
        { .param .b64 a; .param .b64 r; st.param.b64 [a], %m; call (r), f, (a); ld.param.b64 %a, [r]; }
        add.s64 %m, %n, -2;
        { .param .b64 a; .param .b64 r; st.param.b64 [a], %m; call (r), f, (a); ld.param.b64 %b, [r]; }
        add.s64 %a, %a, %b;
        DONE: st.param.b64 [r], %a; ret; }""") == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89]  # fmt: skip


def test_two_functions_call_each_other_and_give_on_addresses_of_their_variables():
    """Each `g` reads the variable of the `f` that called it, while a deeper `f` has one too."""
    assert results("""
        .func (.param .b64 r) f(.param .b64 x);
        .func (.param .b64 r) g(.param .b64 x, .param .b64 place) {
        .reg .b64 %n, %a, %v;
        ld.param.b64 %n, [x];
        { .param .b64 a; .param .b64 r; st.param.b64 [a], %n; call (r), f, (a); ld.param.b64 %n, [r]; }
        ld.param.b64 %a, [place]; ld.b64 %v, [%a]; add.s64 %n, %n, %v; st.param.b64 [r], %n; ret; }
        .func (.param .b64 r) f(.param .b64 x) {
        .local .align 8 .b8 own[16]; .reg .pred %p; .reg .b64 %n, %a;
        ld.param.b64 %n, [x]; st.local.b64 [own+8], %n; setp.eq.s64 %p, %n, 0; @%p bra DONE;
        add.s64 %n, %n, -1; mov.u64 %a, own; cvta.local.u64 %a, %a; add.s64 %a, %a, 8;
        { .param .b64 a; .param .b64 b; .param .b64 r; st.param.b64 [a], %n; st.param.b64 [b], %a;
        call (r), g, (a, b); ld.param.b64 %n, [r]; }
        DONE: st.param.b64 [r], %n; ret; }""") == [n * (n + 1) // 2 for n in range(12)]  # fmt: skip


def test_a_call_with_a_guard_keeps_predicates_and_results_that_were_stored_before_it():
    functions = """
        .func (.param .b64 r) f(.param .b64 x) {
        .reg .pred %p, %q; .reg .b64 %n, %m; .reg .b32 %s;
        ld.param.b64 %n, [x]; st.param.b64 [r], %n; setp.gt.s64 %q, %n, 0;
        and.b64 %m, %n, 1; setp.eq.s64 %p, %m, 1; sub.s64 %m, %n, 1;
        { .param .b64 a; .param .b64 r; st.param.b64 [a], %m; @%q call (r), f, (a); @%q ld.param.b64 %m, [r]; }
        @!%p ret;
        ld.param.b64 %n, [x]; add.s64 %m, %m, %n; st.param.b64 [r], %m; ret; }"""
    assert results(functions, lanes=6) == [0, 1, 2, 5, 4, 9]


def test_a_stack_that_is_full_is_an_access_behind_it():
    endless = ".func (.param .b64 r) f(.param .b64 x) { call (r), f, (x); ret; }"
    with pytest.raises(KernelError, match="of local memory, in PTX line"):
        launch(kernel(CALL, Y, endless), np.zeros(32, np.int64))
