"""What would be published: a wheel and a source archive, which an index takes, and which work where nothing else is."""

import ast
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
from itertools import pairwise
from pathlib import Path
from zipfile import ZipFile

import pytest

import acl_py
from tests import release
from tests.extras import extras
from tests.samples.notebooks import AWAIT, FOLDER, NOTEBOOKS, fill_in, needs_more, output_of
from tests.test_code_blocks import BLOCK, pattern_of

ROOT = Path(__file__).parent.parent
CHOSEN = [notebook for notebook in NOTEBOOKS if notebook.name.startswith(("8_", "9_", "12_", "15_"))]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
downloads = pytest.mark.skipif(not os.environ.get("RELEASE"), reason="minutes of downloads: make test-release")


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
    for tool in ("check_wheel_contents", "pydistcheck"):
        pytest.importorskip(tool, reason="pip install -e '.[release]'")
    release.checked(files)


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
    assert {name for name in names if ".dist-info/" not in name} == here | notebooks | {
        "acl_py_pytest.py", "acl_py_run.pth",
    }  # fmt: skip


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


def install(wheel, programs):
    """Install *wheel* and what it needs in the environment whose *programs* are in a folder."""
    subprocess.run([programs / "python", "-m", "pip", "install", "--quiet", str(wheel)], check=True, cwd=programs)


def imports(notebook):
    """The modules that *notebook* imports."""
    tree = compile(notebook.read_text("utf-8"), notebook.name, "exec", ast.PyCF_ONLY_AST | AWAIT)
    names = [[each.name for each in node.names] for node in ast.walk(tree) if isinstance(node, ast.Import)]
    return {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}.union(*names)


def test_the_chosen_notebooks_import_all_that_notebooks_import():
    others = [notebook for notebook in NOTEBOOKS if not needs_more(notebook)]
    assert set().union(*map(imports, CHOSEN)) == set().union(*map(imports, others))


