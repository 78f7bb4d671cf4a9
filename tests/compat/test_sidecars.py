"""Sidecars: what is looked for where, what a broken one is told of, and the command that begins one."""

import sys
import threading
from types import ModuleType

import numpy as np
import pytest
from card import done, made, module
from typer.testing import CliRunner

from acl_py import log
from acl_py.cli import app
from acl_py.compat.acl import Tensor, register_model, unregister_model
from acl_py.compat.acl.face.session import session
from acl_py.compat.acl.report import report
from acl_py.compat.acl.standins.models import Model
from acl_py.compat.acl.standins.sidecars import read, sidecar_of

GOOD = """
compute = "doubled:infer"
[[inputs]]
name = "x"
dtype = "int32"
dims = [4]
[[outputs]]
name = "y"
dtype = "int32"
dims = [4]
"""
ANOTHER = "".join(f'[[inputs]]\nname = "{name}"\ndtype = "int32"\ndims = [4]\n' for name in ("x", "z"))
DOUBLED = "def infer(x):\n    return 2 * x\n"


def test_a_model_without_a_sidecar_is_told_the_one_to_write(acl, tmp_path, capsys):
    path = tmp_path / "resnet50.om"
    assert acl.mdl.load_from_file(str(path)) == (0, 145002)
    told = capsys.readouterr().err
    assert "there is no such file" in told
    assert f"write {path}.toml. `acl-py model init {path}` writes this one:" in told
    assert 'compute = "resnet50:infer"' in told
    path.write_bytes(b"a model")
    assert acl.mdl.load_from_file(str(path)) == (0, 145006)
    told = capsys.readouterr().err
    assert "a card takes no such file: it does not begin with IMOD, as files of the vendor's compiler do" in told
    assert f"write {path}.toml" in told
    assert acl.mdl.query_size(str(path)) == (0, 0, 145006)
    assert "145006" in acl.get_recent_err_msg()


def test_what_is_told_can_be_used(acl, tmp_path, capsys):
    path = tmp_path / "net.om"
    acl.mdl.load_from_file(str(path))
    _, _, template = capsys.readouterr().err.partition("writes this one:\n")
    sidecar_of(path).write_text(template)
    (tmp_path / "net.py").write_text("def infer(data):\n    return data.reshape(-1)[:1000]\n")
    made(acl.mdl.load_from_file(str(path)))


def test_a_sidecar_is_looked_for_beside_the_file_and_in_the_models_directories(tmp_path):
    first, second, beside = (tmp_path / name for name in ("first", "second", "beside"))
    for number, directory in enumerate((first, second, beside), 1):
        directory.mkdir()
        (directory / "net.om.toml").write_text(GOOD.replace("[4]", f"[{number}]").replace("doubled", "net"))
        (directory / "net.py").write_text(DOUBLED)
    found = {}
    for where in ("beside", "elsewhere"):
        with module(models=[first, second]) as acl:
            desc = acl.mdl.create_desc()
            done(acl.mdl.get_desc_from_file(desc, str(tmp_path / where / "net.om")))
            found[where] = acl.mdl.get_input_size_by_index(desc, 0)
    assert found == {"beside": 12, "elsewhere": 4}


def test_what_is_registered_in_python_comes_first(acl, tmp_path):
    (tmp_path / "net.om.toml").write_text(GOOD)
    (tmp_path / "doubled.py").write_text(DOUBLED)
    register_model("net.om", [Tensor("a", "int8", (1,))], [Tensor("b", "int8", (1,))])(lambda a: a)
    desc = acl.mdl.create_desc()
    try:
        done(acl.mdl.get_desc_from_file(desc, str(tmp_path / "net.om")))
        assert acl.mdl.get_input_name_by_index(desc, 0) == "a"
    finally:
        unregister_model("net.om")
    done(acl.mdl.get_desc_from_file(desc, str(tmp_path / "net.om")))
    assert acl.mdl.get_input_name_by_index(desc, 0) == "x"


