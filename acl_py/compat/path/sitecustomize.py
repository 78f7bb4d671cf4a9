"""What Python runs first in a process that a script of `acl-py run` has started.

The driver of CUDA is put in place when the process imports a package for CUDA, or loads the driver's library by its
name: processes that do neither start as fast as without acl_py. cuda.pathfinder is no such package: it starts processes
that only look for a library, and gives each ten seconds. A module of this name that the process would run otherwise is
run, too.
"""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

_LIBRARY = "libcuda.so"
_begun: list[bool] = []


def _begin() -> None:
    """Put the driver in place, once; a Python without acl_py goes on as it is."""
    if not _begun:
        _begun.append(True)
        try:
            from acl_py.compat.cuda.switching import take_over
        except ImportError:
            return
        take_over()


class _Finder:
    """Waits for the import of a package for CUDA."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:  # noqa: ARG004
        """Find nothing: the import goes on as without this."""
        if name == "numba.cuda" or (name.startswith("cuda.") and not name.startswith("cuda.pathfinder")):
            _begin()


def _heard(event: str, arguments: tuple[object, ...]) -> None:
    """Wait for the driver's library."""
    if event == "ctypes.dlopen" and str(arguments[0]).startswith(_LIBRARY):
        _begin()


if "ACL_PY_RUN" in os.environ:
    sys.meta_path.insert(0, _Finder)
    sys.addaudithook(_heard)

_here = os.path.dirname(os.path.abspath(__file__))
_spec = PathFinder.find_spec(__name__, [each for each in sys.path if os.path.abspath(each) != _here])
if _spec is not None and _spec.loader is not None:
    _spec.loader.exec_module(module_from_spec(_spec))
