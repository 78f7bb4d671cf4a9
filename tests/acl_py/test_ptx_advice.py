"""Advice on kernels in PTX: each of these has one mistake of speed, which is named with its price and its line.

The price must be what the same kernel without the mistake gains.
"""

from pathlib import Path

import pytest

import acl_py as acl
from acl_py import ptx

DATA = Path(__file__).parents[1] / "device_model/ptx/data"
SOURCE = (DATA / "advice.cu").read_text().splitlines()
NBYTES = 1 << 25
# The kernel, its grid, its block, what is advised, and a part of the line that is blamed.
MISTAKES = [
    ("column_sum", 512, 256, "SIDE_BY_SIDE", "s += x[j + row * 64]"),
    ("strided", 1024, 256, "SIDE_BY_SIDE", "y[i] = x[i * 8]"),
    ("transpose", (32, 32), (32, 8), "BANKS_APART", "= t[i][j + k]"),
    ("odd_even", 1024, 256, "ONE_WAY", "if (i & 1)"),
    ("counts", 1024, 256, "ATOMICS_APART", "atomicAdd(y + (x[i] & 1), 1)"),
    ("full", 8192, 64, "MORE_BLOCKS", "void full(float* x"),
]


def launched(name, grid, block):
    """Launch a kernel, and return its result."""

    async def main():
        module = await ptx.load((DATA / "advice.ptx").read_text(), hazards=False)
        x, y = await acl.Malloc(NBYTES), await acl.Malloc(NBYTES)
        await acl.Memset(x, NBYTES, 0, NBYTES)
        args = (x, 0) if name.startswith(("odd_even", "full")) else (x, y, 1024)
        launch = await module[name][grid, block](*args)
        await acl.SynchronizeDevice()
        return launch.work.result

    return acl.run(main, device="h200", rules="cuda")


@pytest.mark.parametrize(("name", "grid", "block", "guideline", "line"), MISTAKES, ids=[each[0] for each in MISTAKES])
def test_a_mistake_is_named_with_its_line_and_costs_what_the_kernel_without_it_gains(
    name, grid, block, guideline, line
):
    wrong, right = launched(name, grid, block), launched(f"{name}_right", grid, block)
    [advice] = ptx.advise(wrong)
    gained = (wrong.timeline.duration_ns - right.timeline.duration_ns) / 1000
    assert advice.guideline.name == guideline
    assert advice.saved_us == pytest.approx(gained, rel=0.1)
    assert all(line in SOURCE[case.site.source - 1] for case in advice.cases)
    assert guideline == "MORE_BLOCKS" or not ptx.advise(right)


def test_the_text_names_the_guideline_its_price_and_each_line_of_ptx_and_of_the_source():
    [advice] = ptx.advise(launched("transpose", (32, 32), (32, 8)))
    title, *lines = str(advice).splitlines()
    assert title.startswith(f"BANKS_APART costs {advice.saved_us:.2f} us of the launch: swizzle or pad rows")
    assert len(lines) == 4
    assert lines[0].strip().startswith("PTX line ")
    assert lines[0].endswith("(advice.cu:13): ld.shared.f32 takes 32.0 phases for each pass (32 times)")


def test_a_launch_that_was_stopped_has_no_times_and_so_no_advice():
    with pytest.raises(ValueError, match="no times"):
        ptx.advise(ptx.Result())
