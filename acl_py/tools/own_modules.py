"""A script's own modules: the script itself, and the Python files that it imports from its folder.

If the clock is simulated, `import time` in their text means another module, simulated_time.py. The text is changed in
memory only, when it is compiled: no bytecode is kept. So nothing is patched in the process, and the standard library
and the installed packages have Python's `time`. So has `importlib.import_module("time")`, which no text shows.
"""

import ast
import sys
import sysconfig
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

_TIME = "acl_py.compat.acl.simulated_time"
_LIBRARIES = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}

CLOCKS = {f"{clock}{unit}" for clock in ("time", "monotonic", "perf_counter") for unit in ("", "_ns")}
_PROJECT = ("acl_py", "device_model")  # a script may be in the folder of their source


def compile_on_simulated_clock(source: bytes | str, name: str) -> CodeType:
    """Compile *source*, the text of the file *name*, so that its imports of `time` find the simulated one."""
    tree: Any = compile(source, name, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == "time":
                    alias.name, alias.asname = _TIME, alias.asname or "time"
        elif isinstance(node, ast.ImportFrom) and node.module == "time" and not node.level:
            node.module = _TIME
    return compile(tree, name, "exec", dont_inherit=True)


def import_on_simulated_clock(folder: str) -> None:
    """From now on compile modules of *folder*, the script's, with `compile_on_simulated_clock`; "" is the current one.

    A folder that belongs to Python or to its installed packages has no modules of a script's own.
    """
    if folder not in _LIBRARIES:
        sys.meta_path.insert(sys.meta_path.index(PathFinder), _OwnModules(folder))


def reads_clock(source: bytes | str) -> bool:
    """Whether the text of a program, which Python can compile, names a clock of the module `time`."""
    tree = ast.parse(source)
    names = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == "time"
    }
    return any(
        (
            isinstance(node, ast.Attribute)
            and node.attr in CLOCKS
            and isinstance(node.value, ast.Name)
            and node.value.id in names
        )
        or (
            isinstance(node, ast.ImportFrom)
            and node.module == "time"
            and any(each.name in CLOCKS for each in node.names)
        )
        for node in ast.walk(tree)
    )


class _OwnModules:
    """Finds what Python's own finder would find next, and lets the modules of *folder* have another loader."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader and self._has(fullname, spec.loader.path):
            spec.loader = _Loader(fullname, spec.loader.path)
        return spec

    def _has(self, module: str, file: str) -> bool:
        """Whether *module* is the script's, and *file* is its place in the folder."""
        parts = module.split(".")
        place = Path(self._folder).absolute().joinpath(*parts)
        return parts[0] not in _PROJECT and file in (f"{place}.py", f"{place / '__init__.py'}")


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        file = self.get_filename(fullname)
        return compile_on_simulated_clock(self.get_data(file), file)
