"""Texts that files, spreadsheets and terminals cannot take as they are."""

import csv
import os
import subprocess
import sys
from dataclasses import replace

import pytest

import acl_py as acl
from acl_py.sanitizer.suppressions import SuppressionError, find
from acl_py.trace import msprof, table


async def named(name):
    async with acl.simulate(device="tiny") as sim:
        memory = await acl.Malloc(64)
        await acl.Memset(memory, 64, 0, 64)
        await acl.Free(memory)
    timeline = sim.trace.timeline()
    return replace(timeline, ops=[op._replace(name=name, kind="kernel") for op in timeline.ops])


async def test_half_of_a_surrogate_pair_in_a_name_is_escaped(tmp_path):
    timeline = await named("half \ud800")
    table.write(timeline, tmp_path / "table.csv")
    assert "half \\ud800" in (tmp_path / "table.csv").read_text(encoding="utf-8")
    msprof.write(timeline, tmp_path)
    (kernels,) = tmp_path.rglob("kernel_details.csv")
    assert "half \\ud800" in kernels.read_text(encoding="utf-8")


async def test_a_name_in_a_table_is_no_formula(tmp_path):
    timeline = await named('=HYPERLINK("x")')
    table.write(timeline, tmp_path / "table.csv")
    with (tmp_path / "table.csv").open(encoding="utf-8", newline="") as file:
        assert '\'=HYPERLINK("x")' in [row["name"] for row in csv.DictReader(file)]


def test_suppressions_with_deep_nesting_are_refused(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.acl_py]\nx = " + "[" * 5000 + "]" * 5000)
    with pytest.raises(SuppressionError, match="cannot be read"):
        find(tmp_path)


@pytest.mark.slow
def test_the_demo_runs_where_the_output_is_ascii(tmp_path):
    """Python reads this variable when it starts, so an interpreter has to."""
    command = [sys.executable, "-m", "acl_py", "demo", "aicore"]
    variables = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii()


HUGE = 10**5000  # more digits than Python prints


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: acl.Malloc(10**400), "Malloc of a number of bytes that has 1,329 bits on device 0 does not fit"),
        (lambda: acl.MallocHost(HUGE), "MallocHost of a number of bytes that has 16,610 bits: this host has no"),
        (lambda: acl.Malloc(-HUGE), "Malloc of a number of bytes that has 16,610 bits; ask for 1 byte or more"),
        (lambda: acl.MallocManaged(10**400), "MallocManaged of a number of bytes that has 1,329 bits"),
        (lambda: acl.SetDevice(HUGE), "there is no device a number of 16,610 bits"),
    ],
)
async def test_sizes_of_hundreds_of_digits_are_refused_in_a_sentence(call, message):
    async with acl.simulate(device="tiny"):
        with pytest.raises(acl.AclError) as caught:
            await call()
    assert message in str(caught.value)
