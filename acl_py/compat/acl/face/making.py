"""The module objects that scripts import: `acl` and its sub-modules, with nothing in them but the functions.

A function that signatures.txt lists and no file in functions/ defines has no meaning on a simulated device. It is made
here: it takes the arguments that the list says, and returns that it is not supported.
"""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from acl_py.compat.acl.face.binding import takes
from acl_py.compat.acl.face.modules import IMPORTED, NAMES, ORIGIN, SUBMODULES, spec_of
from acl_py.compat.acl.face.session import session
from acl_py.signatures import Signature, read
from acl_py.sites import PACKAGE

_FUNCTIONS = Path(PACKAGE, "compat", "acl", "functions")  # a folder for each module


def make() -> dict[str, ModuleType]:
    """Return new module objects by name: "acl", "acl.rt" and the others."""
    made = {name: ModuleType(name, "The vendor's binding on a simulated device.") for name in NAMES}
    for submodule in SUBMODULES:
        setattr(made["acl"], submodule, made[f"acl.{submodule}"])
    for function in _functions():
        setattr(made[function.__module__], function.__name__, function)
    for signature in read():
        if not hasattr(made[signature.module], signature.name):
            setattr(made[signature.module], signature.name, _stand_in(signature))
    for name, module in made.items():
        module.__spec__ = spec_of(name)
    made["acl"].__file__ = str(IMPORTED)
    return made


@cache
def _functions() -> tuple[Callable[..., Any], ...]:
    """Return what the files in functions/ define with `takes`, `runs`, `gives` or `does`."""
    files = sorted(_FUNCTIONS.glob("*/*.py"))
    modules = [import_module(f"{ORIGIN}.functions.{file.parent.name}.{file.stem}") for file in files]
    return tuple(each for module in modules for each in vars(module).values() if hasattr(each, "letters"))


@cache
def _stand_in(signature: Signature) -> Callable[..., Any]:
    def answer(*_: object) -> Any:
        return signature.failure(session().not_supported(signature.full_name.removeprefix("acl.")))

    answer.__name__ = signature.name
    answer.__module__ = f"{ORIGIN}.functions.{signature.module.removeprefix('acl').lstrip('.') or 'base'}"
    answer.__doc__ = "Not simulated: gives 207000 where it gives a code."
    return takes(signature.letters)(answer)
