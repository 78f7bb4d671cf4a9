"""Instructions have the modifiers and operands that PTX gives them, and no others."""

from pathlib import Path

import pytest
from lanes import HEAD, kernel

from device_model.ptx.code.compiler import check
from device_model.ptx.code.forms.fitting import check_function
from device_model.ptx.code.forms.form import FORMS
from device_model.ptx.code.opcodes import OPCODES
from device_model.ptx.text.errors import PtxError
from device_model.ptx.text.parser import parse

ANSWERS = Path(__file__).parent / "data" / "forms.txt"  # what the vendor's assembler (13.0, sm_90a) takes
DECLARED = """
.shared .align 16 .b8 sv[256]; .local .align 16 .b8 lv[256]; .reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<9>;
.reg .u32 %u<9>; .reg .f32 %f<9>; .reg .b64 %rd<9>; .reg .f64 %fd<9>; .reg .b128 %q<9>;
"""
VARIABLES = ".global .align 16 .b8 gv[256]; .const .align 16 .b8 cv[256];"


def loaded(body, parameters=".param .u64 pp"):
    check(parse(kernel(f"{DECLARED.strip()}\n{body}\nL: ret;", parameters, VARIABLES)))


def refusal(body):
    with pytest.raises(PtxError) as caught:
        loaded(body)
    return str(caught.value)


def is_taken(module, function):
    try:
        check_function(module, function)
    except PtxError:
        return False
    return True


def test_every_instruction_that_is_translated_has_forms():
    assert FORMS.keys() == OPCODES.keys()


def test_instructions_are_taken_and_refused_as_by_the_assembler():
    answers = [line.split(maxsplit=1) for line in ANSWERS.read_text().splitlines()]
    kernels = [
        f".entry k{number}(.param .u64 pp) {{ {DECLARED} {text}\nL: ret; }}\n"
        for number, (_, text) in enumerate(answers)
    ]
    module = parse(HEAD + VARIABLES + "".join(kernels))
    taken = [is_taken(module, function) for function in module.functions.values()]
    wrong = [text for is_right, (answer, text) in zip(taken, answers, strict=True) if is_right != (answer == "yes")]
    assert wrong == []


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("add.foo.s32 %r1, %r2, %r3;", "add.foo.s32: add has no modifier .foo; it takes .bf16, "),
        ("ld.global.bogus.u32 %r1, [gv];", "ld has no modifier .bogus"),
        ("cvt.rn.sat.weird.f32.s32 %f1, %r2;", "cvt has no modifier .weird"),
        ("cvt.rn.s32.f32 %r1, %f1;", "cvt.rn.s32.f32: .s32 does not fit behind .rn; forms of it: cvt [RND"),
        ("cvt.f32.rn.s32 %f1, %r1;", "cvt.f32.rn.s32: .rn does not fit behind .f32"),
        ("add.rn.rn.f32 %f1, %f2, %f3;", ".rn does not fit behind .rn"),
        ("fma.f32 %f1, %f2, %f3, %f4;", ".f32 does not fit"),
        ("mul.lo %r1, %r2, %r3;", "mul.lo: a modifier is missing"),
        ("add.f32 %r1, %f1;", "add.f32: it has 3 operands, not 2"),
        ("st.global.u32 [gv];", "st.global.u32: it has 2 operands, not 1"),
        ("add.f32 %f1, %f2, %fd1;", "the register %fd1 of type .f64 holds no value of type .f32 (operand 3)"),
        ("add.f32 %f1, %f2, 1;", "1 is no number of type .f32: write it with a point, or as 0f.. (operand 3)"),
        ("add.u32 %r1, %tid.x, 1;", "%tid.x is a special register: move it into another one first (operand 2)"),
        ("add.u32 %r1, nope, 1;", "nope is not declared in the module (operand 2)"),
        ("mov.u32 %r1, %r99;", "there is no special register %r99"),
        ("bra NOWHERE;", "bra: NOWHERE is no label of this function"),
        ("st.const.u32 [cv], %r1;", "st has no modifier .const"),
        ("st.param.u32 [pp], %r1;", "pp is a parameter, which is not written"),
        ("ld.shared.u32 %r1, [gv];", "gv is in .global memory, not in .shared"),
        ("st.shared.v4.b64 [sv], {%rd1, %rd2, %rd3, %rd4};", "4 values of type .b64 are more than 128 bits"),
        ("ld.global.v2.u32 {%r1}, [gv];", "a vector of 2 is missing"),
        ("ld.global.v4.b64 {%rd1, %rd2, %rd3, %rd4}, [gv];", "this form of it is not simulated"),
        ("redux.sync.min.f32 %f1, %f2, -1;", "is not supported: this form of it is not simulated"),
        ("T: .branchtargets NOWHERE;", "T in k has NOWHERE, which is no label"),
        ("bar.sync 16;", "bar.sync: there is no barrier 16; a block has the barriers 0 to 15"),
        ("bar.red.and.pred %p1, 17, %p2;", "there is no barrier 17"),
        ("bar.arrive 1, 33;", "33 threads are no whole warps, and whole warps arrive at a barrier"),
        ("cp.async.ca.shared.global [sv], [%rd1], 12;", "it copies 4 or 8 or 16 bytes"),
        ("cp.async.cg.shared.global [sv], [%rd1], 8;", "it copies 16 bytes"),
        ("cp.async.ca.shared.global [sv], [%rd1], 4, 8;", "it copies 4 bytes, and reads 8 of them"),
        ("shfl.up.b32 %r1, %r2, 1, 0;", "PTX 6.4 and newer has it with .sync only"),
        ("vote.any.pred %p1, %p2;", "PTX 6.4 and newer has it with .sync only"),
        ("ld.shared.nc.f32 %f1, [sv];", "ld.shared.nc.f32: .nc does not fit behind .shared"),
        ("mov.b64 %rd1, {%r1, %r2, %r3};", "a vector of 3 is no value of type .b64"),
        ("mov.b64 %rd1, {%h1, %h2};", "2 registers of type .b16 are no value of type .b64"),
        ("mov.f64 %fd1, {%r1, %r2};", "a value of type .f64 has no parts: write .b64"),
        ("mov.u32 %r1, %clock64;", "%clock64 of type .u64 is no value of type .u32"),
        ("wgmma.fence.sync.aligned;", "is not supported: instructions of warp groups are not simulated"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named_with_its_line(body, what):
    message = refusal(body)
    assert what in message
    assert message.startswith("PTX line ")


def test_modifiers_that_are_no_types_stand_in_any_order():
    loaded("add.sat.rn.f32 %f1, %f2, %f3; atom.add.relaxed.gpu.global.u32 %r1, [gv], 1; ld.nc.global.u32 %r1, [gv];")


def test_older_texts_have_votes_without_sync():
    old = HEAD.replace("8.0", "6.3").replace("sm_90", "sm_70")
    check(parse(f"{old}.entry k() {{ .reg .pred %p, %q; vote.any.pred %p, %q; ret; }}\n"))


def test_a_conversion_takes_a_special_register():
    loaded("cvt.u64.u32 %rd1, %tid.x;")


def test_functions_that_no_kernel_calls_are_checked_too():
    with pytest.raises(PtxError, match=r"PTX line 4: add\.foo\.s32"):
        check(parse(HEAD + ".func f() { .reg .s32 %r; add.foo.s32 %r, %r, %r; ret; }\n"))
