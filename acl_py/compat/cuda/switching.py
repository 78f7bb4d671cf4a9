"""Switching the driver on and off in this process."""

import atexit
import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from acl_py.compat.acl import processes
from acl_py.compat.cuda import imports, packages
from acl_py.compat.cuda.face import exports
from acl_py.compat.cuda.face.codes import DEINITIALIZED, NOT_INITIALIZED
from acl_py.late_imports import import_late, imported

_REPLACING = f"{__package__}.runtime.replacing"  # imported with the vendor's module only
_PACKAGES = ("cuda.bindings.driver", "cuda.core", "numba.cuda.cudadrv.driver")


def install(**options: Any) -> None:
    """Let programs for CUDA find a simulated card from now on. A session that was running ends.

        import ctypes

        import acl_py.compat.cuda

        acl_py.compat.cuda.install()
        driver = ctypes.CDLL("libcuda.so.1")
        assert driver.cuInit(0) == 0

    Packages that use CUDA, such as cuda.core and numba, find the same library. Call this before they are imported: they
    look for it once.

    Args:
        options: What the session is made with, as those of `acl_py.compat.acl.install`; the device is "h200" and the
            rules are "cuda" where they say nothing else.

    Raises:
        RuntimeError: A package that uses CUDA has looked for the driver already, or this process can load no library.
        TypeError: There is no such option.
        ValueError: An option cannot be used.
    """
    sessions: Any = import_late("acl_py.compat.acl.face.session")  # a script that makes no call needs none of it
    chosen = sessions.SessionOptions(**options)
    begin()
    _end_at_exit()
    sessions.begin_anew(chosen)


def uninstall() -> None:
    """Undo `install`: end the session. Functions of the driver answer from now on that it is not initialized."""
    if sessions := imported("acl_py.compat.acl.face.session"):
        sessions.end()
    _clear(NOT_INITIALIZED)


def begin() -> None:
    """Put the driver in place; the session of the process begins with its first call.

    Raises:
        RuntimeError: Another driver is in use already, or this process can load no library.
    """
    if not exports.is_loaded() and (used := _users()):
        raise RuntimeError(
            f"{', '.join(used)} and a driver of CUDA are loaded already: call acl_py.compat.cuda.install() first, or "
            "run the script with acl-py run"
        )
    if (package := packages.failed_before()) and not exports.is_loaded():
        raise RuntimeError(
            f"{package} has looked for a driver of CUDA already, found none, and does not look again: call "
            "acl_py.compat.cuda.install() first, or run the script with acl-py run"
        )
    exports.put(exports.EARLY)
    if _REPLACING in sys.modules:
        import_module(_REPLACING).put()
    imports.watch(
        {
            f"cuda.bindings.{folder}{compiler}": partial(_interpose, compiler)
            for folder in ("", "_internal.")
            for compiler in ("nvrtc", "nvjitlink")
        }
        | {name: partial(packages.tell_of_runtime, name) for name in packages.OWN_RUNTIME},
        {"cuda.bindings.cyruntime": _replace_runtime},
    )


def _interpose(compiler: str) -> None:
    import_late(f"{__package__}.compilers.{compiler}").interpose()


def _replace_runtime(module: ModuleType) -> None:
    import_module(_REPLACING).replace(module.__pyx_capi__)


@contextmanager
def driver_of_script() -> Iterator[None]:
    """Have the driver in place for a script; it ends however the script does.

    Destructors in C call it when there is no Python any more.
    """
    begin_if_possible()
    try:
        yield
    finally:
        end()


def take_over() -> None:
    """Put the driver in place in a process that a script has started, with the options that were handed on."""
    processes.take_over()
    _end_at_exit()
    begin_if_possible()


def begin_if_possible() -> None:
    """Put the driver in place. Say what keeps a package for CUDA from using it, if one is installed."""
    is_used = find_spec("cuda") is not None or find_spec("numba") is not None
    try:
        begin()
    except RuntimeError as error:
        if is_used:
            print(f"acl-py: {error}", file=sys.stderr)
    else:
        for trouble in packages.troubles() if is_used else ():
            print(f"acl-py: {trouble}", file=sys.stderr)


def _users() -> list[str]:
    """Return the packages that may have found another driver already."""
    return [name for name in _PACKAGES if name in sys.modules] if _is_loaded() else []


def _is_loaded() -> bool:
    try:
        ctypes.CDLL(exports.SONAMES[0], mode=_NO_LOAD)
    except OSError:
        return False
    return True


_NO_LOAD = 4  # of dlopen: only a library that is in the process already


@cache
def _end_at_exit() -> None:
    """Let the driver end after the objects of the program, which free their memory when they end."""
    atexit.register(end)
    atexit.register(processes.let_go_of_script)


def end() -> None:
    """Let the functions of the driver answer from now on that it has ended, as at the end of a process."""
    if exports.is_loaded():
        _clear(DEINITIALIZED)


def _clear(answer: int) -> None:
    exports.clear(answer)
    if _REPLACING in sys.modules:
        import_module(_REPLACING).clear(answer)
