"""What is made for a card to run, and what is said of its answers."""

import numpy as np

from tests.ptx import running
from tests.ptx.card import comparing, making, operands, run, singles
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
