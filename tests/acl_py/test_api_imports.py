"""What an import brings in: what everybody needs, and no more."""

import inspect
import subprocess
import sys
from dataclasses import fields
from functools import cache

import pytest

import acl_py as acl
from acl_py.cli import run_command
from acl_py.compat.acl.face.session import SessionOptions
from acl_py.schedules import effects_of
from tests import forks

ONLY_FOR_SOME = {"structlog", "greenlet", "typer", "rich", "pydantic", "uvloop", "anyio", "ml_dtypes", "threadpoolctl"}


@cache
def modules_of(*command):
    """The modules in a new process that runs *command*, whose last line of output lists them."""
    done = subprocess.run([sys.executable, *command], check=True, capture_output=True, text=True)
    return set(done.stdout.splitlines()[-1].split())


def test_importing_the_package_leaves_out_what_only_some_programs_need():
    found = modules_of("-c", "import sys, acl_py; acl_py.run; acl_py.kernel; print(*sys.modules)")
    assert "acl_py.verbs.kernels" in found
    assert not found & ONLY_FOR_SOME
    assert not found & {"numpy.random", "device_model.aicore.runner", "acl_py.cli", "acl_py.compat", "gzip"}


def test_importing_the_package_loads_no_recorder_and_no_reader_of_runs():
    """Of the sanitizer, only what asks whether all simulations of the process are sanitized."""
    found = modules_of("-c", "import sys, acl_py; acl_py.run; print(*sys.modules)")
    readers = tuple(f"acl_py.{room}" for room in ("causes", "explain", "order", "recorded", "sanitizer", "trace"))
    assert {name for name in found if name.startswith(readers)} == {"acl_py.sanitizer", "acl_py.sanitizer.watch"}


SCRIPT = """
import sys
before = [*sys.modules]
import acl
print(acl.rt.get_device_count(), file=sys.stderr)
print(*before)
"""


@pytest.mark.slow
def test_a_script_pays_for_what_it_imports_and_its_own_files_are_in_nobodys_way(tmp_path):
    for name in ("calendar", "csv", "decimal", "random", "secrets"):
        (tmp_path / f"{name}.py").write_text("raise AssertionError('a module of Python is meant')")
    (tmp_path / "script.py").write_text(SCRIPT)
    found = modules_of("-m", "acl_py", "run", str(tmp_path / "script.py"))
    assert not found & {"acl", "email", "multiprocessing", "random", "tomllib", "acl_py.compat.acl.report"}
    rooms = ("acl_py.compat.acl.functions", "acl_py.compat.cuda.compilers.nv", "acl_py.sanitizer.sanitizer",
             "device_model.ptx.code")  # fmt: skip
    assert not [name for name in found if name.startswith(rooms)]


PROGRAM = """
import sys
import numpy as np
import acl_py
from acl_py import Array, Cost, InOut, MemcpyKind, cta
from acl_py.compat.acl import install

install()
import acl

@acl_py.kernel(cost=Cost(us=25))
def double(x: InOut):
    x *= 2

@cta.kernel(threads=32)
def square(x: InOut):
    x[cta.tid] = x[cta.tid] * x[cta.tid]

async def main():
    host, device = np.arange(32, dtype=np.float32), await acl_py.Malloc(128)
    await acl_py.Memcpy(device, 128, host, 128, MemcpyKind.HOST_TO_DEVICE)
    await double[1, await acl_py.CreateStream()](Array(device, "float32"))
    await acl_py.LaunchKernel(square, 1, [Array(device, "float32")])
    await acl_py.Memcpy(host, 128, device, 128, MemcpyKind.DEVICE_TO_HOST)
    return host[3]

"""


def test_kernels_of_arrays_and_of_thread_blocks_need_neither_greenlets_nor_bfloat16():
    found = modules_of("-c", f"{PROGRAM}assert acl_py.run(main) == 36\nacl.data_type_size(27)\nprint(*sys.modules)")
    assert not found & {"greenlet", "ml_dtypes", "uvloop"}


