"""Late imports: modules that are imported when a program needs them, in the middle of it.

So a script starts fast that makes few calls or none. The names of a package are those of its module `public`. Each of
its lines says which module has a name, and this module is imported when a program first uses the name.

The folder of a script comes first on Python's path, and a script may have a file `random.py` or `calendar.py`. Ours
then find the standard library's all the same, as if they had been imported before the script.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

_LIBRARY = os.path.dirname(os.__file__)
# Pyodide has most of the standard library in an archive, whose name and place Python gives it.
_ARCHIVE = os.path.join(os.path.dirname(_LIBRARY), f"python{sys.version_info.major}{sys.version_info.minor}.zip")
_FIRST = (_LIBRARY, os.path.join(_LIBRARY, "lib-dynload"), *([_ARCHIVE] if os.path.isfile(_ARCHIVE) else []))
_PUBLIC = re.compile(r"^from ([\w.]+) import (\w+) as \2\b", re.MULTILINE)  # a line of a module `public`


@contextmanager
def standard_library_first() -> Iterator[None]:
    """Let imports of the block look in the standard library before anywhere else."""
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
    files = {name: getattr(sys.modules.get(name), "__file__", None) for name in sys.stdlib_module_names}
    strange = {name for name, file in files.items() if file and not file.startswith(_FIRST)}
    return [name for name in sys.modules if name.partition(".")[0] in strange] if strange else []


def import_late(name: str) -> ModuleType:
    """Return the module *name*, imported now if it was not before."""
    if name in sys.modules:  # another thread may still import it: then this one waits
        return import_module(name)
    with standard_library_first():
        return import_module(name)


def imported(name: str) -> Any:
    """Return the module *name* if the program has imported it, or None."""
    return sys.modules.get(name)


def late_names(
    package: dict[str, Any], instead: Callable[[str], str] = lambda _: ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a *package*, which is given as the dict of its module.

    They find its modules, and what its module `public` names. *instead* gives the text to say of a name that there is
    not; if it gives none, Python says which name is near.
    """
    name = package["__name__"]
    text = Path(package["__file__"]).with_name("public.py").read_text(encoding="utf-8")
    modules = {each: module for module, each in _PUBLIC.findall(text)}

    def get(attribute: str) -> Any:
        if attribute in modules:
            return package.setdefault(attribute, getattr(import_late(modules[attribute]), attribute))
        if attribute == "__all__":  # `import *` takes all names where there is no such list
            for each in modules:
                get(each)
        elif not attribute.startswith("__") and attribute.isidentifier() and find_spec(f"{name}.{attribute}"):
            return import_late(f"{name}.{attribute}")
        text = f"module {name!r} has no attribute {attribute!r}"
        if not attribute.startswith("_") and (told := instead(attribute)):
            raise AttributeError(f"{text}; {told}", name=attribute)  # with a name and no object, Python adds nothing
        raise AttributeError(text)

    def names() -> list[str]:
        return sorted({*package, *modules})

    return get, names
