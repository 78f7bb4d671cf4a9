"""The module objects that scripts import: `acl` and its sub-modules, with nothing in them but the functions.

A function that signatures.txt lists and no file in functions/ defines has no meaning on a simulated device. It is made
here: it takes the arguments that the list says, and returns that it is not supported.
"""

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from acl_py.compat.acl.face import host_objects, session
from acl_py.compat.acl.face.binding import takes
from acl_py.compat.acl.face.options import SessionOptions, brought_in
from acl_py.late_imports import standard_library_first
from acl_py.signatures import Signature, read
from acl_py.sites import PACKAGE

_SUBMODULES = ("rt", "mdl", "op", "media", "util", "prof", "blas", "himpi", "fv")
_NAMES = ("acl", *(f"acl.{name}" for name in _SUBMODULES))
_ORIGIN = "acl_py.compat.acl"
IMPORTED = Path(PACKAGE, "compat", "path", "acl", "__init__.py")  # what `import acl` finds by the path alone
_FUNCTIONS = Path(PACKAGE, "compat", "acl", "functions")  # a folder for each module
_replaced: dict[str, ModuleType] = {}  # modules of these names that were there before


def install(*, replace: bool = False, **options: Any) -> ModuleType:
    """Let `import acl` find the simulated module from now on. A session that was running ends.

        import acl_py.compat.acl

        acl = acl_py.compat.acl.install(device="ascend310p3", devices=2)
        acl.rt.set_device(0)

    Nothing is simulated yet: the session begins with the first call of a function of the module.

    Args:
        replace: Install it even if there is another module `acl`; `uninstall` puts that one back.
        options: What the session is made with:

            * device: the name of a card's profile, the path of a profile in TOML, or a `DeviceProfile`; the default
              is "ascend910b3".
            * devices: how many cards there are; by default as many as the profile says.
            * rules: "acl" (the default), "cuda" or "cuda_per_thread".
            * workers: how many threads compute large kernels.
            * host_time: "modelled" (the default), or "measured" to count the real time between calls.
            * models: folders in which sidecars of models and kernels are looked for.
            * hang_after: real seconds after which a wait that only another thread could end counts as a hang.
            * sanitize: what the sanitizer looks for, as in `acl_py.simulate`; the summary has what it finds.
            * effects: "strong" (the default), "weak" or "torn", as in `acl_py.simulate`.
            * instructions: how many instructions of each launch of a core kernel the trace keeps.
            * overlay: what calls take on another host, as in `acl_py.simulate`.
            * faults: fault rules that are in force from the first call on, as `acl-py replay --fault` takes them, such
              as ["fail call=Malloc nth=3"].
            * on_hang: a function that is called with the `DeadlockError` before the waiting call raises it.

    Returns:
        The module `acl`.

    Raises:
        RuntimeError: There is another module `acl`, and *replace* is False.
        TypeError: There is no such option, or *devices* is no number, or *models* or *faults* no list.
        ValueError: There cannot be so many *devices*, there is no such folder of *models*, or one of the *faults* is
            no rule.
    """
    if not replace and (other := _other()):
        raise RuntimeError(f"there is already a module acl: {other}; install(replace=True) puts this one in its place")
    chosen = SessionOptions(**options)
    modules = build()
    _begin(chosen)
    for name, module in modules.items():
        before = sys.modules.get(name)
        if before is not None and not _is_ours(before):
            _replaced[name] = before
        sys.modules[name] = module
    return modules["acl"]


def install_at_import(**options: Any) -> None:
    """Do what `install(replace=True)` does, but make the modules only when a program imports `acl`."""
    if any(name in sys.modules for name in _NAMES):
        install(replace=True, **options)
        return
    _begin(SessionOptions(**options))
    sys.meta_path.insert(0, _Maker())


def _begin(options: SessionOptions) -> None:
    """End the session, and let the next one have these *options*."""
    session.end()
    session.guest_failures.clear()
    brought_in.clear()
    host_objects.objects.clear()
    session.options = options


class _Maker:
    """Makes the modules when a program first imports `acl`; until then it stands in `sys.meta_path`."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        """Find `acl`; the others are there when it is."""
        return ModuleSpec(name, self, origin=_ORIGIN) if name == "acl" else None  # type: ignore[arg-type]

    def create_module(self, _: ModuleSpec) -> ModuleType:
        """Make all modules."""
        with standard_library_first():
            made = build()
        sys.modules.update(made)
        return made["acl"]

    def exec_module(self, module: ModuleType) -> None:
        """Let the module be as `build` has made it."""
        sys.meta_path.remove(self)
        module.__spec__, module.__loader__, module.__package__ = _spec("acl"), None, None


def _spec(name: str) -> ModuleSpec:
    return ModuleSpec(name, None, origin=_ORIGIN)


def is_installed() -> bool:
    """Return whether `import acl` finds the simulated module."""
    return _is_ours(sys.modules.get("acl")) or any(isinstance(each, _Maker) for each in sys.meta_path)


def uninstall() -> None:
    """Undo `install`: end the session, and put back the module `acl` that was replaced, if there was one."""
    sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, _Maker)]
    for name in _NAMES:
        if _is_ours(sys.modules.get(name)):
            del sys.modules[name]
    sys.modules.update(_replaced)
    _replaced.clear()
    session.end()


def build() -> dict[str, ModuleType]:
    """Return new module objects by name: "acl", "acl.rt" and the others."""
    made = {name: ModuleType(name, "The vendor's binding on a simulated device.") for name in _NAMES}
    for submodule in _SUBMODULES:
        setattr(made["acl"], submodule, made[f"acl.{submodule}"])
    for function in _functions():
        setattr(made[function.__module__], function.__name__, function)
    for signature in read():
        if not hasattr(made[signature.module], signature.name):
            setattr(made[signature.module], signature.name, _stand_in(signature))
    for name, module in made.items():
        module.__spec__ = _spec(name)
    made["acl"].__file__ = str(IMPORTED)
    return made


@cache
def _functions() -> tuple[Callable[..., Any], ...]:
    """Return what the files in functions/ define with `takes`, `runs`, `gives` or `does`."""
    files = sorted(_FUNCTIONS.glob("*/*.py"))
    modules = [import_module(f"{_ORIGIN}.functions.{file.parent.name}.{file.stem}") for file in files]
    return tuple(each for module in modules for each in vars(module).values() if hasattr(each, "letters"))


@cache
def _stand_in(signature: Signature) -> Callable[..., Any]:
    def answer(*_: object) -> Any:
        return signature.failure(session.session().not_supported(signature.full_name.removeprefix("acl.")))

    answer.__name__ = signature.name
    answer.__module__ = f"{_ORIGIN}.functions.{signature.module.removeprefix('acl').lstrip('.') or 'base'}"
    answer.__doc__ = "Not simulated: gives 207000 where it gives a code."
    return takes(signature.letters)(answer)


def _is_ours(module: ModuleType | None) -> bool:
    spec = getattr(module, "__spec__", None)
    return spec is not None and spec.origin == _ORIGIN


def _other() -> str | None:
    """Return where another module `acl` is, or None."""
    known = sys.modules.get("acl")
    if _is_ours(known):
        return None
    if known is not None:
        return repr(known)
    spec = find_spec("acl")
    return None if spec is None else str(spec.origin or spec.name)
