"""What would be published: a wheel and a source archive, which an index takes, and which work where nothing else is."""

import os
import re
import subprocess
import sys
import tarfile
import time
import tomllib
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from zipfile import ZipFile

import pytest

import acl_py
from tests.samples.notebooks import FOLDER, NOTEBOOKS, needs_more, output_of

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
    texts = [path.relative_to(FOLDER) for path in FOLDER.rglob("[0-9]*_*.*") if "__pycache__" not in path.parts]
    notebooks = {f"acl_py/teaching/data/notebooks/{text.as_posix()}" for text in texts}
    assert len(notebooks) == 3 * len(NOTEBOOKS)  # each with its output and its solutions
    assert {name for name in names if ".dist-info/" not in name} == here | notebooks | {"acl_py_pytest.py"}


def test_the_source_archive_can_be_tested(dist):
    (archive,) = dist.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tops = {name.split("/")[1] for name in tar.getnames() if "/" in name}
    assert {"acl_py", "device_model", "tests", "samples", "docs", "Makefile", "README.md", "CHANGELOG.md"} <= tops


def test_the_source_archive_makes_the_same_wheel(dist, tmp_path):
    (archive,), (wheel,) = dist.glob("*.tar.gz"), dist.glob("*.whl")
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(tmp_path)]
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    subprocess.run([*command, str(tmp_path / archive.name.removesuffix(".tar.gz"))], check=True, capture_output=True)
    assert (tmp_path / wheel.name).read_bytes() == wheel.read_bytes()


def installed(wheel, folder):
    """The folder of the programs of a new environment in *folder*, with nothing in it but *wheel* and what it needs."""
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, str(wheel)], check=True, cwd=folder)
    return folder / "bin"


def test_the_wheel_runs_the_demo_where_nothing_else_is(dist, tmp_path):
    (wheel,) = dist.glob("*.whl")
    command = [installed(wheel, tmp_path / "env") / "acl-py", "demo", "--report", "demo.html"]
    done = subprocess.run(command, check=True, cwd=tmp_path, capture_output=True, text=True)
    assert "us" in done.stdout
    assert (tmp_path / "demo.html").read_text(encoding="utf-8").lower().startswith("<!doctype html>")


def test_the_notebooks_of_the_wheel_run_where_nothing_else_is(dist, tmp_path):
    """From pip to the last cell, two at a time; it prints how long they ran (pytest -s)."""
    nbformat = pytest.importorskip("nbformat", reason="pip install -e '.[notebooks]'")
    (wheel,) = dist.glob("*.whl")
    programs = installed(f"{wheel}[notebooks]", tmp_path / "env")
    subprocess.run([programs / "acl-py", "notebooks", "course"], check=True, cwd=tmp_path, capture_output=True)
    books = {notebook: tmp_path / "course" / f"{notebook.stem}.ipynb" for notebook in NOTEBOOKS}
    assert sorted((tmp_path / "course").glob("*.ipynb")) == sorted(books.values())
    folders = dict.fromkeys(("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "MPLCONFIGDIR"), str(tmp_path))
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | folders

    def run(book):
        command = [programs / "jupyter-execute", "--inplace", "--timeout=120", str(book)]
        return subprocess.run(
            command, cwd=tmp_path, env=variables | {"NO_COLOR": "1", "OPENBLAS_NUM_THREADS": "1"}, check=False,
            capture_output=True, text=True,
        )  # fmt: skip

    began = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        done = dict(zip(books, pool.map(run, books.values()), strict=True))
    print(f"{len(books)} notebooks, two at a time: {(time.monotonic() - began) / 60:.1f} minutes")
    wants = {notebook: done.pop(notebook) for notebook in NOTEBOOKS if needs_more(notebook)}
    assert all("This notebook needs " in each.stderr and each.returncode for each in wants.values())
    assert [each.stderr for each in done.values() if each.returncode] == []
    for notebook in done:
        book = books[notebook]
        assert output_of(nbformat.read(book, as_version=4)) == notebook.with_suffix(".out").read_text(encoding="utf-8")


def test_the_changelog_begins_with_this_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## (\S+),", text, re.MULTILINE)[1] == acl_py.__version__
    assert f"(tag `v{acl_py.__version__}`)" in text


def test_the_citation_has_the_version_and_the_licence():
    lines = (ROOT / "CITATION.cff").read_text(encoding="utf-8").splitlines()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"version: {acl_py.__version__}" in lines
    assert f"license: {project['license']}" in lines
