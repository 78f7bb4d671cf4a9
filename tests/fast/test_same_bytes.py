"""The compiled core does what the pure one does, to the byte: what samples print, and the traces that they leave."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from device_model.compiled import IS_COMPILED
from tests.campaigns import many
from tests.fast.programs import differing
from tests.test_samples import LONG, SAMPLES

ROOT = Path(__file__).parents[2]
CHOSEN = [str(sample) for sample in SAMPLES if sample.stem not in LONG]


def written(folder, **variables):
    """The bytes of each file that the samples leave in *folder*, and which core ran them."""
    folder.mkdir()
    command = [sys.executable, "-m", "tests.fast.traced", str(folder), *CHOSEN]
    subprocess.run(command, cwd=ROOT, env=os.environ | variables, check=True)
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


pytestmark = pytest.mark.skipif(not IS_COMPILED, reason="make test-fast-core builds the compiled core")


def test_the_build_has_no_other_modules_than_those_whose_sources_it_has_compared():
    build = import_module("acl_py_fast").BUILD
    folder = Path(build.FOLDER)
    files = [file.relative_to(folder) for file in folder.rglob("*") if file.suffix in (".so", ".pyd")]
    assert sorted(".".join([*file.parts[:-1], file.name.split(".")[0]]) for file in files) == sorted(build.MODULES)


def test_each_module_of_the_build_runs():
    files = {module: import_module(module).__file__ for module in import_module("acl_py_fast").BUILD.MODULES}
    assert [module for module, file in files.items() if file.endswith(".py")] == []


@pytest.mark.timeout(600)
def test_samples_leave_the_same_bytes_on_both_cores(tmp_path):
    pure = written(tmp_path / "pure", ACL_PY_PURE="1")
    compiled = written(tmp_path / "compiled", ACL_PY_PURE="0")
    assert len([name for name in pure if not name.endswith(".out")]) > len(CHOSEN) / 2
    assert list(pure) == list(compiled)
    assert [name for name in pure if pure[name] != compiled[name]] == []


def test_random_programs_leave_the_same_on_both_cores():
    assert differing(30) == []


@pytest.mark.slow
def test_many_random_programs_leave_the_same_on_both_cores():
    assert differing(many(500)) == []
