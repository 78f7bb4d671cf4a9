"""Files that somebody has damaged: each kind is read, or refused with its own error and a printable sentence.

Pieces of a good file are cut out, put in and doubled. tests/acl_py/trace/test_mutated.py changes single values of
traces.
"""

import json
import random
from importlib import resources
from pathlib import Path

import pytest

from acl_py import faults
from acl_py.compat.acl.standins import sidecars
from acl_py.compat.acl.standins.sidecars import SidecarError
from acl_py.faults import FaultError
from acl_py.programs import format as programs
from acl_py.programs.format import ProgramError
from acl_py.sanitizer import suppressions
from acl_py.sanitizer.suppressions import SuppressionError
from device_model import overlay, profile
from device_model.profile import ProfileError

ROOT = Path(__file__).parents[1]
EACH = 100
PIECES = ["", "9" * 30, "-1", "[", "{", "[[", '"', "'", "\n", "1e400", "nan", "\x1b", "\0", "= 0", "]" * 300, "\\ud800"]
SUPPRESSIONS = """\
[tool.acl_py.sanitizer]
suppress = [
    {id = "01234567", reason = "the ring is one chunk behind on purpose"},
    {kind = "race", site = "app.py:12", reason = "measured"},
]
"""
PROGRAM = {
    "id": "good", "buffers": {"d": {"space": "device", "bytes": 4096}, "h": {"space": "pinned", "bytes": 4096}},
    "streams": {"A": {}, "B": {"flags": "nonblocking"}}, "events": {"e": {}},
    "steps": [
        {"op": "memcpy_async", "dst": "d", "src": "h", "bytes": 4096, "stream": "A"},
        {"op": "record", "event": "e", "stream": "A"},
        {"op": "wait", "event": "e", "stream": "B"},
        {"op": "launch", "id": "k", "stream": "B", "us": 100, "reads": [["d", 0, 64]]},
        {"op": "sync_stream", "stream": "B"},
    ],
}  # fmt: skip


def shipped(folder, name):
    return (resources.files("device_model") / folder / name).read_text(encoding="utf-8")


def read_profile(path):
    profile.load(path)


def read_overlay(path):
    overlay.load(path, profile.load("h200"))


def read_program(path):
    for each in programs.load(path):
        if isinstance(each, ProgramError):
            raise each


def read_suppressions(path):
    suppressions.find(path.parent)


def read_rule(path):
    faults.parse(path.read_bytes().decode(errors="surrogateescape"))


def read_sidecar(path):
    sidecars.read(path, path.with_suffix(""))


KINDS = {
    "profile.toml": (shipped("profiles", "tiny.toml"), read_profile, ProfileError),
    "overlay.toml": (shipped("overlays", "torch.toml"), read_overlay, ProfileError),
    "program.json": (json.dumps(PROGRAM), read_program, ProgramError),
    "pyproject.toml": (SUPPRESSIONS, read_suppressions, SuppressionError),
    "rule.txt": ("fail call=Memcpy nth=3 kind=OUT_OF_MEMORY", read_rule, FaultError),
    "classifier.om.toml": (
        (ROOT / "samples/acl/models/classifier.om.toml").read_text(encoding="utf-8"), read_sidecar, SidecarError
    ),
}  # fmt: skip


def damaged(rng, text):
    """*text* with some pieces cut out, put in or doubled."""
    for _ in range(rng.randint(1, 3)):
        at, length = rng.randint(0, len(text)), rng.choice([0, 1, 3, 40])
        piece = rng.choice([*PIECES, text[at : at + 40]])
        text = text[:at] + piece + text[at + length :]
    return text


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 34))])
@pytest.mark.parametrize("name", KINDS)
def test_a_damaged_file_is_read_or_refused_with_a_sentence(tmp_path, name, seed):
    """20,400 files in the slow suite."""
    text, read, error = KINDS[name]
    (tmp_path / "classifier.py").write_text("def classify(*arrays): ...\n", encoding="utf-8")
    path, rng = tmp_path / name, random.Random(f"{name} {seed}")
    messages = []
    for _ in range(EACH):
        path.write_bytes(damaged(rng, text).encode(errors="surrogatepass"))
        try:
            read(path)
        except error as refusal:
            messages.append(str(refusal))
    assert len(messages) > EACH // 3
    assert [each for each in messages if len(each) > 4_000 or not "".join(each.splitlines()).isprintable()] == []


def test_a_project_in_which_our_table_is_a_number_has_no_suppressions(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool]\nacl_py = 3\n", encoding="utf-8")
    assert suppressions.find(tmp_path) == ()
