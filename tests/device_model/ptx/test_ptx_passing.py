"""Calls that give and get values in registers, and functions that have parameters there."""

import numpy as np
import pytest
from lanes import kernel, launch

from device_model.ptx.code.compiler import check
from device_model.ptx.text.errors import PtxError
from device_model.ptx.text.parser import parse

PLUS = ".func (.reg .u32 r) plus(.reg .u32 a, .param .u32 b) {{ .reg .u32 %b; ld.param.u32 %b, [b]; {} }}"
BODY = """
    .reg .pred %p; .reg .u32 %t, %r; .reg .f32 %f; .reg .u64 %a, %o;
    mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 4; ld.param.u64 %a, [y]; add.u64 %a, %a, %o; mov.u32 %r, 7;
    {} st.global.u32 [%a], %r; ret;"""


def run(function, call):
    y = np.zeros(32, np.uint32)
    launch(kernel(BODY.format(call), ".param .u64 y", function), y)
    return y.tolist()


@pytest.mark.parametrize("body", ["add.u32 r, a, %b; ret;", "add.u32 r, a, %b;"])
def test_a_function_has_its_parameter_and_its_result_in_registers(body):
    assert run(PLUS.format(body), "call (%r), plus, (%t, 100);") == [t + 100 for t in range(32)]


def test_lanes_that_return_early_give_back_what_they_have():
    body = ".reg .pred %p; mov.u32 r, %b; setp.gt.u32 %p, a, 3; @%p ret; add.u32 r, r, a; ret;"
    assert run(PLUS.format(body), "call (%r), plus, (%t, 5);") == [t + 5 if t <= 3 else 5 for t in range(32)]


def test_lanes_that_do_not_call_keep_their_register():
    function = PLUS.format("add.u32 r, a, %b; ret;")
    found = run(function, "setp.lt.u32 %p, %t, 3; @%p call (%r), plus, (%t, 20);")
    assert found == [20, 21, 22, *[7] * 29]


def test_a_function_that_calls_itself_has_its_registers_on_the_stack():
    body = """.reg .pred %p; .reg .u32 %t; mov.u32 r, %b; setp.eq.u32 %p, a, 0; @%p ret; sub.u32 %t, a, 1;
        call (r), plus, (%t, %b); add.u32 r, r, a; ret;"""
    assert run(PLUS.format(body), "call (%r), plus, (%t, 1);") == [1 + t * (t + 1) // 2 for t in range(32)]


@pytest.mark.parametrize(
    ("function", "call", "what"),
    [
        (PLUS.format("ret;"), "call (%r), plus, (%t);", "plus has 2 of what the call gives 1 of"),
        (PLUS.format("ret;"), "call (%r), plus, (%f, %t);", "register %f of type .f32 holds no value of type .u32"),
        (".func g(.reg .f32 a) { ret; }", "call g, (1);", "1 is no number of type .f32"),
        (".func g(.param .b8 a[16]) { ret; }", "call g, (%t);", "%t is no structure of 16 bytes"),
        (".func g(.param .b8 a[16]) { ret; }", "{ .param .b32 q; call g, (q); }", "q has 4 bytes, and a of g has 16"),
        (".func g(.reg .pred a) { ret; }", "call g, (%p);", "the parameter a is a predicate"),
        ("", "call nowhere, (5);", "the type of 5 in the call is not known"),
    ],
)
def test_what_a_function_does_not_take_is_refused(function, call, what):
    with pytest.raises(PtxError) as caught:
        run(function, call)
    assert what in str(caught.value)


@pytest.mark.parametrize(
    ("function", "call", "what"),
    [
        (".extern .func g;", "call g;", "the function g is not in the module"),
        (".visible .entry g() { ret; }", "call g;", "g is a kernel, and only functions are called"),
    ],
)
def test_calls_of_what_is_no_function_are_refused_when_the_module_is_loaded(function, call, what):
    with pytest.raises(PtxError) as caught:
        check(parse(kernel(BODY.format(call), ".param .u64 y", function)))
    assert what in str(caught.value)