def test_modules_of_one_name_beside_two_sidecars_do_not_get_into_each_others_way(tmp_path):
    for name, factor in (("a", 2), ("b", 3)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "net.om.toml").write_text(GOOD)
        (tmp_path / name / "doubled.py").write_text(f"def infer(x):\n    return {factor} * x\n")
    models = [read(tmp_path / name / "net.om.toml", tmp_path / name / "net.om") for name in ("a", "b")]
    assert [model.compute(1) for model in models] == [2, 3]


def test_a_function_may_be_an_attribute_of_an_installed_module(tmp_path):
    (tmp_path / "net.om.toml").write_text(GOOD.replace("doubled:infer", "numpy:linalg.norm"))
    assert read(tmp_path / "net.om.toml", tmp_path / "net.om").compute([3, 4]) == 5


def test_a_file_beside_a_sidecar_never_shadows_an_installed_module(acl, tmp_path, capsys, monkeypatch):
    """Neither for the sidecar nor for what its modules import, loaded already or not."""
    monkeypatch.delitem(sys.modules, "tabnanny", raising=False)
    for name in ("numpy", "json", "tabnanny"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the file beside the sidecar ran')\n")
    (tmp_path / "doubled.py").write_text("import tabnanny\n\n\ndef infer(x):\n    return 2 * x\n")
    for reference in ("numpy:negative", "json:dumps", "doubled:infer"):
        (tmp_path / "net.om.toml").write_text(GOOD.replace("doubled:infer", reference))
        made(acl.mdl.load_from_file(str(tmp_path / "net.om")))
    (tmp_path / "net.om.toml").write_text(GOOD.replace("doubled:infer", "json:infer"))
    assert acl.mdl.load_from_file(str(tmp_path / "net.om")) == (0, 545001)
    hint = f"the installed json comes before {tmp_path / 'json.py'}: give that file another name"
    assert hint in capsys.readouterr().err


@pytest.mark.parametrize(
    "reference",
    [
        "../outside:infer", "../folder/outside:infer", "sub/inside:infer", "/abs/outside:infer", "..outside:infer",
        ".outside:infer", "outside.py:infer.", ":infer", "outside:", "outside", "out side:infer", "outside:infer()",
        "outside\0:infer", "sub.inside:infer", "C:\\outside:infer", "~/outside:infer", "outside:infer:infer", "",
    ],
)  # fmt: skip
def test_compute_takes_no_path(acl, tmp_path, capsys, reference):
    """Also if there is a file."""
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    for file in (tmp_path / "outside.py", folder / "sub" / "inside.py", folder / "sub.inside.py"):
        file.write_text("raise SystemExit('a file that is not beside the sidecar ran')\n")
    (folder / "net.om.toml").write_text(GOOD.replace('"doubled:infer"', f"'{reference}'".replace("\0", "")))
    if "\0" in reference:
        (folder / "net.om.toml").write_text(GOOD.replace("doubled:infer", "outside\\u0000:infer"))
    assert acl.mdl.load_from_file(str(folder / "net.om")) == (0, 545001)
    told = capsys.readouterr().err
    assert "compute must be module:name" in told or "there is no installed module" in told


def test_a_module_of_the_scripts_folder_is_neither_beside_nor_installed(acl, tmp_path, capsys, monkeypatch):
    script = tmp_path / "script"
    script.mkdir()
    (script / "deploy_at_once.py").write_text("raise SystemExit('a script ran because a sidecar named it')\n")
    monkeypatch.syspath_prepend(str(script))
    monkeypatch.setattr(sys, "argv", [str(script / "main.py")])
    (tmp_path / "net.om.toml").write_text(GOOD.replace("doubled", "deploy_at_once"))
    assert acl.mdl.load_from_file(str(tmp_path / "net.om")) == (0, 545001)
    assert "there is no installed module deploy_at_once and no file" in capsys.readouterr().err


@pytest.mark.parametrize("file", ["../net.om", "sub/net.om", "/net.om", "..", "sub\\net.om", ""])
def test_a_bundle_names_files_beside_it(acl, tmp_path, capsys, file):
    (tmp_path / "both.om.toml").write_text(f"bundle = ['{file}']\n")
    assert acl.mdl.bundle_load_from_file(str(tmp_path / "both.om")) == (0, 545001)
    assert (
        f"bundle must name files in the folder of the sidecar, without a path, not {file!r}" in capsys.readouterr().err
    )


def test_the_summary_names_every_file_of_code_that_a_sidecar_brought_in(acl, tmp_path, monkeypatch):
    sidecar, other = tmp_path / "net.om.toml", tmp_path / "other.om.toml"
    sidecar.write_text(GOOD.replace("doubled", "doubled_with_help"))
    other.write_text(GOOD.replace("doubled:infer", "numpy:negative"))
    (tmp_path / "doubled_with_help.py").write_text("import helper_of_doubled\nimport sunau_like\n" + DOUBLED)
    (tmp_path / "helper_of_doubled.py").write_text("import wsgiref\n")
    (tmp_path / "sunau_like").mkdir()
    (tmp_path / "sunau_like" / "__init__.py").write_text("")
    monkeypatch.delitem(sys.modules, "wsgiref", raising=False)
    monkeypatch.chdir(tmp_path)  # files in the working folder are relative to it
    for _ in range(2):
        made(acl.mdl.load_from_file(str(tmp_path / "net.om")))
    made(acl.mdl.load_from_file(str(tmp_path / "other.om")))
    told = [line.strip() for line in report(session()).splitlines() if line.startswith("  code: ")]
    assert told == [
        "code: net.om.toml runs doubled_with_help.py",
        "code: net.om.toml runs helper_of_doubled.py",
        "code: net.om.toml runs sunau_like/__init__.py",
        "code: net.om.toml runs 1 file of the installed wsgiref",
        f"code: other.om.toml runs {np.__file__}",
    ]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (('dtype = "int32"', 'dtype = "int33"'), "x: dtype must be one of float32"),
        (("dims = [4]", "dims = [-2]"), "x: each of dims must be 0 or more, -1, or arithmetic in a string, not -2"),
        (("dims = [4]", 'dims = ["batch"]'), "dims may be arithmetic only in outputs"),
        (('name = "x"', 'name = "y"'), "different names; more than one is named y"),
        (("[[outputs]]", f"{ANOTHER}{ANOTHER}[[outputs]]"), "different names; more than one is named x and z"),
        (('name = "x"\n', ""), "each table of inputs needs name, dtype and dims"),
        (("dims = [4]", 'dims = [4]\nlayout = "ND"'), "each table of inputs needs name, dtype and dims"),
        (("dims = [4]", 'dims = [4]\nformat = "CHW"'), "x: format must be one of NCHW"),
        (("dims = [4]", "dims = [4]\nranges = [[1, 2], [3, 4]]"), "x: 2 ranges for 1 dims"),
        (('"doubled:infer"', '"doubled:infer"\nspeed = 1'), "there is no field speed; the fields are compute"),
        (('"doubled:infer"', '"doubled:infer"\ncost_us = -1'), "cost_us must be 0 or more"),
        (('"doubled:infer"', '"doubled:infer"\ncost_us = [1, 2]'), "one number, or one for each gear"),
        (('"doubled:infer"', '"doubled:infer"\ncost_us = 1\nflops = 1'), "cost_us and flops exclude each other"),
        (('"doubled:infer"', '"doubled:infer"\ndynamic_batch = [1]'), "needs an input with -1"),
        (('"doubled:infer"', '"doubled:infer"\ndynamic_batch = [0]'), "each 1 or more"),
        (('"doubled:infer"', '"doubled:infer"\ndynamic_hw = [[1]]'), "pairs of height and width"),
        (
            ('"doubled:infer"', '"doubled:infer"\ndynamic_batch = [1]\ndynamic_hw = [[1, 1]]'),
            "a model can have only one of",
        ),
        (
            ('"doubled:infer"', '"doubled"'),
            "compute must be module:name without a path, as in resnet50:infer, not 'doubled'",
        ),
        (('"doubled:infer"', '"doubled:nothing"'), "no attribute 'nothing'"),
        (('"doubled:infer"', '"doubled:__name__"'), "is not callable; name a function"),
        (('"doubled:infer"', '"no_such_module:infer"'), "no_such_module.py; install the one or write the other"),
        (('"doubled:infer"', '"broken:infer"'), "ZeroDivisionError"),
        (('compute = "doubled:infer"\n', ""), "compute is missing"),
        (("[[outputs]]", "[[outputs"), "net.om.toml:"),
        (("dims = [4]", f"dims = {'[' * 5000}{']' * 5000}"), "nested too deeply"),
        (("dims = [4]", f"dims = [4{'0' * 5000}]"), "net.om.toml:"),
        (('name = "x"', "name = 5"), "name must be a string, not 5"),
        (('"doubled:infer"', '"doubled:infer"\ncost_us = inf'), "cost_us must be 0 or more, and finite"),
        (('"doubled:infer"', '"doubled:infer"\ncost_us = nan'), "cost_us must be 0 or more, and finite"),
        (('"doubled:infer"', f'"doubled:infer"\nflops = 1{"0" * 400}'), "an amount is too large"),
        (('"doubled:infer"', '"doubled:infer"\nwork_size = -1'), "work_size must be a number of bytes"),
        (('"doubled:infer"', '"doubled:infer"\nweight_size = 1.5'), "weight_size must be a number of bytes"),
    ],
)
def test_a_sidecar_that_cannot_be_used_is_told_with_its_field(acl, tmp_path, capsys, change, text):
    assert change[0] in GOOD
    (tmp_path / "net.om.toml").write_text(GOOD.replace(*change, 1))
    (tmp_path / "doubled.py").write_text(DOUBLED)
    (tmp_path / "broken.py").write_text("1 / 0\n")
    assert acl.mdl.load_from_file(str(tmp_path / "net.om")) == (0, 545001)
    told = capsys.readouterr().err
    assert text in told
    assert str(tmp_path / "net.om.toml") in told
    assert text in acl.get_recent_err_msg()


