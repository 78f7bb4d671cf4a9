"""The list of public scripts, and its table in docs/cuda/tried.md."""

import re

import pytest

from tests.cuda.public_scripts import complaint, listed, scripts, table
from tests.test_readme import ROOT


def test_the_page_has_the_table_that_the_command_prints(capsys):
    scripts()
    printed = capsys.readouterr().out
    assert printed == "\n".join(table()) + "\n"
    assert f"\n{printed}\n" in (ROOT / "docs" / "cuda" / "tried.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("script", listed(), ids=lambda script: script.path)
def test_a_script_is_at_a_commit_and_has_a_sentence_if_it_does_not_end(script):
    assert re.fullmatch("[0-9a-f]{40}", script.commit)
    assert script.uses in ("cuda.core", "cuda.bindings", "numba")
    assert not script.why or re.fullmatch("[A-Z].*[.]", script.why)
    re.compile(script.prints)


def test_scripts_run_in_their_own_folder(tmp_path):
    by_name = {script.path.rpartition("/")[2]: script for script in listed()}
    script, notebook = by_name["sum.py"], by_name["kernels.ipynb"]
    assert script.place(tmp_path) == tmp_path / "numba-examples/legacy/cudajit/sum.py"
    assert script.command() == ("sum.py",)
    assert notebook.command() == ("-m", "IPython", "kernels.ipynb")
    assert by_name["jit_program.py"].command()[1] == "jit_program.py"


def test_the_error_of_a_cell_in_colours_is_told_and_not_a_warning_behind_it():
    cell = "\x1b[31mTypeError\x1b[39m: Signature mismatch\nlater output\n"
    assert complaint(cell, "a warning\n") == "TypeError: Signature mismatch"
    assert complaint("", "no error\nacl-py: h200, rules cuda\n") == "no error"
    assert complaint("ended\n", "") == "ended"
