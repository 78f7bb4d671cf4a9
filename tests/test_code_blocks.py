"""Every block of code in README and docs runs: most as the examples of test_readme.py and the guides of test_howto.py,
the others here, each on a stage of its own.

In a block of text, `...` at the end of a line stands for the rest of it, and on a line of its own for any lines.
"""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.code_blocks.stages import STAGES
from tests.test_readme import HOWTO, PAGES, ROOT, WITH_EXAMPLES, examples_of, name_of

BLOCK = re.compile(r"^```(\S*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# Pages that other tests write or run whole.
WHOLE = {page for page in PAGES if name_of(page).partition("/")[0] in ("errors", "semantics")} | set(HOWTO)
# Blocks that other tests compare, or that cannot be compared.
ELSEWHERE = {
    ("acl/running", 'acl-py shell --device ascend310p3 "bash run.sh"   '): "tests/compat/test_shell.py",
    ("aicore", "acl-py compare tests/acl_py/compared.py:wrong refe"): "tests/acl_py/test_compare.py",
    ("aicore", "result 0: 4,096 of 32,768 elements differ"): "tests/acl_py/test_compare.py",
    ("aicore", "acl-py names add_custom.cpp"): "tests/aicore/test_aicore_names.py",
    ("card/bodies", "0 of 90 operations begin before their calls"): "real times of a card",
    ("installing", "FROM python:3.12-slim"): "needs Docker",
    ("installing", "docker build --tag acl-py ."): "needs Docker",
    ("sanitizer/tests", f"{'-' * 36} acl_py {'-' * 6}"): "tests/sanitizer/test_explained_failures.py",
    ("sweeps", "acl-py sweep samples/sweeps/streams_and_chunks.py "): "tests/sweeps/test_sweep_cli.py",
    ("traces/advice", "advice: all of this: 2,320.3 us -> 1,214.6 us, sti"): "tests/acl_py/advice/test_texts.py",
    (
        "accuracy/aicore_rows",
        "AI cores: AddCustom with queues of 8160 x 8192 hal",
    ): "real times, as make bench prints them",
}
# tests/test_package.py installs, and Jupyter would not end.
SHELL = "trap 'echo \"exit code $?\"' ERR; pip() { :; }; jupyter() { :; }\n"


def blocks_of(page):
    """The blocks of *page* that no other file runs whole, by the page and their first 50 characters."""
    text = page.read_text(encoding="utf-8")
    spans = [example.span() for example in examples_of(page)] if page in WITH_EXAMPLES else []
    blocks = [block for block in BLOCK.finditer(text) if not any(a <= block.start() < b for a, b in spans)]
    return {
        (name_of(page), block[2].splitlines()[0][:50]): block[2] for block in blocks if not block[1].startswith("{")
    }


BLOCKS = {key: text for page in PAGES if page not in WHOLE for key, text in blocks_of(page).items()}


def test_every_block_has_its_stage():
    assert BLOCKS.keys() == STAGES.keys() | ELSEWHERE.keys()


@pytest.mark.slow
@pytest.mark.parametrize("key", STAGES, ids=" ".join)
def test_a_block_runs(key, tmp_path):
    stage, block = STAGES[key], BLOCKS[key]
    for package in stage.needs:
        pytest.importorskip(package, reason=f"{package} is not installed")
    (tmp_path / "samples").symlink_to(ROOT / "samples")
    (tmp_path / "tests/explore").mkdir(parents=True)
    (tmp_path / "tests/explore/planted").symlink_to(ROOT / "tests/explore/planted")
    for name, text in stage.files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    if stage.name:
        program = stage.around.replace("{block}", block).replace("{indented}", textwrap.indent(block, "    "))
        (tmp_path / stage.name).write_text(program, encoding="utf-8")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ACL_PY"))}
    variables |= {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1"}
    done = subprocess.run(
        ["bash", "-c", SHELL + stage.command.replace("{block}", block)], cwd=tmp_path, env=variables | stage.variables,
        text=True, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    codes = tuple(map(int, re.findall(r"^exit code (\d+)$", done.stdout, re.MULTILINE)))
    assert codes == stage.codes, done.stdout
    assert stage.says in done.stdout
    if stage.is_text:
        assert re.search(pattern_of(block), done.stdout, re.MULTILINE), done.stdout


def pattern_of(block):
    """What a block of text matches; see above."""
    lines = [
        r"(?:.*\n)*?" if line.strip() == "..."
        else re.escape(line.removesuffix("...")) + (".*\n" if line.endswith("...") else "\n")
        for line in block.splitlines()
    ]  # fmt: skip
    return "^" + "".join(lines)
