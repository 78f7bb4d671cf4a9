"""`acl-py shell`: the commands of a README, with `atc` and `python` of its own."""

import stat

import pytest

from tests import forks

SCRIPT = """
import acl
print(acl.get_soc_name(), acl.rt.get_device_count()[0])
"""


@pytest.fixture
def shell(tmp_path):
    """Run `acl-py shell` with these arguments in a folder with a script: the process that has ended."""
    (tmp_path / "infer.py").write_text(SCRIPT)

    def run(*arguments, text=""):
        return forks.run("-m", "acl_py", "shell", *arguments, cwd=tmp_path, text=text)

    run.folder = tmp_path
    return run


def test_python_in_it_finds_the_modules_and_the_options(shell):
    done = shell("--device", "ascend310p3", "--devices", "2", "python3 infer.py && python infer.py")
    assert (done.returncode, done.stdout) == (0, "Ascend310P3 2\n" * 2)


def test_a_program_with_arguments_is_run_as_it_is(shell):
    script = shell.folder / "run.sh"
    script.write_text('#!/bin/sh\npython3 infer.py\necho "$1"\nexit 7\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    done = shell("./run.sh", "an argument")
    assert (done.returncode, done.stdout) == (7, "Ascend910B3 8\nan argument\n")
    done = shell("nonesuch", "argument")
    assert (done.returncode, done.stderr) == (127, "acl-py: nonesuch: No such file or directory\n")


def test_without_a_command_it_reads_lines(shell, monkeypatch):
    monkeypatch.setenv("SHELL", "/bin/sh")
    done = shell(text="python3 infer.py\natc --framework=5\necho $?\n")
    told = done.stdout.splitlines()
    assert (told[0], told[-1]) == ("Ascend910B3 8", "255")
    assert "E10054: --model is required: the ONNX file" in told


def test_an_option_that_cannot_be_is_refused(shell):
    assert shell("--device", "nonesuch", "true").returncode == 2
    assert shell("--rules", "nonesuch", "true").returncode == 2
