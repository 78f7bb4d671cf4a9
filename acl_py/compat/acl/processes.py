"""Processes that find `acl` by two environment variables: those that a script starts, and notebook kernels.

The folder that PYTHONPATH names has a module `acl`, which puts the simulated one in its place, and a `sitecustomize`,
which Python runs first. That one puts the driver of CUDA in place where a process uses it. ACL_PY_RUN has the options:
a JSON object with those of `install`, and with `register`, a list of files to run first. `acl-py run` sets both, so
that what a script starts, with multiprocessing or as another script, finds its `acl` and its driver too. A wheel also
brings acl_py_run.pth, a line that Python runs at its start: it adds the folder where only ACL_PY_RUN is set.

Each process is a host with its own simulation: cards, memory and time are not shared. It prints no summary, because a
pool ends its workers without warning; instead it prints each failed call at once.
"""

import gc
import json
import os
import runpy
import sys
import weakref
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

from acl_py.compat.acl import hanging
from acl_py.compat.acl.face import current
from acl_py.compat.acl.face.modules import IMPORTED, install, is_installed
from acl_py.compat.acl.face.tracebacks import hide_own_frames_of_uncaught_errors
from acl_py.late_imports import imported
from acl_py.sanitizer import watch

_is_taking_over = False
_FOLDER = IMPORTED.parent.parent
_VARIABLE = "ACL_PY_RUN"
_LISTS = {"models": "paths", "register": "paths", "faults": "rules"}  # options that are lists, and of what


def hand_on(register: Sequence[Path], options: dict[str, Any]) -> None:
    """Let processes that start from now on find `acl`. They run the files *register* first. *options* are those of
    `install`; the device must be a name or a file.
    """
    absolute = {**options, "models": [str(each.resolve()) for each in options.get("models", ())]}
    if Path(device := options.get("device") or "").is_file():
        absolute["device"] = str(Path(device).resolve())
    os.environ[_VARIABLE] = json.dumps({**absolute, "register": [str(each.resolve()) for each in register]})
    folders = (str(_FOLDER), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(folders))
    if str(_FOLDER) not in sys.path:
        sys.path.insert(1, str(_FOLDER))  # multiprocessing gives its processes the path of this one
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_tell_failures_at_once)


def _tell_failures_at_once() -> None:
    """Print failed calls as they happen from now on: a process that a script started prints no summary."""
    current.are_failures_told_at_once = True
    watch.forget_all()
    if sessions := imported("acl_py.compat.acl.face.session"):
        sessions.forget_failures()


def let_go_of_script() -> None:
    """Let the objects of the script's module end, as Python does at its end. If nothing was simulated, Python does it.

    Modules may have imported it, such as Python's `rlcompleter`: they let go of it, too. If something else still holds
    it, its names lose their objects.
    """
    if imported("acl_py.simulation") is None:
        return
    main = sys.modules.pop("__main__", ModuleType("__main__"))
    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get("__main__") is main:
            delattr(module, "__main__")
    held = weakref.ref(main)
    del main
    gc.collect()
    if (alive := held()) is not None:
        vars(alive).update({name: None for name in vars(alive) if name != "__builtins__"})


def take_over() -> None:
    """Install `acl`, unless it is, in a process that a script has started, with the options of ACL_PY_RUN.

    Raises:
        ValueError: ACL_PY_RUN is not what it must be.
    """
    global _is_taking_over
    if _is_taking_over or is_installed():  # what is imported meanwhile may look for the packages that come here
        return
    _is_taking_over = True
    try:
        _install()
    finally:
        _is_taking_over = False


def _install() -> None:
    hide_own_frames_of_uncaught_errors()
    options = options_of_environment()
    register = options.pop("register", [])
    install(replace=True, on_hang=hanging.end_process, **options)
    _tell_failures_at_once()
    for file in register:
        runpy.run_path(file)


def options_of_environment() -> dict[str, Any]:
    """Return the options in ACL_PY_RUN; none if there is no such variable.

    Raises:
        ValueError: ACL_PY_RUN is not what it must be.
    """
    return read_options(os.environ.get(_VARIABLE, "{}"))


def read_options(text: str) -> dict[str, Any]:
    """Return the options in *text*, the value of ACL_PY_RUN.

    Raises:
        ValueError: It is not a JSON object, or has something else than these options.
    """
    from acl_py.compat.acl.face.options import SessionOptions  # imported here: a script may need none of it

    known = {"register", *(field.name for field in fields(SessionOptions))} - {"on_hang"}
    try:
        options = json.loads(text)
    except ValueError as error:
        raise _wrong(f"is not JSON: {error}") from None
    if not isinstance(options, dict):
        raise _wrong(f"is not a JSON object but {text}")
    for name, value in options.items():
        if name not in known:
            raise _wrong(f"has the option {name!r}, but there are only {', '.join(sorted(known))}")
        if name in _LISTS and not isinstance(value, list):
            raise _wrong(f"must have a list of {_LISTS[name]} in {name!r}, not {value!r}")
    return options


def _wrong(what: str) -> ValueError:
    example = json.dumps({"device": "ascend310p3", "devices": 2})
    return ValueError(f"the environment variable {_VARIABLE} {what}; write it like this, or unset it: {example}")