def test_the_wheel_runs_the_demo_and_then_notebooks_where_nothing_else_is(dist, tmp_path):
    """From pip to the last cell. Each notebook runs in tests/samples, too, where more is installed."""
    (wheel,) = dist.glob("*.whl")
    venv.create(tmp_path / "env", with_pip=True)
    programs = tmp_path / "env" / "bin"
    install(wheel, programs)
    command = [programs / "acl-py", "demo", "--report", "demo.html"]
    done = subprocess.run(command, check=True, cwd=tmp_path, capture_output=True, text=True)
    assert "us" in done.stdout
    assert (tmp_path / "demo.html").read_text(encoding="utf-8").lower().startswith("<!doctype html>")
    child = "import subprocess, sys; subprocess.run([sys.executable, '-E', '-c', 'import acl; print(acl.rt.__name__)'])"
    done = subprocess.run(
        [programs / "acl-py", "run", "-c", child], check=True, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout == "acl.rt\n"
    nbformat = pytest.importorskip("nbformat", reason="pip install -e '.[notebooks]'")
    install(f"{wheel}[notebooks]", programs)
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

    for notebook in CHOSEN:
        book = nbformat.read(books[notebook], as_version=4)
        fill_in(book, notebook)
        nbformat.write(book, books[notebook])
        done = run(books[notebook])
        assert done.returncode == 0, done.stderr
        found = output_of(nbformat.read(books[notebook], as_version=4))
        assert found == notebook.with_suffix(".out").read_text(encoding="utf-8")
    for notebook in filter(needs_more, NOTEBOOKS):
        done = run(books[notebook])
        assert done.returncode
        assert "This notebook needs " in done.stderr


def ways():
    """The blocks of code in the README's "Begin", in their order: the language and the text of each."""
    begin = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## Begin\n")[2].partition("\n## ")[0]
    return [block.groups() for block in BLOCK.finditer(begin)]


@downloads
@pytest.mark.timeout(1800)  # packages for CUDA have half a gigabyte
def test_the_readmes_three_ways_work_as_written_where_nothing_but_pip_is(dist, tmp_path):
    """Commands, scripts and outputs are the README's; pip finds the wheel by PIP_FIND_LINKS, as if it was published."""
    venv.create(tmp_path / "env", with_pip=True)
    links = " ".join(filter(None, [dist.as_uri(), os.environ.get("PIP_FIND_LINKS")]))
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ACL_PY"))}
    variables |= {"PATH": f"{tmp_path / 'env' / 'bin'}{os.pathsep}{os.environ['PATH']}", "PIP_FIND_LINKS": links}
    here = tmp_path / "here"
    here.mkdir()
    compared = []

    def run(command):
        done = subprocess.run(
            ["bash", "-ec", command], cwd=here, env=variables | {"NO_COLOR": "1"}, check=False, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        return done.stdout

    pips = re.findall(r"`(pip install [^`]*)`", (ROOT / "README.md").read_text(encoding="utf-8"))
    for (language, text), (after, wanted) in pairwise([*ways(), ("", "")]):
        if language == "sh":
            run(text)
        if language != "python":
            continue
        if after == "text":  # what the program prints by itself
            (here / "program.py").write_text(text, encoding="utf-8")
            command, said = "python program.py", wanted
        else:
            command, _, said = wanted.removeprefix("$ ").partition("\n")
            (here / command.split()[-1]).write_text(text, encoding="utf-8")
        if "cuda" in text and pips:
            run(pips.pop())
        printed = run(command)
        assert re.search(pattern_of(said), printed, re.MULTILINE), printed
        compared.append(command)
    assert [command.split()[-1] for command in compared] == ["upload.py", "fill.py", "program.py"]
    assert pips == []
    assert (here / "demo.html").stat().st_size > 100_000


# The compiled core is no package of the registry yet: make test-fast-core builds and installs it.
@downloads
@pytest.mark.parametrize("extra", sorted(extras().keys() - {"", "fast"}))
def test_pip_finds_all_that_an_extra_names_on_the_lowest_and_the_newest_python(extra, dist):
    """It resolves, and installs nothing."""
    (wheel,) = dist.glob("acl_py-*.whl")
    found = subprocess.run([ROOT / "tests" / "pythons.sh"], check=True, capture_output=True, text=True).stdout.split()
    for python in dict.fromkeys((found[0], found[-1])):
        command = [python, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", f"{wheel}[{extra}]"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0, f"{python}: {done.stderr}"


def test_the_checks_refuse_a_wheel_with_a_space_in_a_path(dist, tmp_path):
    pytest.importorskip("pydistcheck", reason="pip install -e '.[release]'")
    (wheel,) = dist.glob("*.whl")
    wrong = tmp_path / wheel.name
    wrong.write_bytes(wheel.read_bytes())
    with ZipFile(wrong, "a") as archive:
        archive.writestr("acl_py/all errors.py", b"")
    with pytest.raises(release.Missing, match="path-contains-spaces"):
        release.checked([wrong])


def test_a_list_of_what_the_wheel_brings_has_a_licence_for_each(dist):
    pytest.importorskip("cyclonedx_py", reason="pip install -e '.[release]'")
    release.bill(dist)
    named = release.licences(dist / "sbom.json")
    (dist / "sbom.json").unlink()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {re.split(r"[<>=; ]", line)[0] for line in project["dependencies"]}
    assert needed <= named.keys()
    assert all(named.values())
    assert not [name for name, licence in named.items() if re.search(r"\bA?GPL", licence)]


def test_the_recipe_of_conda_forge_asks_for_what_the_wheel_asks_for():
    render = pytest.importorskip("rattler_build", reason="pip install -e '.[release]'")
    (rendered,) = render.Stage0Recipe.from_file(ROOT / "conda" / "recipe.yaml").render(render.VariantConfig())
    found, project = rendered.recipe.to_dict(), tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [line.partition(";")[0].replace(">=", " >=") for line in project["dependencies"]]
    assert sorted(found["requirements"]["run"]) == sorted([*wanted, f"python {project['requires-python']}", "__linux"])
    assert found["build"]["python"]["entry_points"] == [f"{k} = {v}" for k, v in project["scripts"].items()]
    assert found["about"]["summary"] == project["description"]
    assert found["about"]["license"] == project["license"]


def test_the_changelog_begins_with_this_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## (\S+),", text, re.MULTILINE)[1] == acl_py.__version__
    assert f"(tag `v{acl_py.__version__}`)" in text


def test_the_citation_has_the_version_and_the_licence():
    lines = (ROOT / "CITATION.cff").read_text(encoding="utf-8").splitlines()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"version: {acl_py.__version__}" in lines
    assert f"license: {project['license']}" in lines
