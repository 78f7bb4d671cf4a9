"""`acl-py names` for a source, and `python -m tests.aicore.names` for folders of kernels."""

import subprocess

import pytest
from typer.testing import CliRunner

from acl_py import asc, kernel_names
from acl_py.cli import app
from acl_py.kernel_names import NameKind
from acl_py.tools import kernel_sources
from tests.aicore import rooms
from tests.aicore.names import commit_of, kernels_in, own_names_in, report

SOURCE = """\
#include "kernel_operator.h"  // Div(a, b)
/* Sub(a, b)
   is not used */
class Kernel {
    __aicore__ inline void Process() {
        LocalTensor<half> x = queue.AllocTensor<half>();
        AscendC::Add(y, x, z, 64); Add<half>(y, x, z, 64);
        printf("Mul(%d)", 1); RegTensor<half> r; auto w = GetUserWorkspace(p); GetErfMaxMinTmpSize(a);
    }
};
"""


def names(*args):
    return CliRunner().invoke(app, ["names", *map(str, args)])


def written(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_source_uses_the_names_that_it_calls_and_not_those_of_comments_and_strings():
    assert [
        (name.name, name.uses, name.first, name.kind.name, name.here) for name in kernel_sources.names_in(SOURCE)
    ] == [
        ("LocalTensor", 1, 6, "CORE", "LocalTensor"),
        ("AllocTensor", 1, 6, "CORE", "TQue.AllocTensor"),
        ("Add", 2, 7, "CORE", "Add"),
        ("RegTensor", 1, 8, "REGISTER", None),
        ("GetUserWorkspace", 1, 8, "ARGUMENT", None),
        ("GetErfMaxMinTmpSize", 1, 8, "HOST", None),
    ]


def test_every_name_has_a_line_of_its_documentation_or_what_stands_for_it():
    lines = {name.name: name.line for name in kernel_sources.names_in(SOURCE)}
    assert lines["Add"] == asc.Add.__doc__.splitlines()[0]
    assert lines["AllocTensor"] == "Allocate the next free buffer as a tensor."
    assert lines["RegTensor"] == "only Ascend 950 has it"
    assert lines["GetUserWorkspace"] == "a workspace is an InOut argument of the kernel"


def test_the_command_says_which_names_are_missing_and_ends_with_4(tmp_path):
    source = written(tmp_path / "kernel.cpp", SOURCE)
    result = names(source)
    assert result.exit_code == 4
    assert result.stdout.splitlines()[3].split() == [
        "Add",
        "2",
        "7",
        "Add",
        "dst",
        "=",
        "src0",
        "+",
        "src1;",
        "integers",
        "wrap.",
    ]
    assert result.stdout.splitlines()[-1].startswith("3 of 4 names that run on cores are here")
    only = names("--missing", source)
    assert [line.split()[0] for line in only.stdout.splitlines()[1:-1]] == ["RegTensor"]
    whole = written(tmp_path / "whole.cpp", SOURCE.replace("RegTensor<half> r;", ""))
    assert names(whole).exit_code == 0


def test_a_file_that_is_missing_or_no_kernel_is_refused(tmp_path):
    result = names(tmp_path / "none.cpp")
    assert (result.exit_code, "none.cpp cannot be read: No such file or directory" in result.stderr) == (2, True)
    result = names(written(tmp_path / "host.cpp", "int main() { return 0; }"))
    assert (result.exit_code, "no name of Ascend C" in result.stderr) == (2, True)


def test_the_table_has_the_names_of_the_reference_each_once():
    assert kernel_names.table()["Add"] is NameKind.CORE
    kinds = list(kernel_names.table().values())
    assert [kinds.count(kind) for kind in NameKind] == [371, 101, 62, 224, 18]


FIVE = "__aicore__ void f() { Add(a); Sub(a); Mul(a); Div(a); %s }"


def test_folders_that_use_five_names_are_counted_and_those_of_hosts_tests_and_other_cores_are_not(tmp_path):
    written(tmp_path / "ops-nn/add/op_kernel/add.cpp", FIVE % "Exp(a); Exp(b);")
    written(tmp_path / "ops-nn/erf/op_kernel/erf.cpp", FIVE % "Erf(a); ")
    written(tmp_path / "ops-nn/few/op_kernel/few.cpp", FIVE % "")
    for left_out in ("arch35", "tests", "op_host", "regbase"):
        written(tmp_path / f"ops-nn/add/{left_out}/add.cpp", FIVE % "Exp(a);")
    written(tmp_path / "catlass/examples/add/add.cpp", FIVE % "MakeTensor(a); Exp(a);")
    kernels = kernels_in(tmp_path)
    assert {folder: sum(uses.values()) for folder, uses in kernels.items()} == {
        "ops-nn/add/op_kernel": 6, "ops-nn/erf/op_kernel": 5, "catlass/examples/add": 5,
    }  # fmt: skip
    here, own = {"Add", "Sub", "Mul", "Div", "Exp"}, own_names_in(tmp_path)
    lines = [line.split() for line in report(kernels, here, own)]
    assert lines[1] == ["ops-nn", "2", "1", "1"]
    assert lines[7] == ["together", "3", "2", "1"]
    assert lines[8] == "15 of 16 calls are of names that are here: 93.8%".split()
    assert lines[9][0] == "0"
    assert " ".join(lines[10]) == "0 of the 1 others lack only names that Atlas A2 and A3 do not have"
    assert lines[-1] == ["Erf", "1", "1"]


def test_a_checkout_is_named_with_its_commit(tmp_path):
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first", "--date", "2026-01-02T00:00:00"]):
        subprocess.run([*git, *command], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    assert commit_of(tmp_path).split()[0] == commit
    assert commit_of(tmp_path / "none").startswith("no commit")


def test_a_method_of_several_classes_is_that_of_the_one_that_kernels_use_most():
    assert kernel_sources.here()["Iterate"] == "Matmul.Iterate"
    assert kernel_sources.here()["SetValue"] == "LocalTensor.SetValue"


def test_names_that_are_here_lead_to_something():
    for place in kernel_sources.here().values():
        value = asc
        for part in place.split("."):
            value = getattr(value, part)


def test_the_page_has_all_names_by_room():
    assert rooms.TABLE.search(rooms.PAGE.read_text(encoding="utf-8"))[0] == rooms.table()


def test_a_name_that_is_not_here_says_why():
    with pytest.raises(AttributeError, match="asc has no RegTensor: only Ascend 950 has it"):
        asc.RegTensor  # noqa: B018
    with pytest.raises(AttributeError, match="asc has no MulDstAdd: only Ascend 950 has it"):
        asc.MulDstAdd  # noqa: B018
    with pytest.raises(AttributeError, match="asc has no BroadCastVecToMM: Atlas A2 and A3 do not have it"):
        asc.BroadCastVecToMM  # noqa: B018
    with pytest.raises(AttributeError, match=r"asc has no GetUserWorkspace: a workspace is an InOut argument"):
        asc.GetUserWorkspace  # noqa: B018
    with pytest.raises(AttributeError, match=r"module 'acl_py.asc' has no attribute 'Ad'"):
        asc.Ad  # noqa: B018


OWN = """\
#include "kernel_operator.h"
class Sorter {
    __aicore__ inline void SetInput(GlobalTensor<float>& x, LocalTensor<float>& y);
    template <typename T> __aicore__ inline T GetLayout() { return 0; }
    __aicore__ inline void Process() {
        sorter->SetInput(x, y); GetLayout<int>(); Add(y, x, z, 64); Muls(y, x, 2, 64); Exp(y, x, 64);
        Abs(y, x, 64); Sqrt(y, x, 64);
    }
};
template <typename T>
__aicore__ inline void Sorter<T>::BatchWrite(int a) {}
"""


def test_functions_of_a_source_itself_are_no_uses_of_the_names_that_they_have(tmp_path):
    assert kernel_sources.defined(OWN) == {"SetInput", "GetLayout", "Process", "BatchWrite"}
    assert {"SetInput", "GetLayout"} <= set(kernel_sources.used(OWN))
    assert not {"SetInput", "GetLayout", "BatchWrite"} & {name.name for name in kernel_sources.names_in(OWN)}
    file = written(tmp_path / "ops-nn" / "sorting" / "sorter.h", OWN)
    assert names(file).exit_code == 0
    kernels = kernels_in(tmp_path)
    here = {"GlobalTensor", "LocalTensor", "Add", "Muls", "Exp", "Abs", "Sqrt"}
    lines = [line.split() for line in report(kernels, here, own_names_in(tmp_path))]
    assert lines[1] == ["ops-nn", "1", "1", "0"]
    assert lines[8] == "12 of 12 calls are of names that are here: 100.0%".split()
    assert lines[9][0] == "1"
    assert lines[-1][0] == "missing"


def test_a_kernel_for_other_cores_lacks_their_names(tmp_path):
    written(tmp_path / "ops-nn/a/op_kernel/a.cpp", FIVE % "Lock(a); ")
    written(tmp_path / "ops-nn/b/op_kernel/b.cpp", FIVE % "Lock(a); Exp(a);")
    lines = list(report(kernels_in(tmp_path), {"Add", "Sub", "Mul", "Div"}, own_names_in(tmp_path)))
    assert "1 of the 2 others lack only names that Atlas A2 and A3 do not have" in lines
