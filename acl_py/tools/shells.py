"""Shells in which `python` finds the module `acl`, and `atc` makes model files: for the commands of a README."""

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from acl_py.compat.acl.processes import hand_on

_COMMANDS = {"python": (), "python3": (), "atc": ("-m", "acl_py", "atc"), "acl-py": ("-m", "acl_py")}


def run(command: Sequence[str], register: Sequence[Path], options: dict[str, Any]) -> int:
    """Run *command* in a shell, or an interactive shell without one. *options* are those of `install`.

    Args:
        command: One text with a line for the shell, or a program and its arguments.
        register: Files that each Python process runs first.
        options: What each simulation is made with.

    Returns:
        The exit code of the shell; 127 if there is no such program.
    """
    hand_on(register, options)
    with tempfile.TemporaryDirectory(prefix="acl-py-shell-") as folder:
        for name, arguments in _COMMANDS.items():
            _write_command(Path(folder, name), arguments)
        os.environ["PATH"] = os.pathsep.join((folder, os.environ.get("PATH", os.defpath)))
        try:
            return subprocess.run(_shell(command), check=False).returncode
        except OSError as error:
            print(f"acl-py: {command[0]}: {error.strerror}", file=sys.stderr)
            return 127


def _shell(command: Sequence[str]) -> Sequence[str]:
    shell = os.environ.get("SHELL") or "/bin/sh"
    if not command:
        return [shell]
    return [shell, "-c", command[0]] if len(command) == 1 else command


def _write_command(path: Path, arguments: Sequence[str]) -> None:
    """Write a program that runs this Python: a link to it would not find its packages."""
    path.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, *arguments])} "$@"\n', encoding="utf-8")
    path.chmod(0o755)