def test_a_model_whose_flops_take_longer_than_simulated_time_is_refused_when_its_sidecar_is_read(acl, tmp_path, capsys):
    """How long they take depends on the card, so the sidecar alone does not show it; executing raised ValueError."""
    path = str(tmp_path / "net.om")
    (tmp_path / "net.om.toml").write_text("flops = 1e308\n" + GOOD)
    (tmp_path / "doubled.py").write_text(DOUBLED)
    text = "flops = 1e+308 would take longer on tiny than simulated time lasts, 146 years; make flops smaller"
    assert acl.mdl.load_from_file(path) == (0, 545001)
    assert f"{path}: {text}" in acl.get_recent_err_msg()
    assert "make flops smaller, in the sidecar or in register_model()" in capsys.readouterr().err
    data, tensors = b"its bytes", ([Tensor("x", "int8", (1,))], [Tensor("y", "int8", (1,))])
    register_model(path, *tensors, flops=[1e308], content=data)(lambda x: x)
    try:
        assert acl.mdl.get_desc_from_file(acl.mdl.create_desc(), path) == 545001
        assert acl.mdl.query_size_from_mem(acl.util.bytes_to_ptr(data), len(data)) == (0, 0, 545001)
        assert f"net: {text}" in acl.get_recent_err_msg()
    finally:
        unregister_model(path)


