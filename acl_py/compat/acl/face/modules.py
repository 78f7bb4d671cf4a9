"""How scripts find `acl` and its sub-modules: they are made when a script imports them."""

import sys
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from acl_py.compat.acl.face import current
from acl_py.late_imports import import_late, imported, standard_library_first
from acl_py.sites import PACKAGE

SUBMODULES = ("rt", "mdl", "op", "media", "util", "prof", "blas", "himpi", "fv")
NAMES = ("acl", *(f"acl.{name}" for name in SUBMODULES))
ORIGIN = "acl_py.compat.acl"
IMPORTED = Path(PACKAGE, "compat", "path", "acl", "__init__.py")  # what `import acl` finds by the path alone
_BESIDE = ("hccl", "mstx", "aclruntime", "ais_bench")  # what scripts import beside acl: in the folder of IMPORTED
_FACE = __package__
_SESSION = f"{_FACE}.session"
_NEVER_WRONG = {"on_hang"}  # options that need no check
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
    chosen = import_late(f"{_FACE}.options").SessionOptions(**options)
    modules = _made()
    import_late(_SESSION).begin_anew(chosen)
    for name, module in modules.items():
        before = sys.modules.get(name)
        if before is not None and not _is_ours(before):
            _replaced[name] = before
        sys.modules[name] = module
    _let_find_others()
    return modules["acl"]


def install_at_import(**options: Any) -> None:
    """Do what `install(replace=True)` does, but make the modules only when a program imports `acl`.

    A script that imports nothing else of this package and makes no call starts fast.
    """
    if any(name in sys.modules for name in NAMES):
        install(replace=True, **options)
        return
    if options.keys() <= _NEVER_WRONG and not imported(_SESSION):
        current.asked = options
    else:
        import_late(_SESSION).begin_anew(import_late(f"{_FACE}.options").SessionOptions(**options))
    sys.meta_path.insert(0, _Maker())
    _let_find_others()


class _Beside:
    """Finds the vendor's other modules in the folder that processes have in their path."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG004
        """Find one of them; what is in it is found by its path."""
        return PathFinder.find_spec(name, [str(IMPORTED.parent.parent)]) if name in _BESIDE else None


def _let_find_others() -> None:
    if _Beside not in sys.meta_path:
        sys.meta_path.insert(0, _Beside)


class _Maker:
    """Makes the modules when a program first imports `acl`; until then it stands in `sys.meta_path`."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        """Find `acl`; the others are there when it is."""
        return ModuleSpec(name, self, origin=ORIGIN) if name == "acl" else None  # type: ignore[arg-type]

    def create_module(self, _: ModuleSpec) -> ModuleType:
        """Make all modules."""
        made = _made()
        sys.modules.update(made)
        return made["acl"]

    def exec_module(self, module: ModuleType) -> None:
        """Let the module be as `build` has made it."""
        sys.meta_path.remove(self)
        module.__spec__, module.__loader__, module.__package__ = spec_of("acl"), None, None


def _made() -> dict[str, ModuleType]:
    with standard_library_first():
        modules: dict[str, ModuleType] = import_late(f"{_FACE}.making").make()
    return modules


def spec_of(name: str) -> ModuleSpec:
    """Return the spec of the module *name*."""
    return ModuleSpec(name, None, origin=ORIGIN)


def is_installed() -> bool:
    """Return whether `import acl` finds the simulated module."""
    return _is_ours(sys.modules.get("acl")) or any(isinstance(each, _Maker) for each in sys.meta_path)


def uninstall() -> None:
    """Undo `install`: end the session, and put back the module `acl` that was replaced, if there was one."""
    sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, _Maker) and each is not _Beside]
    for name in [each for each in sys.modules if each.partition(".")[0] in _BESIDE]:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(IMPORTED.parent.parent)):
            del sys.modules[name]
    if groups := imported(f"{_FACE}.rank_groups"):
        groups.forget()
    for name in NAMES:
        if _is_ours(sys.modules.get(name)):
            del sys.modules[name]
    sys.modules.update(_replaced)
    _replaced.clear()
    if sessions := imported(_SESSION):
        sessions.end()


def _is_ours(module: ModuleType | None) -> bool:
    spec = getattr(module, "__spec__", None)
    return spec is not None and spec.origin == ORIGIN


def _other() -> str | None:
    """Return where another module `acl` is, or None."""
    known = sys.modules.get("acl")
    if _is_ours(known):
        return None
    if known is not None:
        return repr(known)
    spec = find_spec("acl")
    return None if spec is None else str(spec.origin or spec.name)
