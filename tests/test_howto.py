"""The how-to guides run as they are printed: `python -m tests.test_howto` writes their outputs again.

A block of Python, TOML or C++ is a file, which its first line names. A block of a console has commands behind `$`, and
what they print on either output.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree as ET

import pytest
import yaml

NEEDED = {"cluster": "distributed", "onnx_model": "onnxruntime"}  # packages that are not everywhere, by guide
GUIDES = sorted((Path(__file__).parent.parent / "docs" / "howto").glob("*.md"))
BLOCK = re.compile(r"^```(python|toml|cpp|console)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# Without the other variables of whoever runs the tests: with CI, pytest prints whole messages instead of cut ones.
ENVIRONMENT = {name: os.environ[name] for name in ("HOME", "TMPDIR") if name in os.environ} | {
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "LANG": "C.UTF-8", "COLUMNS": "100",
    "PYTHONDONTWRITEBYTECODE": "1",
}  # fmt: skip


def replayed(guide: str) -> str:
    """The text of a *guide* with the outputs that its commands have now."""
    with TemporaryDirectory() as folder:

        def block(found: re.Match[str]) -> str:
            language, text = found.groups()
            if language != "console":
                name = re.match(r"(?:#|//) (\w+\.\w+)\n", text)
                assert name, (
                    f"a block of {language} begins with the name of its file, not with {text.splitlines()[0]!r}"
                )
                Path(folder, name[1]).write_text(text, encoding="utf-8")
                return found[0]
            commands = [line for line in text.splitlines() if line.startswith("$ ")]
            shown = [f"{command}\n{output_of(command[2:], folder)}" for command in commands]
            return f"```console\n{''.join(shown)}```"

        return BLOCK.sub(block, guide)


def output_of(command: str, folder: str) -> str:
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL, text=True, check=False,
    )  # fmt: skip
    return re.sub(r"[ \t]+$", "", done.stdout, flags=re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_a_guide_runs_as_it_is_printed(guide):
    if guide.stem in NEEDED:
        pytest.importorskip(NEEDED[guide.stem])
    text = guide.read_text(encoding="utf-8")
    assert replayed(text) == text


@pytest.mark.slow
def test_the_workflow_runs_in_the_folder_of_its_guide(tmp_path):
    """Its steps that install and upload are left out; what they upload is there."""
    text = (GUIDES[0].parent / "ci.md").read_text(encoding="utf-8")
    for language, block in BLOCK.findall(text):
        if language != "console":
            (tmp_path / block.split()[1]).write_text(block, encoding="utf-8")
    (workflow,) = re.findall(r"^```yaml\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    (job,) = yaml.safe_load(workflow)["jobs"].values()
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert [command.split()[0] for command in commands] == ["pip", "acl-py"]
    assert "1 failed, 1 passed" in output_of(commands[1], str(tmp_path))
    uploaded = [step.get("with", {}) for step in job["steps"]]
    files = [step[name] for step in uploaded for name in ("sarif_file", "path") if name in step]
    assert files == ["findings.sarif", "tests.xml"]
    assert json.loads((tmp_path / files[0]).read_text())["version"] == "2.1.0"
    assert ET.parse(tmp_path / files[1]).getroot()[0].attrib["failures"] == "1"


def test_every_guide_runs_something():
    assert all("```console\n$ " in guide.read_text(encoding="utf-8") for guide in GUIDES)


if __name__ == "__main__":
    for guide in GUIDES:
        guide.write_text(replayed(guide.read_text(encoding="utf-8")), encoding="utf-8")
