"""The options that a project gives in its pyproject.toml, and `acl-py config`."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from acl_py.cli import app
from acl_py.cli.defaults import defaults_of
from acl_py.parts import ALL_PARTS
from acl_py.projects import ProjectError
from tests import forks

TINY = Path(__file__).parents[2] / "device_model" / "profiles" / "tiny.toml"
READS_EARLY = """\
import numpy as np
import acl_py as acl

async def main():
    host, device = await acl.MallocHost(64), await acl.Malloc(64)
    host.numpy(np.uint8)[:] = 1
    stream = await acl.CreateStream()
    await acl.MemcpyAsync(device, 64, host, 64, acl.MemcpyKind.HOST_TO_DEVICE, stream)
    host.numpy(np.uint8)[:] = 2
    print(acl.current_simulation().runtime.profile.name)

acl.run(main)
"""


def write(folder, text):
    folder.mkdir(exist_ok=True)
    (folder / "pyproject.toml").write_text(text)
    return folder


def test_the_nearest_project_gives_the_options(tmp_path):
    write(tmp_path, '[tool.acl_py]\ndevice = "h200"')
    inner = write(tmp_path / "inner", '[tool.acl_py]\nrules = "acl"\nsanitize = true')
    write(inner / "no_table", "[project]\nname = 'x'")
    assert defaults_of(inner / "no_table") == ({"rules": "acl", "sanitize": ALL_PARTS}, inner / "pyproject.toml")
    assert defaults_of(tmp_path) == ({"device": "h200"}, tmp_path / "pyproject.toml")


@pytest.mark.parametrize(
    "text",
    [
        '[tool.acl_py]\nrules = "acl"',
        "[ 'tool' . \"acl_py\" ]\nrules = 'acl'",
        '[tool]\nacl_py.rules = "acl"',
        '[tool]\n"acl_py" = {rules = "acl"}',
        'tool.acl_py.rules = "acl"',
    ],
)
def test_a_table_may_be_written_in_any_way(tmp_path, text):
    assert defaults_of(write(tmp_path, text)).values == {"rules": "acl"}


def test_a_profile_of_the_project_is_found_from_its_file_on(tmp_path):
    (tmp_path / "cards").mkdir()
    (tmp_path / "cards" / "mine.toml").write_text(TINY.read_text())
    write(tmp_path, '[tool.acl_py]\ndevice = "cards/mine.toml"\nsanitize = false')
    assert defaults_of(tmp_path).values == {"device": str(tmp_path / "cards" / "mine.toml")}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[tool]\nacl_py = 3", "[tool.acl_py] must be a table, not 3"),
        ("[tool.acl_py]\ndevices = 2", "has the key 'devices', but there are only device, rules, sanitize"),
        ("[tool.acl_py]\ndevice = 2", "device in [tool.acl_py] must be a text, not 2"),
        (
            "[tool.acl_py]\ndevice = 'h300'",
            "device in [tool.acl_py]: there is no profile 'h300'; did you mean h200? There are ",
        ),
        ("[tool.acl_py]\ndevice = 'none.toml'", "cannot read the profile "),
        ("[tool.acl_py]\nrules = 'opencl'", "rules in [tool.acl_py]: there are no rules 'opencl'; there are "),
        ("[tool.acl_py]\nsanitize = 1", "sanitize in [tool.acl_py] must be true, false or a text, not 1"),
        ("[tool.acl_py]\nsanitize = 'races'", "sanitize in [tool.acl_py]: "),
        ("[tool.acl_py", "cannot be read: "),
    ],
)
def test_a_table_that_cannot_be_used_is_a_sentence_with_its_file(tmp_path, text, words):
    with pytest.raises(ProjectError) as refused:
        defaults_of(write(tmp_path, text))
    assert str(refused.value).startswith(f"{tmp_path / 'pyproject.toml'}: ")
    assert words in str(refused.value)


def test_a_script_runs_as_its_project_says_and_a_command_line_says_more(tmp_path):
    write(tmp_path, '[tool.acl_py]\ndevice = "tiny"\nsanitize = true')
    (tmp_path / "early.py").write_text(READS_EARLY.replace("acl.run(main)", "acl.run(main, sanitize=None)"))
    said = forks.run("-m", "acl_py", "run", "early.py", cwd=tmp_path)
    assert said.returncode == 4
    assert "early.py:9" in said.stderr
    without = forks.run("-m", "acl_py", "run", "--no-sanitize", "early.py", cwd=tmp_path)
    assert without.returncode == 0
    assert "early.py:9" not in without.stderr


def test_config_prints_the_options_and_where_they_come_from(tmp_path, monkeypatch):
    monkeypatch.chdir(write(tmp_path, '[tool.acl_py]\ndevice = "tiny"'))
    lines = CliRunner().invoke(app, ["config"]).output.splitlines()
    assert lines[0] == "device    tiny  (pyproject.toml)"
    assert [line.split()[0] for line in lines] == ["device", "rules", "sanitize"]
    assert lines[2].startswith("sanitize  not given: ")


def test_config_says_which_table_is_looked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = CliRunner().invoke(app, ["config"]).output.splitlines()[0]
    assert first == "no pyproject.toml in this folder or above it has a table [tool.acl_py]"


@pytest.mark.parametrize("command", [["run", "x.py"], ["explore", "x.py"], ["replay", "x.json"], ["config"]])
def test_a_command_is_refused_where_the_project_is_wrong(tmp_path, monkeypatch, command):
    monkeypatch.chdir(write(tmp_path, '[tool.acl_py]\nrules = "opencl"'))
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 2
    assert "opencl" in done.output
