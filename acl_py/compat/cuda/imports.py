"""What happens when a program imports a package for CUDA: its compilers are interposed, its runtime is replaced."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


class _After:
    """Loads a module as *inner* does, and calls *then* with it."""

    def __init__(self, inner: Any, then: Callable[[ModuleType], object]) -> None:
        self._inner = inner
        self._then = then

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Make the module."""
        made: ModuleType | None = self._inner.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, and then the function."""
        module.__loader__ = self._inner
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        self._inner.exec_module(module)
        self._then(module)


class _Finder:
    """Calls functions by the name of a module: those of *before* when it is imported, *after* when it has been."""

    def __init__(
        self, before: Mapping[str, Callable[[], object]], after: Mapping[str, Callable[[ModuleType], object]]
    ) -> None:
        self._before = before
        self._after = after

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:  # noqa: ARG002
        """Find the module *name* if a function wants it; otherwise the import goes on as without this."""
        if name in self._before:
            self._before[name]()
        if name not in self._after:
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _After(spec.loader, self._after[name])  # type: ignore[assignment]  # not importlib.abc's
        return spec


def watch(before: Mapping[str, Callable[[], object]], after: Mapping[str, Callable[[ModuleType], object]]) -> None:
    """Call the functions of *before* and *after* with imports from now on. The first call counts."""
    if not any(isinstance(each, _Finder) for each in sys.meta_path):
        sys.meta_path.insert(0, _Finder(before, after))
