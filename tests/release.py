"""The way to a release: `python -m tests.release` goes through its steps, and prints what is done and what is missing.

It builds the archives into dist/, checks them, and writes dist/sbom.json: what a plain installation brings, with
licences, in the form of CycloneDX. It publishes nothing. It needs `pip install -e '.[dev,release]'`, and the registry
of packages for the list.
"""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import acl_py

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
SUITES = "make check test test-slow docs test-all test-lowest test-cuda test-onnx test-fast-core test-release"


class Missing(Exception):
    """What a step still needs."""


def ran(*command: object, cwd: Path = ROOT) -> str:
    """Return what *command* has printed, or raise Missing with it."""
    done = subprocess.run([str(each) for each in command], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}".strip())
    return done.stdout


def versions(root: Path) -> dict[str, str]:
    """The version that each file under *root* names."""
    places = {
        "acl_py/__init__.py": r'^__version__ = "(.*)"',
        "CHANGELOG.md": r"^## (\S+),",
        "CITATION.cff": r"^version: (.*)",
        "conda/recipe.yaml": r'^  version: "(.*)"',
        "pyproject.toml": r'^    "acl-py-fast==(.*)"',
    }
    texts = {file: (root / file).read_text(encoding="utf-8") for file in places}
    found = {file: re.search(pattern, texts[file], re.MULTILINE) for file, pattern in places.items()}
    return {file: each[1] if each else "none" for file, each in found.items()}


def one_version(root: Path = ROOT) -> str:
    found = versions(root)
    wanted = found["acl_py/__init__.py"]
    if others := [f"{file} has {version}" for file, version in found.items() if version != wanted]:
        raise Missing(f"acl_py/__init__.py has {wanted}, but {', '.join(others)}")
    return wanted


def date(root: Path = ROOT) -> str:
    heading = re.search(r"^## .*", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    if heading is None or not re.search(r"\d{4}-\d\d-\d\d", heading[0]):
        raise Missing("the first heading of CHANGELOG.md has no date: write it in place of 'unreleased'")
    return heading[0]


def address(root: Path = ROOT) -> str:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if "Source" not in project.get("urls", {}):
        raise Missing(
            "pyproject.toml has no Source in [project.urls]: the long description has neither links nor picture"
        )
    return project["urls"]["Source"]


def commit() -> str:
    if changed := ran("git", "status", "--porcelain"):
        raise Missing(f"not committed:\n{changed.rstrip()}")
    tag = f"v{acl_py.__version__}"
    if ran("git", "tag", "--points-at", "HEAD").strip() != tag:
        raise Missing(f"the last commit has no tag {tag}: git tag {tag}")
    return tag


def archives(dist: Path = DIST) -> str:
    """Build the wheel and the source archive into *dist*, and check them."""
    shutil.rmtree(dist, ignore_errors=True)
    ran(sys.executable, "-m", "build", "--no-isolation", "--outdir", dist, ROOT)
    files = sorted(dist.iterdir())
    checked(files)
    return ", ".join(f"{file.name} ({file.stat().st_size / 1e6:.1f} MB)" for file in files)


def checked(files: list[Path]) -> None:
    """Check archives as an index and its readers would. pyproject.toml has the rules that do not hold, with reasons."""
    programs = Path(sys.executable).parent
    ran(sys.executable, "-m", "twine", "check", "--strict", *files)
    ran(programs / "check-wheel-contents", *(file for file in files if file.suffix == ".whl"))
    ran(programs / "pydistcheck", *files)


def compiled(dist: Path = DIST) -> str:
    """Build and check the wheel of the compiled core."""
    ran(sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", dist, ROOT / "fast")
    (wheel,) = dist.glob("acl_py_fast-*.whl")
    checked([wheel])
    if wheel.stem.endswith("-linux_x86_64"):
        raise Missing(
            f"an index takes no wheel for one system ({wheel.name}): build it in a manylinux image, for each Python"
        )
    return wheel.name


def bill(dist: Path = DIST) -> str:
    """Write *dist*/sbom.json, of an environment in which nothing but the wheel was installed."""
    (wheel,) = dist.glob("acl_py-*.whl")
    target, environment = dist / "sbom.json", dist / "environment"
    python = environment / "bin" / "python"
    try:
        ran(sys.executable, "-m", "venv", environment)
        ran(python, "-m", "pip", "install", "--quiet", wheel)
        ran(python, "-m", "pip", "uninstall", "--quiet", "--yes", "pip", "setuptools")
        form = "--pyproject", ROOT / "pyproject.toml", "--output-reproducible", "--output-file", target
        ran(Path(sys.executable).parent / "cyclonedx-py", "environment", *form, python)
    finally:
        shutil.rmtree(environment, ignore_errors=True)
    named = licences(target)
    if unknown := [name for name, licence in named.items() if not licence]:
        raise Missing(f"no licence is named by {', '.join(unknown)}")
    return "; ".join(f"{name}: {licence}" for name, licence in named.items())


def licences(file: Path) -> dict[str, str]:
    """The licence of each package in the list *file*."""
    return {
        each["name"]: " or ".join(
            found.get("expression") or found["license"].get("id") or found["license"]["name"].partition("\n")[0]
            for found in each.get("licenses", ())
        )
        for each in json.loads(file.read_text(encoding="utf-8"))["components"]
    }


def recipe() -> str:
    """Render the recipe of conda-forge. To build it takes its packages, from its own channel."""
    from rattler_build import Stage0Recipe, VariantConfig

    (rendered,) = Stage0Recipe.from_file(ROOT / "conda" / "recipe.yaml").render(VariantConfig())
    if "path" in rendered.recipe.to_dict()["source"][0]:
        raise Missing("conda/recipe.yaml renders; it needs url and sha256 of the published archive, and a maintainer")
    return f"{rendered.recipe.package.name} {rendered.recipe.package.version}"


def suites() -> str:
    raise Missing(f"run on the last commit: {SUITES}; publish with `python -m twine upload dist/acl_py-*`")


STEPS: dict[str, Callable[[], str]] = {
    "one version everywhere": one_version,
    "a date in the changelog": date,
    "an address for links": address,
    "all committed, with a tag": commit,
    "wheel and source archive": archives,
    "the compiled core": compiled,
    "a list of what is installed": bill,
    "a recipe for conda-forge": recipe,
    "the suites, then the upload": suites,
}


def main() -> int:
    """Go through the steps; return how many miss something."""
    open_steps = 0
    for number, (name, step) in enumerate(STEPS.items(), 1):
        try:
            said, mark = step(), "done   "
        except Missing as missing:
            said, mark = str(missing), "missing"
            open_steps += 1
        print(f"{number} {mark} {name}: {said}", flush=True)
    return open_steps


if __name__ == "__main__":
    sys.exit(main())