@pytest.mark.parametrize(
    ("package", "use", "needs"),
    [
        ("greenlet", "import acl_py.asc", "kernels of AI cores, roles of thread blocks, and ranks"),
        ("ml_dtypes", "import acl_py.asc", "int4 needs the package ml_dtypes"),
        ("ml_dtypes", "from device_model.dtypes import as_dtype; as_dtype('float8_e5m2')", "float8_e5m2 needs the"),
    ],
)
def test_a_missing_package_is_named_with_what_needs_it(package, use, needs):
    program = f"import sys\nsys.modules[{package!r}] = None\ntry:\n {use}\nexcept ImportError as error:\n print(error)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.startswith(needs)
    assert f"install it with `pip install {package}`; Python in a browser does not have it" in done.stdout


def test_bfloat16_has_a_name_before_anything_has_imported_it():
    program = "from device_model.dtypes import as_dtype; print(as_dtype('bfloat16'), as_dtype('f4'))"
    assert modules_of("-c", program) == {"bfloat16", "float32"}


@pytest.mark.parametrize(
    ("name", "verbs"),
    [
        ("StreamSynchronize", "SynchronizeStream or SynchronizeStreamWithTimeout"),
        ("cudaMalloc", "Malloc"),
        ("aclrtCreateStream", "CreateStream"),
    ],
)
def test_a_vendors_name_is_answered_with_the_verb(name, verbs):
    with pytest.raises(AttributeError) as failed:
        getattr(acl, name)
    assert str(failed.value) == (f"module 'acl_py' has no attribute '{name}'; what the vendor calls so is {verbs} here")


@pytest.mark.parametrize("name", ["cuda", "acl", "aclrt"])
def test_a_prefix_alone_is_no_vendors_name(name):
    with pytest.raises(AttributeError) as failed:
        getattr(acl, name)
    assert str(failed.value) == f"module 'acl_py' has no attribute '{name}'"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("options", [[], ["--no-sanitize"]])
def test_a_script_without_options_runs_without_the_libraries_of_the_command_line(tmp_path, options):
    script = tmp_path / "script.py"
    script.write_text("import sys, acl\nacl.rt.set_device(0)\nprint(*sys.argv[1:], *sys.modules)", encoding="utf-8")
    found = modules_of("-m", "acl_py", "run", *options, str(script), "--strict", "first")
    assert {"--strict", "first", "acl", "acl.rt"} <= found  # what is behind the script is the script's
    assert not found & {"typer", "rich", "pydantic", "structlog", "acl_py.cli", "acl_py.programs.replay"}
    assert ("acl_py.sanitizer.races" in found) is (not options)


def test_the_plugin_of_pytest_imports_nothing_of_the_package():
    found = modules_of("-c", "import sys, acl_py_pytest; print(*sys.modules)")
    assert "pytest" in found
    assert not found & {"acl_py", "device_model", "numpy", *ONLY_FOR_SOME}


@pytest.mark.parametrize("name", [field.name for field in fields(SessionOptions)])
def test_a_script_without_options_runs_as_the_command_line_would_run_it(name):
    """It goes past the command line, so the defaults of both must be the same."""
    options, parameters = SessionOptions(), inspect.signature(run_command).parameters
    if name == "on_hang":
        assert name not in parameters
        return
    default = parameters["fault" if name == "faults" else name].default
    found = effects_of(options.effects) if name == "effects" else getattr(options, name)
    assert getattr(default, "value", default) == (found or None)


@pytest.mark.slow
def test_a_script_that_is_not_there_is_told_of_by_the_command_line():
    done = forks.run("-m", "acl_py", "run", "nowhere.py")
    assert done.returncode == 2
    assert "can't open file 'nowhere.py': No such file or directory" in done.stderr
    assert "Traceback" not in done.stderr
