"""PTX text becomes a module, or an error with its line."""

import pytest
from lanes import HEAD, kernel

from device_model.ptx.text.errors import PtxError
from device_model.ptx.text.parser import parse
from device_model.ptx.text.syntax import Address, Instruction, Label, Location, Number, Pair, Symbol, Vector


def instructions(text):
    return [item for item in parse(text).functions["k"].body if isinstance(item, Instruction)]


def test_a_module_has_its_version_its_target_its_files_and_its_kernels():
    module = parse(
        '.version 7.8\n.target sm_86, debug\n.address_size 64\n.visible .entry k() { ret; }\n.file 1 "a.cu"\n'
    )
    assert (module.version, module.target, module.files) == ((7, 8), "sm_86", {1: "a.cu"})
    assert list(module.entries) == ["k"]


def test_a_text_of_2011_is_read_like_one_of_today():
    module = parse(
        """
        .version 3.0
        .target sm_20
        .address_size 64
        .file 1 "/tmp/tmpxft_000012c7_00000000-9_test.cpp3.i"
        .entry k (.param .u64 k_param_0) { .reg .s64 %rl<5>; .loc 1 6 1 ld.param.u64 %rl1, [k_param_0]; ret; }
        """
    )
    assert (module.version, module.target, [*module.entries]) == ((3, 0), "sm_20", ["k"])


def test_parameters_have_types_alignments_and_sizes():
    text = kernel("ret;", ".param .u64 .ptr .global .align 16 a, .param .align 8 .b8 s[24], .param .f32 x")
    found = [(each.name, each.align, each.nbytes, each.is_pointer) for each in parse(text).functions["k"].parameters]
    assert found == [("a", 8, 8, True), ("s", 8, 24, False), ("x", 4, 4, False)]


def test_variables_have_their_initial_bytes_and_the_addresses_in_them():
    module = parse(
        HEAD + ".global .align 4 .u32 n[2][2] = {{1, 2}, {3}};\n.const .f32 f = 0f3F800000;\n"
        ".global .u64 p[2] = {n, generic(n)+8};\n.global .b8 m[] = {1, 0xFF00(n)};\n"
    )
    assert module.variables["n"].data == bytes([1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0])
    assert module.variables["f"].data == b"\0\0\x80\x3f"
    assert [(r.at, r.symbol, r.is_generic) for r in module.variables["p"].relocations] == [
        (0, Symbol("n"), False), (8, Symbol("n", 8), True),
    ]  # fmt: skip
    assert (module.variables["m"].shape, module.variables["m"].relocations[0].shift) == ((2,), 8)


def test_constant_expressions_are_computed_as_in_c():
    text = kernel(
        ".reg .s64 %r; mov.s64 %r, (1 << 4) | 3 * -2 + 7 / 2; mov.s64 %r, -7 % 3; mov.s64 %r, 2 > 1 ? 5 : 6; ret;"
    )
    assert [each.operands[1] for each in instructions(text)[:3]] == [Number(-3), Number(-1), Number(5)]


def test_registers_of_ranges_are_made_once_and_those_of_inner_scopes_are_others():
    text = kernel(".reg .b32 %r<3>; mov.b32 %r1, %r2; { .reg .b32 %r1; mov.b32 %r1, %r2; } mov.b32 %r1, 0; ret;")
    first, inner, last = (each.operands for each in instructions(text)[:3])
    assert first[0] is last[0]
    assert inner[0] is not first[0]
    assert inner[1] is first[1]


def test_labels_of_inner_scopes_are_others():
    text = kernel("L: bra L; { L: bra L; } bra L; ret;")
    names = [item.name for item in parse(text).functions["k"].body if isinstance(item, Label)]
    targets = [each.operands[0].name for each in instructions(text)[:3]]
    assert names == ["L", "L@2"]
    assert targets == ["L", "L@2", "L"]


def test_operands_of_all_kinds():
    text = kernel(
        ".reg .pred p, q; .reg .b32 %r<4>; .reg .b64 %rd; .shared .b32 s[4];\n"
        "@!p setp.eq.s32 p|q, %r1, 5;\n ld.shared.v2.b32 {%r1, _}, [s+4];\n mov.u32 %r2, %tid.x;\n"
        "ld.global.u32 %r3, [%rd+-8];\n.loc 1 12 3, function_name L, inlined_at 1 2 3\nret;"
    )
    setp, load, move, from_global, end = instructions(text)
    assert setp.guard[1]
    assert isinstance(setp.operands[0], Pair)
    assert load.operands[1] == Address(Symbol("s"), 4)
    assert isinstance(load.operands[0], Vector)
    assert move.operands[1].name == "%tid.x"
    assert from_global.operands[1].offset == -8
    assert (setp.source, end.source) == (None, Location(1, 12, 3))


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("hello", 1, "does not begin with .version"),
        (".version 2.3\n.target sm_90\n", 1, "PTX 2.3 is not supported"),
        (".version 9.9\n.target sm_90\n", 1, "PTX 9.9 is not supported"),
        (".version 8.0\n.target sm_100a\n", 2, "newer than the cards that are simulated"),
        (HEAD + ".visible .entry k( {", 4, "no state space of a variable"),
        (HEAD + ".global .u32 a = {1, 2;", 4, "missing before"),
        (kernel("add.u32 %r1, 1"), 8, "is missing before '}'"),
        (kernel("\n.reg .b32 %r1, %r1;"), 8, "declared twice"),
        (kernel("L: L: ret;"), 7, "there twice"),
        (kernel("/* no end"), 7, "a comment without an end"),
        (HEAD + ".global .u32 a[2] = {1, 2, 3};", 4, "more values than elements"),
        (HEAD + ".global .u32 a = 1 / 0;", 4, "has no value"),
        (HEAD + ".entry k()\n.minnctapersm 0 { ret; }", 5, "0 is no whole number from 1"),
        (HEAD + ".entry k()\n.maxnctapersm 2 { ret; }", 5, "not in PTX any more; write .minnctapersm"),
        (HEAD + ".entry k()\n.reqnctapercluster 2 { ret; }", 5, "clusters are not simulated"),
        (HEAD + ".entry k()\n.maxntid 8\n.reqntid 8\n{ ret; }", 4, "k has .maxntid and .reqntid"),
        (HEAD + ".global .texref t;", 4, ".texref is not supported: textures and surfaces are not simulated"),
        (HEAD + ".global .u32 g[];", 4, "g has no length; write how many elements it has, or .extern"),
        (kernel(".shared .b8 s[];"), 7, "s has no length"),
        (HEAD + ".global .f32 g = 1;", 4, "1 is no value of type .f32: write it with a point, or as 0f.."),
        (HEAD + ".shared .u32 s = 1;", 4, "s is in .shared memory, where variables have no initial values"),
        (HEAD + ".local .u32 v;", 4, "v is in .local memory, and in no function"),
        (HEAD + ".global .v4 .f64 g;", 4, "4 values of type .f64 are more than 128 bits"),
        (HEAD + ".entry k(.reg .u32 a) { ret; }", 4, "k is a kernel and has a parameter in a register; write .param"),
        (HEAD + ".entry k(.param .b8 a[4353]) { ret; }", 4, "the parameters of k have 4353 bytes, more than 4352"),
    ],
)  # fmt: skip
def test_bad_text_is_an_error_with_its_line(text, line, what):
    with pytest.raises(PtxError) as caught:
        parse(text)
    assert what in str(caught.value)
    assert caught.value.line == line
