"""CUDA C that was compiled once, kept in the cache folder of the user for all later runs.

A file is named by a digest of everything that it depends on: the text, the options with the architecture, and the
versions of NVRTC and of this format. It is written whole or not at all, and the folder may be deleted at any time. A
text that includes files of the user is compiled in each run, because these files may change.
"""

import hashlib
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from acl_py.verbs.ptx_compiler import Compiled, build, version
from acl_py.whole_files import writing

_FORMAT = "1"
_DIGEST = 32  # bytes at the beginning of a file, by which one that is damaged is known
_OWN_FILES = re.compile(r"^\s*#\s*include\s+[^<\s]|__has_include|^\s*#\s*embed", re.MULTILINE)
_FOLDERS = ("-I", "--include-path", "-include", "--pre-include", "-include-path")


def compiled(text: str, options: Sequence[str], name: str) -> Compiled:
    """Return what NVRTC makes of *text*, from the cache if it is there; *name* is what its messages call the text.

    Raises:
        CompileError: NVRTC refuses the text.
        ImportError: There is no NVRTC.
    """
    if _OWN_FILES.search(text) or any(each.startswith(_FOLDERS) for each in options):
        return build(text, options, name=name)
    try:
        path = folder() / _digest(text, options, name)
    except RuntimeError:  # this user has no home
        return build(text, options, name=name)
    if (known := _read(path)) is not None:
        return known
    made = build(text, options, name=name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with writing(path) as file:
            held = made.ptx.encode() + b"\0" + made.cubin
            file.write(hashlib.sha256(held).digest() + held)
    except OSError:  # a folder that cannot be written, or a full disk: the next run compiles again
        pass
    return made


def _read(path: Path) -> Compiled | None:
    """Return what the file *path* holds; None if there is none, or not all of it."""
    try:
        kept = path.read_bytes()
    except OSError:
        return None
    digest, held = kept[:_DIGEST], kept[_DIGEST:]
    if hashlib.sha256(held).digest() != digest:
        return None
    ptx, _, cubin = held.partition(b"\0")  # no text has this byte
    return Compiled(ptx.decode(), cubin)


def folder() -> Path:
    """Return the folder of the cache. Raises RuntimeError if the user has no home."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "acl_py" / "cuda"


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr((_FORMAT, version(), *parts)).encode()).hexdigest()
