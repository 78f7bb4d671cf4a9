"""What is made for a card to run, and what is said of its answers."""

from dataclasses import replace

import numpy as np

from tests.ptx import programs, running
from tests.ptx.card import comparing, making, narrowing, operands, run, singles, variants, warps
from tests.ptx.card.jobs import Part, program

ADD = singles.Single("add.u32", "u32", ("u32", "u32"))
SINE = singles.Single("sin.approx.f32", "f32", ("f32",))


def answers(part, wrong=()):
    """What a card would say that computes as the device does, but for the first element of *wrong* kernels."""
    for index, job in enumerate(part["jobs"]):
        made = program(part, job)
        result = np.frombuffer(running.on_device(made)[-1], np.uint8).copy()
        result[0] ^= job["name"] in wrong
        place = len(made.arguments) - 1
        yield index, "ok", [run.packed(place, np.zeros_like(result), result)]


def compared(tmp_path, capsys, name, part, **options):
    """What a comparison prints."""
    (tmp_path / "out").mkdir()
    part.write(tmp_path / f"{name}.npz")
    read = run.read(tmp_path / f"{name}.npz")
    run.write(tmp_path / "out" / f"{name}.out.npz", read, answers(read, **options))
    comparing.compare(tmp_path, tmp_path / "out", [name])
    return capsys.readouterr().out.splitlines()


def test_an_element_that_differs_is_shown_with_its_operands(tmp_path, capsys):
    part = Part()
    for single in (ADD, ADD._replace(words="sub.u32")):
        making.add_single(part, single, "two", operands.special_inputs(single.operands))
    assert compared(tmp_path, capsys, "singles", part, wrong=["sub.u32"]) == [
        "singles: {'different': 1, 'equal': 1}",
        "    sub.u32: 1 of 4096 differ; first 0: device 0x0, card 0x1 of 0x0, 0x0",
    ]


def test_approximate_functions_are_compared_with_their_bounds(tmp_path, capsys):
    part = Part()
    making.add_single(part, SINE, "sine", [np.linspace(-6, 6, 256, dtype=np.float32)])
    (head, line) = compared(tmp_path, capsys, "approximate", part)
    assert head == "approximate: function, bound, and the greatest error of the card and of the device"
    assert line.startswith("    sin.approx.f32: absolute 2**-20.50: card 2**-25.")
    assert line.endswith("100.0% equal; 0 of 0 special ones differ")


def test_a_kernel_that_failed_on_the_card_is_named(tmp_path, capsys):
    part = Part()
    making.add_single(part, ADD, "two", operands.special_inputs(ADD.operands))
    part.write(tmp_path / "singles.npz")
    run.write(tmp_path / "singles.out.npz", run.read(tmp_path / "singles.npz"), [(0, "launch: ILLEGAL_ADDRESS", [])])
    comparing.compare(tmp_path, tmp_path, ["singles"])
    assert capsys.readouterr().out.splitlines() == ["singles: {'launch': 1}", "    add.u32: launch: ILLEGAL_ADDRESS"]


def test_a_kernel_is_not_fused_by_the_vendors_assembler():
    text = "mul.f32 %a, %b, %c; add.ftz.f32 %a; add.rn.f32 %a; add.f64 %d; mul.wide.u32 %e; sub.sat.f16x2 %f;"
    assert making.unfused(text) == (
        "mul.rn.f32 %a, %b, %c; add.rn.ftz.f32 %a; add.rn.f32 %a; add.rn.f64 %d; mul.wide.u32 %e; sub.rn.sat.f16x2 %f;"
    )
    assert making.unfused("atom.global.add.f32 %a, [%b], %c;") == "atom.global.add.f32 %a, [%b], %c;"


def test_the_table_has_each_instruction_once_and_the_device_runs_it():
    table = singles.singles()
    assert len({single.name for single in table}) == len(table) == 1531
    part = {"texts": [], "arrays": {}}
    for single in table[::50]:
        part["texts"] = [singles.text(single)]
        columns = [each[: singles.BLOCK] for each in operands.special_inputs(single.operands)]
        part["arrays"] = {str(place): column.view(np.uint8) for place, column in enumerate(columns)}
        job = {"text": 0, "grid": (1, 1, 1), "block": (singles.BLOCK, 1, 1), "shared": 0,
               "arguments": [*(("array", str(place)) for place in range(len(columns))), ("zeros", 1024)]}  # fmt: skip
        with np.errstate(all="ignore"):
            running.on_device(program(part, job))


def test_the_kernels_of_warps_run_here():
    table = dict(warps.kernels())
    assert len(table) == len(list(warps.kernels()))
    for name in list(table)[::10]:
        arguments = [bytearray(warps.inputs(name).tobytes()), bytearray(4 * warps.THREADS * warps.RESULTS)]
        made = programs.Program(warps.text(table[name]), (1, 1, 1), (warps.THREADS, 1, 1), arguments, 0)
        with np.errstate(all="ignore"):
            running.on_device(made)


def test_a_nan_that_the_assembler_was_free_to_choose_is_explained():
    body = """.reg .f64 %x, %y; .reg .u64 %p; ld.param.u64 %p, [p]; ld.global.v2.f64 {%x, %y}, [%p];
sub.rn.f64 %x, %x, %y; st.global.f64 [%p], %x; ret;"""
    text = f".version 8.4\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n{body}\n}}\n"
    one, two = 0x7FF8000000000011, 0x7FF8000000000022
    made = programs.Program(text, (1, 1, 1), (1, 1, 1), [bytearray(np.array([one, two], np.uint64).tobytes())], 0)
    found = running.on_device(made)
    for first, is_explained in ((one, True), (two, True), (5, False)):
        card = np.array([first, two], np.uint64).view(np.uint8)
        assert variants.explain(made, "k", found, [card]) is is_explained
    assert not variants.explain(made, "k", found, [np.array([two, one], np.uint64).view(np.uint8)])


def test_a_program_that_a_card_computes_otherwise_is_left_with_the_lines_that_it_needs():
    """The card here takes `cnot` for `not`. Of its value `%c` nothing is stored, so that is left out first."""
    needed = [
        ".version 8.4", ".target sm_90", ".visible .entry k(.param .u64 p)", "{", ".reg .u64 %a; .reg .b32 %x, %y, %c;",
        "ld.param.u64 %a, [p];", "cnot.b32 %y, 5;", "st.global.b32 [%a+4], %y;", "}",
    ]  # fmt: skip
    lines = [*needed[:6], "mov.b32 %x, 5;", "cnot.b32 %c, %x;", needed[6], "add.u32 %x, %x, %y;", needed[7],
             "bar.sync 0;", "st.global.b32 [%a], %x;", "ret;", "}"]  # fmt: skip
    made = programs.Program("\n".join(lines), (1, 1, 1), (1, 1, 1), [bytearray(16)], 0)

    def on_card(program):
        return running.on_device(replace(program, text=program.text.replace("cnot.b32", "not.b32")))

    assert narrowing.narrowed(made, running.on_device) is made
    assert narrowing.narrowed(made, on_card).text.splitlines() == needed
