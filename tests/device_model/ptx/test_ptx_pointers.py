"""Calls through registers."""

import numpy as np
import pytest
from lanes import kernel, launch

from device_model.kernel.findings import KernelError
from device_model.ptx.code.compiler import compile_kernel
from device_model.ptx.text.parser import parse

FUNCTIONS = """
    .func (.param .u32 r) twice(.param .u32 x) {
    .reg .u32 %v; ld.param.u32 %v, [x]; add.u32 %v, %v, %v; st.param.u32 [r], %v; ret; }
    .func (.param .b32 q) square(.param .b32 n) {
    .reg .u32 %v; ld.param.u32 %v, [n]; mul.lo.u32 %v, %v, %v; st.param.u32 [q], %v; ret; }
    .func (.param .u64 r) other(.param .u32 x) { ret; }"""
CALL = """
    .reg .u32 %t, %r, %d; .reg .u64 %a, %o, %f, %g; .reg .pred %p;
    mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 4; ld.param.u64 %a, [y]; add.u64 %a, %a, %o;
    mov.u64 %f, twice; mov.u64 %g, square; setp.lt.u32 %p, %t, 16; selp.u64 %f, %f, %g, %p;
    { .param .b32 p0; .param .b32 r0; st.param.b32 [p0], %t; PROTOTYPE
    call (r0), %f, (p0), P; ld.param.b32 %r, [r0]; }
    mov.u64 %g, other; st.global.u32 [%a], %r; ret;"""
Y = ".param .u64 y"


@pytest.mark.parametrize("prototype", ["P: .callprototype (.param .b32 _) _ (.param .b32 _);",
                                       "P: .calltargets twice, square;"])  # fmt: skip
def test_lanes_call_the_function_whose_address_they_have(prototype):
    y = np.zeros(32, np.uint32)
    launch(kernel(CALL.replace("PROTOTYPE", prototype), Y, FUNCTIONS), y)
    assert y.tolist() == [2 * t if t < 16 else t * t for t in range(32)]


def test_an_address_that_no_function_has():
    body = CALL.replace("PROTOTYPE", "P: .callprototype (.param .b32 _) _ (.param .b32 _); mov.u64 %f, 5;")
    with pytest.raises(KernelError, match="a call of an address that no function has that fits it"):
        launch(kernel(body, Y, FUNCTIONS), np.zeros(32, np.uint32))


def test_a_call_that_no_function_fits_is_an_error_of_the_threads_that_make_it():
    body = CALL.replace("PROTOTYPE", "P: .callprototype (.param .b32 _) _ (.param .b32 _);")
    none = FUNCTIONS.replace(".param .u32 x", ".param .u64 x").replace(".param .b32 n", ".param .b64 n")
    with pytest.raises(KernelError, match="a call of an address that no function has that fits it"):
        launch(kernel(body, Y, none), np.zeros(32, np.uint32))
    launch(kernel("ret;" + body, Y, none), np.zeros(32, np.uint32))


def test_a_function_calls_another_whose_parameters_have_the_same_place():
    body = CALL.replace("PROTOTYPE", "P: .callprototype (.param .b32 _) _ (.param .b32 _);")
    inner = FUNCTIONS.replace(
        "mul.lo.u32 %v, %v, %v;",
        """
        { .param .b32 p0; .param .b32 r0; .reg .u32 %w; st.param.b32 [p0], %v; call (r0), twice, (p0);
        ld.param.b32 %w, [r0]; ld.param.u32 %v, [n]; mad.lo.u32 %v, %w, 100, %v; }""",
    )
    y = np.zeros(32, np.uint32)
    launch(kernel(body, Y, inner), y)
    assert y.tolist() == [2 * t if t < 16 else 201 * t for t in range(32)]


class Counted(list):
    """A list that counts how often it is gone through."""

    reads = 0

    def __iter__(self):
        self.reads += 1
        return super().__iter__()


def test_a_module_is_searched_for_addresses_of_functions_once_and_not_for_each_of_its_kernels():
    """A module may have hundreds of kernels, so their number would count twice."""
    module = parse(kernel("ret;", "", ".visible .entry other() { ret; }"))
    body = module.functions["other"].body = Counted(module.functions["other"].body)
    for _ in range(3):
        compile_kernel(module, "k", {})
    assert body.reads == 1
