"""Late imports: modules that are imported when a program needs them, in the middle of it.

The folder of a script comes first on Python's path, and a script may have a file `random.py` or `calendar.py`. Ours
then find the standard library's all the same, as if they had been imported before the script.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

_LIBRARY = os.path.dirname(os.__file__)
_FIRST = (_LIBRARY, os.path.join(_LIBRARY, "lib-dynload"))


@contextmanager
def standard_library_first() -> Iterator[None]:
    """Let imports of the block look in the standard library before all else."""
    sys.path[:0] = _FIRST
    try:
        yield
    finally:
        for folder in _FIRST:
            sys.path.remove(folder)


def import_late(name: str) -> ModuleType:
    """Return the module *name*, imported now if it was not before."""
    with standard_library_first():
        return import_module(name)
