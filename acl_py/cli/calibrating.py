"""`acl-py calibrate`: what calls and copies take on this machine, as a file that stands in for a profile's values."""

import platform
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from acl_py.calibrate.calibration import Calibration
from acl_py.calibrate.machine import Machine, described, open_machine
from acl_py.calibrate.quiet import disturbances
from acl_py.calibrate.writing import errors_text, overlay_text, profile_text
from acl_py.cli.common import complain, is_written
from acl_py.errors import AclError
from acl_py.options import card_of
from device_model.profile import ProfileError, load

Out = Annotated[Path, typer.Option("--out", "-o", metavar="FILE.toml", help="Write the values to this file.")]


def calibrate_command(
    out: Out,
    new: Annotated[
        str | None, typer.Option(metavar="NAME", help="Write a whole profile of this name, and not an overlay.")
    ] = None,
    device: Annotated[str, typer.Option(metavar="cuda:N", help="The card.")] = "cuda:0",
    base: Annotated[
        str, typer.Option("--profile", metavar="NAME|FILE.toml", help="The profile that has all other values.")
    ] = "h200",
    anyway: Annotated[bool, typer.Option("--anyway", help="Measure also if the machine is busy.")] = False,
) -> None:
    """Measure what calls and copies take on this machine, in about a minute, and write it to a file.

    `--overlay FILE.toml` lays the values over a profile; with `--new`, `--device FILE.toml` is the profile.
    """
    place = card_of(device)
    if place is None or place.vendor != "cuda":
        raise typer.BadParameter(f"--device must be a card of NVIDIA, such as cuda:0, not {device!r}")
    if out.suffix != ".toml":
        raise typer.BadParameter(f"--out must end with .toml, as profiles do, and {str(out)!r} does not")
    try:
        profile, machine = load(base), open_machine(place.number)
    except (AclError, ImportError, ProfileError) as error:
        complain(str(error))
        raise typer.Exit(1) from error
    try:
        _refuse_if_busy(machine, anyway=anyway)
        began, card = perf_counter(), profile if new is None else described(machine, profile)
        calibration = Calibration(machine, card, _progress())
        (calibration.run_host if new is None else calibration.run_all)()
        heading = f"{machine.name} ({device}) in {platform.node()}, {date.today().isoformat()}, {_versions(machine)}"
    finally:
        machine.close()
    text = overlay_text(calibration, heading) if new is None else profile_text(calibration, heading, new)
    if not is_written(lambda: out.write_text(text, encoding="utf-8"), out):
        raise typer.Exit(1)
    _say(calibration, out, perf_counter() - began, is_overlay=new is None)


def _refuse_if_busy(machine: Machine, *, anyway: bool) -> None:
    """End the command if the machine is busy."""
    for each in disturbances(machine):
        complain(f"this machine is busy: {each}")
        if not anyway:
            complain("end other programs and try again, or measure with --anyway")
            raise typer.Exit(1)


def _progress() -> Callable[[str], None]:
    """Return a function that shows what is measured, in one line."""
    if not sys.stderr.isatty():
        return lambda _: None
    return lambda what: typer.echo(f"\r{what[:79]:79}", err=True, nl=False)


def _versions(machine: Machine) -> str:
    version = machine.driver(machine.driver.cu.cuDriverGetVersion)
    return f"CUDA {version // 1000}.{version % 1000 // 10}, Python {platform.python_version()}"


def _say(calibration: Calibration, out: Path, took_s: float, *, is_overlay: bool) -> None:
    typer.echo(f"{len(calibration.found)} values in {took_s:.0f} s, written to {out}")
    typer.echo(errors_text(calibration))
    for name, why in calibration.missing.items():
        typer.echo(f"not measured: {name}: {why}")
    option = f"--overlay {out}" if is_overlay else f"--device {out}"
    typer.echo(f"use them with {option}, or in Python {'overlay' if is_overlay else 'device'}={str(out)!r}")
