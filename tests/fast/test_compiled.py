"""Which core runs: the compiled one if it fits, and the pure one otherwise, by name."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import acl_py
from device_model.compiled import IS_COMPILED, RefusedError, check, digest_of, version_of

ROOT = Path(__file__).parents[2]
MODULES = ("device_model.scheduler", "acl_py.runtime.host")
TWO_LINES = (
    "import device_model.compiled as c; import acl_py.runtime.host as h; print(c.CORE, h.__file__.endswith('.py'))"
)
CLASS = re.compile(r"^cdef class (\w+)(?:\((\w+)\))?:\n((?:    .*\n|\n)*)", re.MULTILINE)  # its name, base and body
FIELD = re.compile(r"^    cdef .*?(\w+)$", re.MULTILINE)


class Made:
    """What a build says of itself."""

    FOLDER = ""
    VERSION = acl_py.__version__
    DIGEST = digest_of(MODULES, ROOT)
    MODULES = MODULES


def install(folder, **words):
    """Put a distribution in *folder* that says *words* of itself, and has no compiled modules; return the folder."""
    package = folder / "acl_py_fast"
    package.mkdir()
    said = {"FOLDER": str(package), "VERSION": Made.VERSION, "DIGEST": Made.DIGEST, "MODULES": MODULES} | words
    lines = "".join(f"    {name} = {word!r}\n" for name, word in said.items())
    (package / "__init__.py").write_text(f"class BUILD:\n{lines}", encoding="utf-8")
    return folder


def run_in(folder, program, **variables):
    """Run *program* in a process that finds the distribution in *folder*."""
    path = os.pathsep.join([str(folder), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path, **variables}
    if "ACL_PY_PURE" not in variables:
        environment.pop("ACL_PY_PURE", None)
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)


def core_in(folder, **variables):
    """What a process says that finds the distribution in *folder*: its core, whether it runs the .py file, warnings."""
    done = run_in(folder, TWO_LINES, **variables)
    return done.stdout.strip(), done.stderr.splitlines()[:1]


def test_a_build_from_the_same_sources_fits():
    check(Made, ROOT)


def test_a_build_for_another_version_is_refused_by_name():
    class Older(Made):
        VERSION = "0.0.9"

    with pytest.raises(RefusedError) as refused:
        check(Older, ROOT)
    assert str(refused.value) == (
        f"acl-py-fast 0.0.9 does not fit acl-py {acl_py.__version__}, so the pure core runs: "
        f"pip install acl-py-fast=={acl_py.__version__}, or uninstall it"
    )


def test_a_build_from_other_sources_is_refused_by_name(tmp_path):
    for module in (*MODULES, "acl_py.__init__"):
        file = Path(*module.split(".")).with_suffix(".py")
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_bytes((ROOT / file).read_bytes())
    check(Made, tmp_path)
    edited = tmp_path / "device_model" / "scheduler.py"
    edited.write_bytes(edited.read_bytes().replace(b"heappush(self.heap", b"heappush( self.heap"))
    with pytest.raises(RefusedError, match=r"^acl-py-fast .* was built from other sources than those in .*: build it"):
        check(Made, tmp_path)
    edited.unlink()
    with pytest.raises(RefusedError, match="other sources"):
        check(Made, tmp_path)


def test_the_digest_tells_which_module_has_which_text(tmp_path):
    (tmp_path / "a.py").write_text("1")
    (tmp_path / "b.py").write_text("2")
    first = digest_of(("a", "b"), tmp_path)
    assert first == digest_of(("b", "a"), tmp_path)
    (tmp_path / "a.py").write_text("2")
    (tmp_path / "b.py").write_text("1")
    assert first != digest_of(("a", "b"), tmp_path)


def test_the_version_is_that_of_the_package_and_of_the_extra():
    assert version_of(ROOT) == acl_py.__version__
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["optional-dependencies"]["fast"] == [f"acl-py-fast=={acl_py.__version__}"]


def test_each_module_of_the_build_is_there_and_has_types_for_a_module_of_it_only():
    modules = (ROOT / "fast" / "modules.txt").read_text(encoding="utf-8").split()
    assert modules == sorted(set(modules))
    for module in modules:
        assert ROOT.joinpath(*module.split(".")).with_suffix(".py").is_file(), module
    types = ROOT / "fast" / "types"
    typed = [".".join(file.relative_to(types).with_suffix("").parts) for file in types.rglob("*.pxd")]
    assert set(typed) <= set(modules)


def test_types_have_each_field_that_a_class_sets():
    fields, bases, missing = {}, {}, []
    types = ROOT / "fast" / "types"
    files = sorted(types.rglob("*.pxd"))
    for file in files:
        for name, base, body in CLASS.findall(file.read_text(encoding="utf-8")):
            fields[name], bases[name] = set(FIELD.findall(body)), base
    for file in files:
        source = ROOT / file.relative_to(types).with_suffix(".py")
        for owner in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(owner, ast.ClassDef) and owner.name in fields:
                known, name = set(), owner.name
                while name:
                    known |= fields.get(name, set())
                    name = bases.get(name)
                missing += [
                    f"{owner.name}.{each.attr}"
                    for each in ast.walk(owner)
                    if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store)
                    if isinstance(each.value, ast.Name) and each.value.id == "self" and each.attr not in known
                ]
    assert missing == []
    assert "_rates" in fields["Gm"]  # it reads the types


def test_a_build_that_fits_runs_and_the_switch_turns_it_off(tmp_path):
    folder = install(tmp_path)  # without compiled modules, so the .py files are found behind it
    assert core_in(folder) == (f"compiled, acl-py-fast {acl_py.__version__} True", [])
    assert core_in(folder, ACL_PY_PURE="1") == ("pure Python True", [])
    assert core_in(folder, ACL_PY_PURE="0") == (f"compiled, acl-py-fast {acl_py.__version__} True", [])


def test_each_package_looks_for_its_compiled_modules_first(tmp_path):
    modules = (ROOT / "fast" / "modules.txt").read_text(encoding="utf-8").split()
    packages = sorted({module.rpartition(".")[0] for module in modules})
    folder = install(tmp_path)
    program = f"from importlib import import_module\nfor name in {packages}: print(import_module(name).__path__[0])"
    firsts = [str(folder / "acl_py_fast" / Path(*package.split("."))) for package in packages]
    assert run_in(folder, program).stdout.splitlines() == firsts


def test_a_build_that_does_not_fit_warns_and_the_pure_core_runs(tmp_path):
    core, warned = core_in(install(tmp_path, DIGEST="0"))
    assert core == "pure Python True"
    assert "RuntimeWarning: acl-py-fast" in warned[0]
    assert "so the pure core runs" in warned[0]


def test_without_the_distribution_the_pure_core_runs(tmp_path):
    core, warned = core_in(tmp_path, **({"ACL_PY_PURE": "1"} if IS_COMPILED else {}))
    assert (core, warned) == ("pure Python True", [])
