"""Processes that a script starts, with multiprocessing or as another script: they find the script's `acl` too.

Each process is a host with its own simulation: cards, memory and time are not shared. It prints no summary, because a
pool ends its workers without warning; instead it prints each failed call at once.
"""

import json
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from acl_py.compat.acl import hanging
from acl_py.compat.acl.face import session
from acl_py.compat.acl.face.modules import install
from acl_py.sites import PACKAGE

_FOLDER = Path(PACKAGE, "compat", "path")  # nothing is in it but an `acl` that calls take_over
_VARIABLE = "ACL_PY_RUN"


def hand_on(register: Sequence[Path], options: dict[str, Any]) -> None:
    """Let processes that start from now on find `acl`. They run the files *register* first. *options* are those of
    `install`; the device must be a name or a file.
    """
    absolute = {**options, "models": [str(each.resolve()) for each in options.get("models", ())]}
    if Path(device := options.get("device", "")).is_file():
        absolute["device"] = str(Path(device).resolve())
    os.environ[_VARIABLE] = json.dumps([[str(each.resolve()) for each in register], absolute])
    folders = (str(_FOLDER), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(folders))
    if str(_FOLDER) not in sys.path:
        sys.path.insert(1, str(_FOLDER))  # multiprocessing gives its processes the path of this one
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=session.tell_failures_at_once)


def take_over() -> None:
    """Install `acl` in a process that was started, as `hand_on` arranged."""
    register, options = json.loads(os.environ[_VARIABLE])
    install(replace=True, on_hang=hanging.end_process, **options)
    session.tell_failures_at_once()
    for file in register:
        runpy.run_path(file)
