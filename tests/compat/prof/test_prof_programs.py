"""Five programs that profile themselves, in the form of public ones, from their start to their end."""

import re
from pathlib import Path

import pytest

from tests import forks

PROGRAMS = Path(__file__).parent / "programs"
SIDECAR = """
compute = "model:infer"
cost_us = 10
inputs = [{ name = "x", dtype = "float32", dims = [16] }]
outputs = [{ name = "y", dtype = "float32", dims = [16] }]
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with a model."""
    (tmp_path / "net.om.toml").write_text(SIDECAR)
    (tmp_path / "model.py").write_text("def infer(x):\n    return x + 1\n")
    return tmp_path


def output_of(folder, name, told=()):
    """What a program prints; it ends well, and its summary has nothing but *told*."""
    done = forks.run("-m", "acl_py", "run", "--device", "ascend310p3", PROGRAMS / f"{name}.py", cwd=folder)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if re.search("failed|leak|finding|Traceback", line)]
    assert len(lines) == len(told), lines
    assert all(each in line for each, line in zip(told, lines, strict=True)), lines
    return done.stdout.splitlines()


def test_the_steps_of_the_guide(folder):
    assert output_of(folder, "guide") == ["net AI_CORE 10.700"] * 4 + ["net x 4: 42.800 us"]


def test_a_manager_that_begins_before_the_device_is_set(folder):
    profiling, codes, names, tasks = output_of(folder, "manager")
    assert (profiling, codes) == ("profiling: 0", "0 0 0")
    assert names == "['api_statistic', 'msprof', 'op_statistic', 'op_summary', 'task_time']"
    first, *copies = tasks.split()
    assert first.startswith("fill,SDMA_SQE,7,0,")
    assert [each.rpartition(",")[0] for each in copies] == [
        "MEMCPY_ASYNC,PCIE_DMA_SQE,1,1",
        "MEMCPY_ASYNC,PCIE_DMA_SQE,2,2",
    ]


def test_stages_leave_out_what_is_between_them(folder):
    told = ["acl.prof.destroy_config() at stages.py:"]
    assert output_of(folder, "stages", told) == [
        "acl.prof.destroy_config failed: 100000",
        "['Add', 'Relu', 'Relu']",
    ]


def test_a_thread_reads_what_each_execution_took(folder):
    assert output_of(folder, "subscribe") == ["True net net True 10700"] * 3


def test_a_profiler_that_begins_anew_for_each_few_operators(folder):
    assert output_of(folder, "intervals") == ["[['Add', 'Mul'], ['Relu'], ['Add']]"]
