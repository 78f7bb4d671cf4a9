"""Rare values of floats: NaN, whose bits a card sets, and subnormal numbers."""

import numpy as np
from lanes import kernel, launch

REGISTERS = """
    .reg .pred %p; .reg .b32 %a, %b, %r; .reg .b64 %x, %y, %z; .reg .u64 %q;
    ld.param.u64 %q, [q];
"""
Q = ".param .u64 q"


def result(body, *values, bits=32):
    """The bits that *body* leaves in %r or %z, with *values* in %a and %b, or in %x and %y."""
    names = ("%a", "%b") if bits == 32 else ("%x", "%y")
    loads = [f"ld.global.b{bits} {name}, [%q+{8 * place}];" for place, name in enumerate(names[: len(values)])]
    q = np.array([*values, *[0] * (4 - len(values))], np.uint64)
    to = "%r" if bits == 32 else "%z"
    launch(kernel(REGISTERS + "".join(loads) + body + f"st.global.b{bits} [%q+24], {to}; ret;", Q), q, block=(1, 1, 1))
    return hex(q[3])


def test_slct_with_ftz_takes_a_negative_subnormal_as_zero():
    assert result("slct.ftz.b32.f32 %r, 1, 2, %a;", 0x80000001) == "0x1"
    assert result("slct.b32.f32 %r, 1, 2, %a;", 0x80000001) == "0x2"


def test_min_and_max_with_nan_give_nan_if_one_operand_is():
    for name in ("min", "max"):
        assert result(f"{name}.NaN.f32 %r, %a, %b;", 0x7FC00001, 0x3F800000) == "0x7fffffff"
        assert result(f"{name}.f32 %r, %a, %b;", 0x7FC00001, 0x3F800000) == "0x3f800000"


def test_neg_and_abs_of_a_nan_give_the_nan_of_arithmetic():
    for name in ("neg", "abs"):
        assert result(f"{name}.f32 %r, %a;", 0xFFC00001) == "0x7fffffff"
        assert result(f"{name}.f16x2 %r, %a;", 0xFE013C00)[:6] == "0x7fff"


def test_a_nan_that_an_atomic_addition_makes_is_that_of_arithmetic():
    body = "add.u64 %q, %q, 8; atom.global.add.f32 %r, [%q], %a; ld.global.b32 %r, [%q]; sub.u64 %q, %q, 8;"
    assert result(body, 0xFFC00001, 0x3F800000) == "0x7fffffff"
    assert result(body, 0x3F800000, 0x7F800001) == "0x7fffffff"


def test_an_atomic_addition_of_f32_flushes_subnormals_in_global_memory_only():
    least, more, subnormal = 0x00800000, 0x80C00000, 0x800EC094
    start = ".shared .b32 cell; cvta.shared.u64 %z, cell;"
    body = start + "st.b32 [{at}], %a; {what}.add.f32 {to}[{at}], %b; ld.b32 %r, [{at}];"
    for what, to in (("atom", "%b, "), ("red", "")):
        for space, at in ((".global", "%q+8"), ("", "%q+8")):
            code = body.format(at=at, what=what + space, to=to)
            assert [result(code, least, other) for other in (subnormal, more)] == ["0x800000", "0x80000000"]
        code = body.format(at="%z", what=what, to=to)
        assert [result(code, least, other) for other in (subnormal, more)] == ["0x713f6c", "0x80400000"]


def test_lanes_that_add_to_one_f32_flush_what_each_of_them_leaves():
    body = """
        .reg .b16 %h; cvt.u16.u32 %h, 1;
        mov.u32 %a, %tid.x; and.b32 %a, %a, 1; setp.eq.u32 %p, %a, 0; selp.b32 %b, 0x00c00000, 0x80800000, %p;
        red.global.add.f32 [%q+8], %b; red.global.add.v2.f32 [%q], {%b, %b}; red.global.add.noftz.f16 [%q+12], %h; ret;
    """
    q = np.full(4, 0, np.uint32)
    launch(kernel(REGISTERS + body, Q), q, block=(64, 1, 1))
    assert q.tolist() == [0, 0, 0, 64]


def test_a_nan_keeps_its_sign_and_the_top_of_its_fraction_on_its_way_from_and_to_64_bits():
    body = "cvt.rn.f32.f64 %r, %x; mov.b64 %z, {%r, 0};"
    assert result(body, 0xFFF4000020000001, bits=64) == "0xffe00001"
    assert result("cvt.u32.u64 %r, %x; cvt.f64.f32 %z, %r;", 0xFFA12345, bits=64) == "0xfffc2468a0000000"


def test_a_nan_is_seen_if_only_some_lanes_write_over_it():
    body = "setp.eq.u32 %p, 0, 1; mul.rn.f32 %r, %a, %b; @%p add.rn.f32 %r, %a, %a;"
    assert result(body, 0x7FC00001, 0x3F800000) == "0x7fffffff"


def test_integer_arithmetic_sees_the_bits_of_a_nan():
    assert result("mul.rn.f32 %r, %a, %b; add.u32 %r, %r, 1;", 0x7FC00001, 0x3F800000) == "0x80000000"


def test_of_two_nans_of_64_bits_the_second_one_goes_on():
    one, two = 0x7FF8000000000011, 0xFFF0000000000022
    for name in ("add.rn", "sub.rn", "mul.rn", "min", "max"):
        assert result(f"{name}.f64 %z, %x, %y;", one, two, bits=64) == "0xfff8000000000022"
    assert result("div.rn.f64 %z, %x, %y;", one, two, bits=64) == hex(one)
    assert result("fma.rn.f64 %z, %x, %y, %x;", one, two, bits=64) == "0xfff8000000000022"
    assert result("fma.rn.f64 %z, %x, 0d3FF0000000000000, %y;", one, two, bits=64) == "0xfff8000000000022"


def test_a_nan_of_64_bits_goes_through_arithmetic():
    body = "add.rn.f64 %z, %x, %y; mul.rn.f64 %z, %z, 0d4000000000000000;"
    assert result(body, 0x7FF8000000000011, 0xFFF0000000000022, bits=64) == "0xfff8000000000022"


def test_a_nan_of_64_bits_that_is_rounded_to_an_integer_stays_that_nan():
    assert result("cvt.rni.f64.f64 %z, %x;", 0x7FF0000000000011, bits=64) == "0x7ff8000000000011"


def test_xorsign_sees_the_sign_of_a_nan():
    body = "mul.rn.f32 %r, %a, 0f00000000; max.xorsign.abs.f32 %r, %r, %b;"
    assert result(body, 0x7F800000, 0x40000000) == "0x40000000"


def test_a_nan_is_seen_by_an_instruction_whose_last_word_is_no_type():
    body = """
        .reg .u64 %a; .reg .b32 %r; .reg .f32 %f; ld.param.u64 %a, [y];
        sub.f32 %f, 0f7F800000, 0f7F800000; mov.b32 %r, 3; prmt.b32.rc8 %r, %f, 0, %r; st.global.u32 [%a], %r; ret;"""
    y = np.zeros(4, np.uint32)
    launch(kernel(body, ".param .u64 y"), y, block=(1, 1, 1))
    assert y[0] == 0x7F7F7F7F
