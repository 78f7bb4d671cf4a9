"""`acl-py predict`: a program on the model and on a card, and where the two part."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from acl_py.calibrate.writing import toml_of
from acl_py.card.cuda.opening import begun
from acl_py.cli.common import Overlay, complain, profile_of
from acl_py.cli.explaining import say
from acl_py.errors import AclError
from acl_py.explain.parting import parting_text
from acl_py.options import BODIES, DEVICE, card_of
from acl_py.trace.rows.files import read_trace
from acl_py.trace.rows.timeline import Timeline

_LINES = 12  # of a failed program's output


def predict_command(
    program: Annotated[str, typer.Argument(help="A Python script with a program of verbs.", show_default=False)],
    arguments: Annotated[list[str] | None, typer.Argument(help="Its arguments.", show_default=False)] = None,
    device: Annotated[str, typer.Option(metavar="cuda:N", help="The card.")] = "cuda:0",
    model: Annotated[str, typer.Option(metavar="NAME|FILE.toml", help="The profile of the model.")] = "h200",
    overlay: Overlay = None,
) -> None:
    """Run a program of verbs on the model and on a card, and say where the two part.

    The program runs twice, each time in a process of its own, whatever device
    it names. `acl-py calibrate` makes an overlay of this machine.
    """
    card = card_of(device)
    if card is None or card.vendor != "cuda":
        raise typer.BadParameter(f"--device must be a card of NVIDIA, such as cuda:0, not {device!r}")
    with tempfile.TemporaryDirectory(prefix="acl-py-") as folder:
        profile = Path(folder, "model.toml")
        profile.write_text(toml_of(profile_of(model, overlay)), encoding="utf-8")
        command = [program, *(arguments or ())]
        predicted = _recorded(command, {DEVICE: str(profile)}, Path(folder, "model"))
        _check_card(card.number)
        measured = _recorded(command, {DEVICE: device}, Path(folder, "card"), "--device", device)
    if len(predicted) != len(measured):
        complain(f"{len(predicted)} simulations on the model, and {len(measured)} on the card: the program differs")
        raise typer.Exit(1)
    for number, (there, here) in enumerate(zip(predicted, measured, strict=True), 1):
        if len(measured) > 1:
            say(f"simulation {number} of {len(measured)}:")
        say(parting_text(there, here))


def _check_card(number: int) -> None:
    """End the command, with a sentence, if there is no such card."""
    try:
        begun(number)
    except (AclError, ImportError) as error:
        complain(str(error))
        raise typer.Exit(1) from error


def _recorded(command: Sequence[str], environment: dict[str, str], folder: Path, *options: str) -> list[Timeline]:
    """Return the recordings of a run of *command* in a process of its own, with these variables in its environment."""
    folder.mkdir()
    own = os.environ | environment
    if not options:
        own.pop(BODIES, None)  # it is for cards
    run = [sys.executable, "-m", "acl_py", "run", "--no-sanitize", "--format", "acl"]
    run += ["--trace", str(folder / "trace.json"), *options, *command]
    done = subprocess.run(run, env=own, capture_output=True, text=True, check=False)
    if done.returncode:
        last = "\n".join(done.stderr.splitlines()[-_LINES:])
        complain(
            f"the program ended with {done.returncode} on {environment[DEVICE] if options else 'the model'}:\n{last}"
        )
        raise typer.Exit(1)
    names = sorted(folder.iterdir(), key=lambda path: (len(path.name), path.name))
    return [read_trace(path) for path in names]
