"""Texts in PTX that become one, and what a program makes of it."""

from acl_py.compat.cuda.face.linked import joined, limited
from device_model.ptx.text.parser import parse

HEAD = ".version {}\n.target {}\n.address_size 64\n"
KERNEL = """
.file 1 "kernel.cu"
.extern .func (.param .b32 r) twice (.param .b32 x);
.extern .global .u32 shared_count;
.global .align 4 .u32 own = 1; // static
.global .align 1 .b8 $str[3] = {97, 98, 0};
.visible .entry kernel(.param .u64 out)
{
    .reg .u32 %a; .reg .u64 %o;
    .loc 1 7 0
    ld.param.u64 %o, [out]; ld.global.u32 %a, [own];
    { .param .b32 in; st.param.b32 [in], %a; .param .b32 back;
    call.uni (back), twice, (in);
    ld.param.b32 %a, [back]; }
    st.global.u32 [%o], %a; ret;
}
"""
FUNCTION = """
.file 1 "function.cu"
.visible .global .u32 shared_count;
.global .align 4 .u32 own; /* static { */
.global .align 1 .b8 $str[2] = {99, 0};
.weak .func (.param .b32 r) helper (.param .b32 x) { ret; }
.visible .func (.param .b32 r) twice (.param .b32 x)
{
    .reg .u32 %a; .reg .u64 %own;
    .loc 1 9 0
    ld.param.u32 %a, [x]; add.u32 %a, %a, %a; st.global.u32 [own], %a; st.param.b32 [r], %a; ret;
}
"""
WEAK = ".weak .func (.param .b32 r) helper (.param .b32 x) { .reg .u32 %a; ret; }\n"


def test_the_head_is_the_newest_of_all():
    text = joined([HEAD.format("7.5", "sm_80") + KERNEL, HEAD.format("8.10", "sm_90, debug") + FUNCTION])
    assert text.splitlines()[:3] == [".version 8.10", ".target sm_90, debug", ".address_size 64"]
    assert text.count(".version") == 1


def test_names_without_linkage_stay_apart_and_others_meet():
    module = parse(joined([HEAD.format("8.0", "sm_90") + KERNEL, HEAD.format("8.0", "sm_90") + FUNCTION]))
    assert sorted(module.variables) == ["$str$text0", "$str$text1", "own$text0", "own$text1", "shared_count"]
    assert module.variables["own$text0"].data == b"\1\0\0\0"
    assert sorted(module.functions) == ["helper", "kernel", "twice"]
    assert all(function.body is not None for function in module.functions.values())


def test_files_of_lines_are_numbered_anew():
    module = parse(joined([HEAD.format("8.0", "sm_90") + each for each in (KERNEL, FUNCTION)]))
    assert module.files == {1: "kernel.cu", 2: "function.cu"}
    assert {each.source.file for each in module.functions["twice"].body if getattr(each, "source", None)} == {2}


def test_of_weak_definitions_one_is_kept_and_a_strong_one_before_all():
    texts = [HEAD.format("8.0", "sm_90") + each for each in (FUNCTION, WEAK, WEAK)]
    assert joined(texts).count(".weak .func") == 1
    strong = WEAK.replace(".weak", ".visible")
    assert ".weak" not in joined([*texts, HEAD.format("8.0", "sm_90") + strong])


def test_a_limit_of_registers_is_that_of_each_kernel():
    assert ".entry kernel(.param .u64 out) .maxnreg 32\n" in limited(KERNEL, 32)
