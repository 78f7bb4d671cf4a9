"""The workflows of the repository: GitHub reads them, and what they run is there."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SITE = ROOT / ".github" / "workflows" / "site.yml"


@pytest.fixture
def workflow():
    """The workflow of the site; in YAML 1.1 its key `on` is True."""
    yaml = pytest.importorskip("yaml", reason="pip install -e '.[dev]'")
    found = yaml.safe_load(SITE.read_text(encoding="utf-8"))
    found["on"] = found.pop(True)
    return found


def steps(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def targets():
    """The targets of the Makefile with their commands."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return dict(re.findall(r"^([a-z-]+):[^=\n]*\n((?:\t.*\n)+)", text, re.MULTILINE))


def test_the_site_is_published_by_a_tag_of_a_version_or_by_hand_and_by_nothing_else(workflow):
    assert workflow["on"] == {"push": {"tags": ["v*"]}, "workflow_dispatch": None}


def test_each_command_is_a_target_of_the_makefile_and_what_it_writes_is_what_is_published(workflow):
    commands = [step["run"] for step in steps(workflow) if "run" in step]
    assert commands == ["make docs PYTHON=python"]
    (uploaded,) = [step["with"]["path"] for step in steps(workflow) if "upload-pages" in step.get("uses", "")]
    assert re.search(rf"sphinx-build .*--fail-on-warning.* {re.escape(uploaded)}$", targets()["docs"], re.MULTILINE)


def test_its_python_is_one_that_the_package_is_for(workflow):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (version,) = [step["with"]["python-version"] for step in steps(workflow) if "setup-python" in step.get("uses", "")]
    assert f"Programming Language :: Python :: {version}" in project["classifiers"]


def test_only_the_job_that_publishes_may_write_and_it_runs_no_code_of_ours(workflow):
    """The build runs what is in the repository and what pip fetches: its token reads, and no more."""
    jobs = workflow["jobs"]
    assert workflow["permissions"] == {"contents": "read"}
    assert "permissions" not in jobs["build"]
    assert jobs["publish"]["permissions"] == {"pages": "write", "id-token": "write"}
    assert jobs["publish"]["needs"] == "build"
    assert [step["uses"].partition("@")[0] for step in jobs["publish"]["steps"]] == ["actions/deploy-pages"]
    (step,) = jobs["publish"]["steps"]
    assert f"steps.{step['id']}.outputs.page_url" in jobs["publish"]["environment"]["url"]


def test_each_action_has_a_version(workflow):
    used = [step["uses"] for step in steps(workflow) if "uses" in step]
    assert [each for each in used if not re.fullmatch(r"actions/[a-z-]+@v\d+", each)] == []


def test_actionlint_finds_nothing():
    if shutil.which("actionlint") is None:
        pytest.skip("actionlint is not there")
    done = subprocess.run(["actionlint", SITE], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
