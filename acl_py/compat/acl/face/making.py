"""The module objects that scripts import: `acl` and its sub-modules, with nothing in them but the functions.

A function is made when a script first names it: what it names decides which files in functions/ are imported. So a
script of a few lines starts fast.

A function that signatures.txt lists and no file in functions/ defines has no meaning on a simulated device. It is made
here: it takes the arguments that the list says, and returns that it is not supported.
"""

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from acl_py.compat.acl.face.binding import takes
from acl_py.compat.acl.face.modules import IMPORTED, NAMES, ORIGIN, SUBMODULES, spec_of
from acl_py.compat.acl.face.session import session
from acl_py.late_imports import import_late
from acl_py.signatures import Signature, read
from acl_py.sites import PACKAGE

_FUNCTIONS = Path(PACKAGE, "compat", "acl", "functions")  # a folder for each module


def make() -> dict[str, ModuleType]:
    """Return new module objects by name: "acl", "acl.rt" and the others."""
    made = {name: ModuleType(name, "The vendor's binding on a simulated device.") for name in NAMES}
    for submodule in SUBMODULES:
        setattr(made["acl"], submodule, made[f"acl.{submodule}"])
    for name, module in made.items():
        module.__spec__ = spec_of(name)
        vars(module).update(_late_functions(module))
    made["acl"].__file__ = str(IMPORTED)
    return made


def make_all(modules: Iterable[ModuleType]) -> None:
    """Make all functions of *modules*."""
    for module in modules:
        for name in dir(module):
            getattr(module, name)


def _late_functions(module: ModuleType) -> dict[str, Any]:
    """Return what *module* needs to make its functions when they are named: `__getattr__`, `__dir__` and `__all__`."""
    listed = {each.name: each for each in read() if each.module == module.__name__}
    made, left = vars(module), dict(listed)

    def get(name: str) -> Any:
        signature = left.get(name)
        if signature is not None:
            made.setdefault(name, _defined(signature) or _stand_in(signature))
            left.pop(name, None)  # what is deleted from the module later is gone, as it is from any other
        elif name not in made:  # another thread may have made it just now
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
        return made[name]

    def names() -> list[str]:
        return sorted({*made, *left})

    public = [*(each for each in made if not each.startswith("_")), *listed]
    return {"__getattr__": get, "__dir__": names, "__all__": public}


def _defined(signature: Signature) -> Callable[..., Any] | None:
    """Return what a file in functions/ defines as *signature* with `takes`, `runs`, `gives` or `does`, or None."""
    for file in _likely_files(signature):
        found: Callable[..., Any] | None = getattr(import_late(file), signature.name, None)
        if getattr(found, "__module__", None) == signature.module:
            return found
    return None


def _likely_files(signature: Signature) -> list[str]:
    """Return the files in functions/ that may define *signature*, the one whose text says so first."""
    texts = _texts(signature.module.removeprefix("acl").lstrip(".") or "base")
    return sorted(texts, key=lambda file: f"def {signature.name}(" not in texts[file])


@cache
def _texts(folder: str) -> dict[str, str]:
    """Return the text of each file in *folder*, by the name of its module."""
    files = sorted((_FUNCTIONS / folder).glob("[!_]*.py"))
    return {f"{ORIGIN}.functions.{folder}.{file.stem}": file.read_text(encoding="utf-8") for file in files}


@cache
def _stand_in(signature: Signature) -> Callable[..., Any]:
    def answer(*_: object) -> Any:
        return signature.failure(session().not_supported(signature.full_name.removeprefix("acl.")))

    answer.__name__ = signature.name
    answer.__module__ = f"{ORIGIN}.functions.{signature.module.removeprefix('acl').lstrip('.') or 'base'}"
    answer.__doc__ = "Not simulated: gives 207000 where it gives a code."
    return takes(signature.letters)(answer)
