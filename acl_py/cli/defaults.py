"""`acl-py config`, and the options that a project gives in place of a command line.

    [tool.acl_py]
    device = "ascend910b3"      # a profile, or the path of a .toml file from this file on
    rules = "acl"
    sanitize = true             # or some of its parts: "device,host"

They are in a pyproject.toml: the nearest one with this table, in the current folder or in those above it. `run`,
`explore` and `replay` take them where their command line does not say otherwise.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import typer

from acl_py.cli.common import console, option_refused
from acl_py.options import card_of
from acl_py.parts import ALL_PARTS, parts_of
from acl_py.projects import ProjectError, table_of
from device_model import profile as profiles
from device_model.errors import shown
from device_model.profile import ProfileError
from device_model.rules import RULES

COMMANDS = ("run", "explore", "replay")
NAMES = ("device", "rules", "sanitize")
_TABLES = ("sanitizer",)  # of others: acl_py.sanitizer.suppressions
_SAID = {
    "device": "that of the command: ascend910b3 for `acl`, h200 for CUDA and stream programs",
    "rules": "those of the device",
    "sanitize": "of scripts races and unwritten reads, of stream programs nothing",
}


class Defaults(NamedTuple):
    """The options that a project gives, by name, and its *file*; None if it gives none."""

    values: Mapping[str, str]
    file: Path | None


def defaults_of(folder: Path) -> Defaults:
    """Return the options that the project of *folder* gives.

    Raises:
        ProjectError: Its file cannot be read, or gives an option that there is not, or a value that it cannot have.
    """
    found = table_of(folder)
    if found is None:
        return Defaults({}, None)
    table, file = found
    if not isinstance(table, dict):
        raise ProjectError(f"{file}: [tool.acl_py] must be a table, not {shown(table)}")
    for name in table:
        if name not in (*NAMES, *_TABLES):
            raise ProjectError(f"{file}: [tool.acl_py] has the key {name!r}, but there are only {', '.join(NAMES)}")
    values = {name: _value(name, table[name], file) for name in NAMES if name in table}
    return Defaults({name: value for name, value in values.items() if value is not None}, file)


def _value(name: str, value: object, file: Path) -> str | None:
    """Return what the option *name* gets for *value*; None for nothing."""
    if name == "sanitize" and isinstance(value, bool):
        return ALL_PARTS if value else None
    if not isinstance(value, str):
        kind = "true, false or a text" if name == "sanitize" else "a text"
        raise ProjectError(f"{file}: {name} in [tool.acl_py] must be {kind}, not {shown(value)}")
    try:
        if name == "sanitize":
            parts_of(value)
        elif name == "rules" and value not in RULES:
            raise ProjectError(f"there are no rules {value!r}; there are {', '.join(RULES)}")
        elif name == "device" and card_of(value) is None:
            value = str(file.parent / value) if value.endswith(".toml") else value
            profiles.load(value)
    except (ProfileError, ValueError) as error:
        raise ProjectError(f"{file}: {name} in [tool.acl_py]: {error}") from error
    return value


def default_map(values: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return *values* as what the options of each command have by default; `replay` takes several rules."""
    of_replay = {name: [value] if name == "rules" else value for name, value in values.items()}
    return {command: of_replay if command == "replay" else dict(values) for command in COMMANDS}


def give_defaults(context: typer.Context) -> None:
    """Let the commands of *context* take the options of the project of the current folder."""
    if context.invoked_subcommand in COMMANDS:
        with option_refused(ProjectError):
            context.default_map = default_map(defaults_of(Path.cwd()).values)


def config_command() -> None:
    """Print which options the project of this folder gives to run, explore and replay, and where they come from."""
    with option_refused(ProjectError):
        values, file = defaults_of(Path.cwd())
    say = console().print
    if file is None:
        missing = "no pyproject.toml in this folder or above it has a table [tool.acl_py]"
        say(missing, markup=False, highlight=False, soft_wrap=True)
    where = "" if file is None else f"  ({os.path.relpath(file)})"
    for name in NAMES:
        given = f"{values[name]}{where}" if name in values else f"not given: {_SAID[name]}"
        say(f"{name:<8}  {given}", markup=False, highlight=False, soft_wrap=True)
