"""What `acl-py calibrate` and `acl-py predict` refuse."""

import os

import pytest

from tests import forks


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (
            ("calibrate", "-o", "mine.toml", "--device", "h200"),
            "--device must be a card of NVIDIA, such as cuda:0, not 'h200'",
        ),
        (("calibrate", "-o", "mine.json"), "--out must end with .toml, as profiles do"),
        (("predict", "--device", "tiny", "main.py"), "--device must be a card of NVIDIA, such as cuda:0, not 'tiny'"),
        (("predict", "--model", "h300", "main.py"), "there is no profile 'h300'"),
    ],
)
def test_an_option_that_cannot_be_is_refused(command, text, tmp_path):
    done = forks.run("-m", "acl_py", *command, cwd=tmp_path)
    assert done.returncode == 2
    assert text in " ".join(done.stderr.replace("│", " ").split())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow  # it starts an interpreter
def test_a_program_that_fails_on_the_model_does_not_run_on_a_card(tmp_path):
    (tmp_path / "main.py").write_text("raise SystemExit('no such file: weights')")
    done = forks.run("-m", "acl_py", "predict", "main.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "the program ended with 1 on the model:\nno such file: weights" in done.stderr


@pytest.mark.skipif(bool(os.environ.get("ACL_PY_CARD")), reason="there is a card")
@pytest.mark.parametrize(
    "command", [("calibrate", "-o", "mine.toml"), ("predict", "main.py")], ids=lambda each: each[0]
)
def test_a_machine_without_a_card_is_told_what_helps(command, tmp_path):
    (tmp_path / "main.py").write_text("import acl_py\nasync def main(): await acl_py.GetDevice()\nacl_py.run(main)")
    done = forks.run("-m", "acl_py", *command, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "pip install" in done.stderr or "install the vendor's" in done.stderr
    assert done.stderr.count("\n") < 4
