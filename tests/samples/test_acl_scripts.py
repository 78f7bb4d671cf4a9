"""The scripts of samples/acl run unmodified by `acl-py run`, and print what the file beside each says.

`python tests/samples/test_acl_scripts.py` writes those files again.
"""

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from acl_py.signatures import read
from tests import forks

FOLDER = Path(__file__).parent.parent.parent / "samples" / "acl"
SCRIPTS = sorted(FOLDER.glob("*.py"))
HANGING = {  # what the explanation says of each: who waits, for what, at which lines
    "event_limit": (
        r"the program: acl\.rt\.record_event\(Event \d+\) waits for an event id at event_limit\.py:18",
        r"one of 1023 ids is free again",
        r"wait for Event 1 on stream 1 \(event_limit\.py:14\)",
    ),
    "in_a_thread": (
        r"thread 'worker': acl\.rt\.synchronize_stream\(stream 2\) at in_a_thread\.py:20",
        r"wait for Event 1 on stream 2 \(in_a_thread\.py:18\) lasts until",
        r"wait for Event 2 on stream 1 \(in_a_thread\.py:16\) lasts until",
        r"which closes the circle",
        r"the main thread: in_a_thread\.py:28, in <module>",
        r"thread 'worker': in_a_thread\.py:20, in worker",
    ),
    "left_behind": (
        r"thread 'waits': acl\.rt\.synchronize_stream\(stream 1\) at left_behind\.py:17",
        r"wait for Notify 1 on stream 1 \(left_behind\.py:16\)",
        r"the main thread: has finished the script and waits for the other threads",
    ),
    "nobody_reports": (
        r"the program: acl\.rt\.synchronize_stream\(stream 1\) at nobody_reports\.py:19",
        r"callback print on stream 1 \(nobody_reports\.py:18\)",
        r"let the stream's subscriber call acl\.rt\.process_report\(\)",
    ),
    "polling_thread": (
        r"the program: acl\.rt\.synchronize_stream\(stream 1\) at polling_thread\.py:23",
        r"wait for Event 1 on stream 1 \(polling_thread\.py:22\)",
        r"acl\.rt\.process_report\(100\) at polling_thread\.py:12 has run out, again and again",
    ),
    "unrecorded_event": (
        r"the program: acl\.rt\.synchronize_stream\(stream 1\) at unrecorded_event\.py:18",
        r"wait for Event 1 on stream 1 \(unrecorded_event\.py:14\)",
        r"record Event \d+, in a stream",
    ),
}
DEVICE = {"event_limit": "ascend310p3"}  # which has 1023 event ids


def run(script: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return forks.run("-m", "acl_py", "run", *options, script)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_prints_what_the_file_beside_it_says_and_leaves_nothing_behind(script):
    done = run(script)
    assert done.returncode == 0, done.stderr
    assert done.stdout == script.with_suffix(".out").read_text(encoding="utf-8")
    assert re.search(r"^acl-py: ascend910b3, rules acl: [\d,.]+ us of simulated time$", done.stderr, re.MULTILINE)
    assert "leak" not in done.stderr
    assert "the sanitizer found" not in done.stderr


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", HANGING)
def test_a_script_that_hangs_on_a_card_ends_with_exit_code_3_and_the_reason(name):
    done = run(FOLDER / "hanging" / f"{name}.py", "--device", DEVICE.get(name, "ascend910b3"))
    assert done.returncode == 3, done.stderr
    assert "not reached" not in done.stdout
    # On a busy machine a line before it may say that a loop makes no calls.
    assert re.search(r"^acl-py: on a card this would hang$", done.stderr, re.MULTILINE), done.stderr
    for what in HANGING[name]:
        assert re.search(what, done.stderr), done.stderr


def test_all_hanging_scripts_are_looked_at():
    assert sorted(HANGING) == sorted(script.stem for script in (FOLDER / "hanging").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_uses_what_the_vendors_module_has_and_nothing_of_ours(script):
    known = {signature.full_name for signature in read()}
    tree = ast.parse(script.read_text(encoding="utf-8"))
    modules = {"acl.rt", "acl.mdl", "acl.op", "acl.media", "acl.util", "acl.prof", "acl.himpi"}
    called = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    called = {name for name in called if name.startswith("acl.")} - modules
    others = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert called or others, "it uses the module"
    assert called <= known
    assert others <= {"ais_bench.infer.interface", "collections"}
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    others = {"csv", "glob", "os", "queue", "sys", "tempfile", "threading"}
    assert imported <= {"acl", "mstx", "numpy"} | others


@pytest.mark.skipif(
    importlib.util.find_spec("acl") is None, reason="there is no real acl on this machine: roundtrip.py is for both"
)
def test_a_script_runs_unchanged_on_a_card():
    done = subprocess.run(
        [sys.executable, str(FOLDER / "roundtrip.py")], capture_output=True, encoding="utf-8", check=False, timeout=120
    )
    assert done.stdout == (FOLDER / "roundtrip.out").read_text(encoding="utf-8"), done.stderr


if __name__ == "__main__":
    for script in SCRIPTS:
        done = run(script)
        assert done.returncode == 0, f"{script}: {done.returncode}\n{done.stderr}"
        script.with_suffix(".out").write_text(done.stdout, encoding="utf-8")
