"""install() and what it puts into sys.modules."""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from acl_py.compat.acl import install, uninstall
from acl_py.compat.acl.face import session as sessions
from acl_py.compat.acl.face.modules import ORIGIN, install_at_import, is_installed
from acl_py.log import disable, enable
from acl_py.signatures import read
from acl_py.sites import PACKAGE

SIGNATURES = list(read())
NAMES = ["acl", *(f"acl.{name}" for name in ("rt", "mdl", "op", "media", "util", "prof", "blas", "himpi", "fv"))]


@pytest.fixture(autouse=True)
def leave_nothing():
    yield
    uninstall()


@pytest.mark.parametrize("name", NAMES)
def test_a_module_has_the_functions_of_the_list_and_nothing_else(name):
    install(device="tiny")
    module = importlib.import_module(name)
    public = {each for each in dir(module) if not each.startswith("_")}
    functions = {each.name for each in SIGNATURES if each.module == name}
    assert public - functions == ({each.removeprefix("acl.") for each in NAMES[1:]} if name == "acl" else set())
    assert functions <= public
    assert {getattr(module, each).__module__ for each in functions} <= {name}
    assert {*module.__all__} == public
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'maloc'"):
        module.maloc  # noqa: B018 - the name is looked up


def test_every_function_that_a_file_defines_is_in_the_list():
    defined = {
        f"{each.__module__}.{each.__name__}"
        for file in Path(PACKAGE, "compat", "acl", "functions").glob("*/*.py")
        for each in vars(importlib.import_module(f"{ORIGIN}.functions.{file.parent.name}.{file.stem}")).values()
        if hasattr(each, "letters")
    }
    assert len(defined) > 300
    assert defined <= {each.full_name for each in SIGNATURES}


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"devices": 0}, ValueError, "devices must be 1 to 4,096, not 0"),
        ({"devices": 10**20}, ValueError, "devices must be 1 to 4,096, not 1000"),
        ({"devices": "2"}, TypeError, "devices must be an int, not '2'"),
        ({"models": "models"}, TypeError, "models must be a list of folders, not 'models'"),
        ({"models": ["nowhere"]}, ValueError, "models: there is no folder 'nowhere'"),
    ],
)
def test_options_of_the_session_are_checked_at_once(options, error, match):
    with pytest.raises(error, match=match):
        install(**options)


def test_each_function_takes_what_the_list_says():
    install(device="tiny")
    taken = {each.full_name: getattr(sys.modules[each.module], each.name).letters for each in SIGNATURES}
    assert taken == {each.full_name: each.letters for each in SIGNATURES}
    assert len(taken) == len(SIGNATURES)  # none stands there twice


def test_a_function_that_is_not_simulated_says_so_once_in_the_log():
    said = []

    class Log:
        def warning(self, event, **about):
            said.append((event, about))

        def debug(self, event, **about):
            """Calls are not what this is about."""

    install(device="tiny")
    enable(Log())
    try:
        rt = importlib.import_module("acl.rt")
        answers = [
            rt.ipc_mem_import_by_key("key", 0),
            rt.ipc_mem_import_by_key("key", 0),
            rt.allocator_create_desc(),
        ]
    finally:
        disable()
    assert answers == [(0, 207000), (0, 207000), 0]
    assert said == [
        ("not simulated", {"function": "acl.rt.ipc_mem_import_by_key", "ret": 207000}),
        ("not simulated", {"function": "acl.rt.allocator_create_desc", "ret": 207000}),
    ]
    assert rt.get_last_error(0) == 207000


def test_without_a_log_the_standard_error_says_once_what_is_not_simulated(capsys):
    install(device="tiny")
    rt = importlib.import_module("acl.rt")
    assert [rt.get_devices_topo(0, 0) for _ in range(2)] == [(0, 207000)] * 2
    assert capsys.readouterr().err == "acl: acl.rt.get_devices_topo is not simulated: it returns 207000\n"


def test_all_forms_of_import():
    install(device="tiny")
    import acl
    import acl.rt
    from acl.rt import memcpy
    from acl.util import bytes_to_ptr  # noqa: F401

    assert memcpy is acl.rt.memcpy
    assert importlib.util.find_spec("acl") is not None


def test_modules_that_are_made_at_the_import_are_like_those_that_are_made_at_once():
    at_once = vars(install(device="tiny"))
    uninstall()
    install_at_import(device="tiny")
    assert "acl" not in sys.modules
    assert importlib.util.find_spec("acl").origin == "acl_py.compat.acl"
    assert is_installed()
    from acl.rt import memcpy

    at_import = vars(sys.modules["acl"])
    assert memcpy is sys.modules["acl.rt"].memcpy
    assert {*at_import} == {*at_once}
    names = ("__name__", "__loader__", "__package__", "__file__")
    assert [at_import[name] for name in names] == [at_once[name] for name in names]
    uninstall()
    install_at_import(device="tiny")
    uninstall()
    assert not is_installed()


def test_another_acl_is_not_shadowed_unless_that_is_wanted(monkeypatch):
    real = ModuleType("acl")
    monkeypatch.setitem(sys.modules, "acl", real)
    with pytest.raises(RuntimeError, match=r"there is already a module acl: .*install\(replace=True\)"):
        install()
    assert sys.modules["acl"] is real
    install(replace=True)
    assert sys.modules["acl"] is not real
    uninstall()
    assert sys.modules["acl"] is real


def test_an_acl_that_could_be_imported_is_another_one_too(monkeypatch, tmp_path):
    (tmp_path / "acl.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(RuntimeError, match=r"acl\.py"):
        install()
    assert "acl" not in sys.modules


def test_uninstall_leaves_nothing():
    install()
    uninstall()
    assert [name for name in sys.modules if name == "acl" or name.startswith("acl.")] == []
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("acl")
    uninstall()


def test_install_again_begins_anew():
    acl = install(device="tiny")
    assert (acl.init(), acl.init(), acl.rt.set_device(0)) == (0, 100002, 0)
    first = sessions.current_session()
    install(device="tiny", devices=3)
    assert sessions.current_session() is None
    assert first in sessions.ended
    assert (acl.init(), acl.rt.get_device_count()) == (0, (3, 0))  # also through the module that was there before
    assert acl.rt.get_device() == (0, 107002)


def test_options_that_are_none():
    with pytest.raises(TypeError, match="color"):
        install(color="red")
    assert "acl" not in sys.modules
