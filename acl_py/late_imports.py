"""Late imports: modules that are imported when a program needs them, in the middle of it.

So a script starts fast that makes few calls or none. The names of a package are those of its module `public`, which is
imported when a program first uses one of them.

The folder of a script comes first on Python's path, and a script may have a file `random.py` or `calendar.py`. Ours
then find the standard library's all the same, as if they had been imported before the script.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_LIBRARY = os.path.dirname(os.__file__)
_FIRST = (_LIBRARY, os.path.join(_LIBRARY, "lib-dynload"))


@contextmanager
def standard_library_first() -> Iterator[None]:
    """Let imports of the block look in the standard library before all else."""
    hidden = {name: sys.modules.pop(name) for name in _in_place_of_the_librarys()}
    sys.path[:0] = _FIRST
    try:
        yield
    finally:
        for folder in _FIRST:
            sys.path.remove(folder)
        sys.modules.update(hidden)


def _in_place_of_the_librarys() -> list[str]:
    """Return the modules of the program that have a name of the standard library's."""
    named = [name for name in list(sys.modules) if name.partition(".")[0] in sys.stdlib_module_names]
    files = {name: getattr(sys.modules[name], "__file__", None) for name in named}
    return [name for name, file in files.items() if file and not file.startswith(_FIRST)]


def import_late(name: str) -> ModuleType:
    """Return the module *name*, imported now if it was not before."""
    if name in sys.modules:  # another thread may still import it: then this one waits
        return import_module(name)
    with standard_library_first():
        return import_module(name)


def imported(name: str) -> Any:
    """Return the module *name* if the program has imported it, or None."""
    return sys.modules.get(name)


def late_names(package: dict[str, Any]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a *package*, which is given as the dict of its module.

    They find its modules, and what its module `public` names.
    """
    name = package["__name__"]

    def load() -> None:
        for each, thing in vars(import_late(f"{name}.public")).items():
            if not each.startswith("__"):
                package.setdefault(each, thing)

    def get(attribute: str) -> Any:
        if attribute != "__all__" and (attribute.startswith("__") or not attribute.isidentifier()):
            raise AttributeError(f"module {name!r} has no attribute {attribute!r}")
        if find_spec(f"{name}.{attribute}") is not None:
            return import_late(f"{name}.{attribute}")
        load()  # also for `__all__`: `import *` takes all names where there is no such list
        try:
            return package[attribute]
        except KeyError:
            raise AttributeError(f"module {name!r} has no attribute {attribute!r}") from None

    def names() -> list[str]:
        load()
        return sorted(package)

    return get, names
