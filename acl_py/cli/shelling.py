"""`acl-py shell`: a shell in which Ascend's commands and modules are the simulated ones."""

from dataclasses import replace
from typing import Annotated, Any

import typer

from acl_py.cli.common import Overlay, option_refused, profile_of, rules_of
from acl_py.cli.scripts import Devices, Models, Register, Rules, UsualDevice
from acl_py.tools import shells
from device_model.profile import ProfileError


def shell_command(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            help="A line for the shell, in quotes, or a program and its arguments; without it, an interactive shell.",
            show_default=False,
        ),
    ] = None,
    device: UsualDevice = None,
    overlay: Overlay = None,
    devices: Devices = None,
    rules: Rules = None,
    models: Models = None,
    register: Register = None,
) -> None:
    """Run a shell, or COMMAND in it, for the commands of a README.

    In it `python` and `python3` are this Python and find `acl`, `ais_bench` and
    the others, and `atc` is `acl-py atc`. Each Python process is a host with
    cards of its own; `acl-py run` sums up one of them.
    """
    if rules is not None:
        rules_of(rules)
    profile = profile_of(device or "ascend910b3", overlay)
    with option_refused(ProfileError):
        replace(profile, devices=devices or profile.devices)
    options: dict[str, Any] = {
        "device": device, "overlay": overlay, "devices": devices, "rules": rules, "models": models or [],
    }  # fmt: skip
    raise typer.Exit(shells.run(command or (), register or (), options))
