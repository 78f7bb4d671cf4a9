"""`acl-py explain-error`: what an error code means."""

from typing import Annotated

import typer
from rich.markup import escape

from acl_py import codes
from acl_py.cli.common import complain, console
from acl_py.findings import Kind

_SUCCESS = ("0", "cudasuccess", "acl_success")
_VENDORS = {"acl": "ACL, aclError", "cuda": "CUDA, cudaError_t"}


def explain_error_command(
    code: Annotated[
        str, typer.Argument(help="A number (107002, 700) or a name (cudaErrorIllegalAddress, CONTEXT_NULL).")
    ],
) -> None:
    """Explain an error code of ACL or CUDA: what it means, what causes it in a simulation, and what to do."""
    if code.strip().lower() in _SUCCESS:
        console().print("0  the call has succeeded (cudaSuccess, ACL_SUCCESS)", highlight=False)
        return
    entries = codes.find(code)
    if not entries and code.strip().lower() in {kind.value for kind in Kind}:
        complain(f"{code} is no code but a finding of the sanitizer: its text names the lines and a fix")
        raise typer.Exit(2)
    if not entries:
        complain(f"there is no code {code}; similar codes: {', '.join(codes.near(code)) or 'none'}")
        raise typer.Exit(2)
    screen = console()
    for entry in entries:
        screen.print(f"[bold]{entry.number}[/bold]  {entry.name}  ({_VENDORS[entry.vendor]})", highlight=False)
        kinds = entry.kinds()
        if not kinds:
            screen.print(
                f"  {escape(entry.meaning)}\n  No simulation gives this code, except by a fault rule.",
                highlight=False,
            )
        for kind in kinds:
            advice = codes.ADVICE[kind]
            text = f"  {kind.value}\n    cause:      {advice.cause}\n    what to do: {advice.remedy}"
            screen.print(escape(text), highlight=False, soft_wrap=True)
