"""Where the compilers' wheels have put their libraries, and their versions."""

import sys
from collections.abc import Sequence
from pathlib import Path

_START = 1 << 16  # bytes of a library that have its names


def library(*places: str) -> Path | None:
    """Return the first file of *places* that is in a folder of installed packages, or None."""
    paths = (Path(folder, place) for folder in sys.path for place in places)
    return next((path for path in paths if path.is_file()), None)


def names_in(path: Path, candidates: Sequence[str]) -> list[str]:
    """Return those of *candidates* that the library *path* has; it is not loaded for this."""
    with path.open("rb") as file:
        start = file.read(_START)
    return [name for name in candidates if f"\0{name}\0".encode() in start]