@pytest.mark.parametrize(
    ("dim", "text"),
    [
        ("depth", "not arithmetic"),
        ("batch **", "not arithmetic"),
        ("1 - batch", "is -1"),
        ("1" + "+1" * 5000, "has 10001 char"),
    ],
)
def test_dims_of_outputs_are_arithmetic_with_the_gear(dim, text):
    with pytest.raises(ValueError, match=text):
        register_model("net.om", [Tensor("x", "int8", (-1,))], [Tensor("y", "int8", (dim,))], dynamic_batch=(1, 2))(
            lambda x: x
        )


def test_weights_are_as_large_as_the_file_unless_it_is_said(tmp_path):
    (tmp_path / "net.om").write_bytes(bytes(100))
    (tmp_path / "doubled.py").write_text(DOUBLED)
    sizes = []
    for more in ("", "weight_size = 7\nwork_size = 9\n"):
        (tmp_path / "net.om.toml").write_text(more + GOOD)
        model = read(tmp_path / "net.om.toml", tmp_path / "net.om")
        assert isinstance(model, Model)
        sizes.append((model.work_bytes, model.weight_size))
    assert sizes == [(32, 100), (9, 7)]


# --- the command


def test_the_command_writes_what_loads_and_executes(acl, tmp_path):
    file = tmp_path / "my-net.v2.om"
    shapes = ["--input", "x.1:bfloat16:2,4", "--output", "y:bfloat16:2", "--output", "z:int32:2,1:NHWC"]
    result = CliRunner().invoke(app, ["model", "init", str(file), *shapes])
    assert result.exit_code == 0, result.output
    assert {each.name for each in tmp_path.iterdir()} == {"my-net.v2.om.toml", "my_net_v2.py"}
    model = made(acl.mdl.load_from_file(str(file)))
    desc = acl.mdl.create_desc()
    done(acl.mdl.get_desc(desc, model))
    assert made(acl.mdl.get_input_dims(desc, 0)) == {"name": "x.1", "dimCount": 2, "dims": [2, 4]}
    assert (acl.mdl.get_output_data_type(desc, 0), acl.mdl.get_output_format(desc, 1)) == (27, 1)
    holders = []
    for sizes in ((16,), (4, 8)):
        holders.append(acl.mdl.create_dataset())
        for size in sizes:
            acl.mdl.add_dataset_buffer(holders[-1], acl.create_data_buffer(made(acl.rt.malloc(size, 0)), size))
    done(acl.mdl.execute(model, *holders))


