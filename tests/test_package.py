"""What would be published: a wheel and a source archive, which an index takes, and which work where nothing else is."""

import re
import subprocess
import sys
import tarfile
import tomllib
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

import acl_py

ROOT = Path(__file__).parent.parent
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """The folder of the built archives."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)],
        check=True,
        capture_output=True,
    )
    return folder


def test_an_index_takes_both_archives(dist):
    files = sorted(dist.iterdir())
    assert [file.name for file in files] == [
        f"acl_py-{acl_py.__version__}-py3-none-any.whl",
        f"acl_py-{acl_py.__version__}.tar.gz",
    ]
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *map(str, files)], check=True)


def test_the_wheel_has_the_packages_and_their_data_and_nothing_else(dist):
    (wheel,) = dist.glob("*.whl")
    names = ZipFile(wheel).namelist()
    packages = [
        path for package in ("acl_py", "device_model") for path in (ROOT / package).rglob("*") if path.is_file()
    ]
    here = {path.relative_to(ROOT).as_posix() for path in packages if "__pycache__" not in path.parts}
    assert {name for name in names if ".dist-info/" not in name} == here | {"acl_py_pytest.py"}


def test_the_source_archive_can_be_tested(dist):
    (archive,) = dist.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tops = {name.split("/")[1] for name in tar.getnames() if "/" in name}
    assert {"acl_py", "device_model", "tests", "samples", "docs", "Makefile", "README.md", "CHANGELOG.md"} <= tops


def test_the_wheel_runs_the_demo_where_nothing_else_is(dist, tmp_path):
    (wheel,) = dist.glob("*.whl")
    venv.create(tmp_path / "env", with_pip=True)
    run = [str(tmp_path / "env" / "bin" / "python"), "-m"]
    subprocess.run([*run, "pip", "install", "--quiet", str(wheel)], check=True, cwd=tmp_path)
    command = [tmp_path / "env" / "bin" / "acl-py", "demo", "--report", "demo.html"]
    done = subprocess.run(command, check=True, cwd=tmp_path, capture_output=True, text=True)
    assert "us" in done.stdout
    assert (tmp_path / "demo.html").read_text(encoding="utf-8").lower().startswith("<!doctype html>")


def test_the_changelog_begins_with_this_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## (\S+),", text, re.MULTILINE)[1] == acl_py.__version__
    assert f"(tag `v{acl_py.__version__}`)" in text


def test_the_citation_has_the_version_and_the_licence():
    lines = (ROOT / "CITATION.cff").read_text(encoding="utf-8").splitlines()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"version: {acl_py.__version__}" in lines
    assert f"license: {project['license']}" in lines
