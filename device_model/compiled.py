"""The compiled core: some modules of device_model and acl_py as machine code, from the distribution acl-py-fast.

Its modules are compiled from the same .py files. They are used if acl-py-fast is installed, and was built from just the
files that are here. Then its folders come first on the `__path__` of both packages. Otherwise the .py files run, and
nothing else changes: times, findings and bytes of traces are the same.

The environment variable ACL_PY_PURE=1 turns the compiled core off. A build that does not fit is not used, and a warning
says why.
"""

import os
import re
import warnings
from collections.abc import Iterable
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

SWITCH = "ACL_PY_PURE"
SOURCES = "build/sources/"  # how the names of files begin in tracebacks of compiled functions
PURE = "pure Python"
_ROOT = Path(__file__).parent.parent  # of device_model and acl_py
_VERSION = re.compile(r'^__version__ = "(.+)"', re.MULTILINE)


class Build(Protocol):
    """What acl-py-fast says of itself."""

    FOLDER: str  # of the compiled packages
    VERSION: str  # of acl-py, of which it was built
    DIGEST: str  # of the sources of its modules
    MODULES: tuple[str, ...]  # their names


class RefusedError(Exception):
    """A build that does not fit: its text says why, and what to do."""


def digest_of(modules: Iterable[str], root: Path) -> str:
    """Return the digest of the sources of *modules*, which are below *root*.

    Raises:
        FileNotFoundError: One of them is not there.
    """
    digest = sha256()
    for name in sorted(modules):
        source = root.joinpath(*name.split(".")).with_suffix(".py").read_bytes()
        digest.update(f"{name} {len(source)}\n".encode() + source)
    return digest.hexdigest()


def version_of(root: Path) -> str:
    """Return the version of the package acl_py below *root*."""
    match = _VERSION.search((root / "acl_py" / "__init__.py").read_text(encoding="utf-8"))
    assert match is not None, f"acl_py in {root} names no version"
    return match[1]


def check(build: Build, root: Path) -> None:
    """Check that *build* was made from the sources below *root*.

    Raises:
        RefusedError: It was not.
    """
    version = version_of(root)
    if version != build.VERSION:
        raise RefusedError(
            f"acl-py-fast {build.VERSION} does not fit acl-py {version}, so the pure core runs: "
            f"pip install acl-py-fast=={version}, or uninstall it"
        )
    try:
        fits = digest_of(build.MODULES, root) == build.DIGEST
    except FileNotFoundError:
        fits = False
    if not fits:
        raise RefusedError(
            f"acl-py-fast {build.VERSION} was built from other sources than those in {root}, so the pure core runs: "
            "build it again from these sources, or uninstall it"
        )


def _choose() -> "tuple[str, str | None]":
    """Return which core runs, in words, and the folder of the compiled packages; None for the pure core."""
    if os.environ.get(SWITCH, "0") not in ("", "0") or find_spec("acl_py_fast") is None:
        return PURE, None
    build: Build = import_module("acl_py_fast").BUILD
    try:
        check(build, _ROOT)
    except RefusedError as refused:
        warnings.warn(str(refused), RuntimeWarning, stacklevel=2)
        return PURE, None
    return f"compiled, acl-py-fast {build.VERSION}", build.FOLDER


CORE, _FOLDER = _choose()
IS_COMPILED = _FOLDER is not None


def put_in_front(package: str, path: list[str]) -> None:
    """Let *package* find its compiled modules first: *path* is its `__path__`."""
    if _FOLDER is not None:
        path.insert(0, os.path.join(_FOLDER, *package.split(".")))