def test_the_command_has_a_model_of_images_in_mind(tmp_path):
    assert CliRunner().invoke(app, ["model", "init", str(tmp_path / "net.om")]).exit_code == 0
    model = read(tmp_path / "net.om.toml", tmp_path / "net.om")
    assert [tensor.dims for tensor in model.everything] == [(1, 3, 224, 224), (1, 1000)]
    assert model.cost_us == (1000,)


def test_the_command_writes_over_nothing_unless_it_is_told(tmp_path):
    file, sidecar, function = (tmp_path / name for name in ("net.om", "net.om.toml", "net.py"))
    sidecar.write_text("mine")
    function.write_text("mine, too")
    result = CliRunner().invoke(app, ["model", "init", str(file)])
    assert (result.exit_code, sidecar.read_text()) == (2, "mine")
    assert CliRunner().invoke(app, ["model", "init", str(file), "--force"]).exit_code == 0
    assert "compute" in sidecar.read_text()
    assert function.read_text() == "mine, too"


@pytest.mark.parametrize("text", ["x", "x:float33:1", "x:float32:1:ABC", "x:float32:-5"])
def test_the_command_refuses_tensors_that_are_none(tmp_path, text):
    result = CliRunner().invoke(app, ["model", "init", str(tmp_path / "net.om"), "--input", text])
    assert result.exit_code == 2
    assert not list(tmp_path.iterdir())


class Recorder:
    """A logger that keeps its warnings."""

    def __init__(self):
        self.warnings = []

    def warning(self, event, **about):
        self.warnings.append((event, about))

    def debug(self, event, **about):
        """Calls are no warnings."""


def test_the_log_is_told_if_there_is_one(acl, tmp_path, capsys):
    log.enable(recorder := Recorder())
    try:
        assert acl.mdl.load_from_file(str(tmp_path / "net.om")) == (0, 145002)
    finally:
        log.disable()
    ((event, about),) = recorder.warnings
    assert f"write {tmp_path / 'net.om.toml'}" in event
    assert 'compute = "net:infer"' in about["detail"]
    assert capsys.readouterr().err == ""


def test_models_are_loaded_in_several_threads_at_once(acl, tmp_path):
    """The first to load one runs the module beside it; another one waits until that is through."""
    (tmp_path / "model.om.toml").write_text(GOOD, encoding="utf-8")
    (tmp_path / "doubled.py").write_text(f"import sys\nsys.modules['gate'].enter()\n{DOUBLED}", encoding="utf-8")
    rets = []

    def load():
        done(acl.rt.set_device(0))
        rets.append(acl.mdl.load_from_file(str(tmp_path / "model.om"))[1])

    other = threading.Thread(target=load)
    gate = ModuleType("gate")
    gate.enter = lambda: (other.start(), other.join(0.2))  # it would be through by then if it did not wait
    sys.modules["gate"] = gate
    try:
        load()
        other.join()
    finally:
        del sys.modules["gate"]
    assert rets == [0, 0]
