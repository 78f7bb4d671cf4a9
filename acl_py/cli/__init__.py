"""The command line, `acl-py`: run, predict, calibrate, explore, replay, report, optimise, diff, devices, and others."""

import re
from difflib import get_close_matches
from enum import Enum
from typing import Annotated, Any

import typer
import typer.core

from acl_py import __version__
from acl_py.cli.calibrating import calibrate_command
from acl_py.cli.common import Format, ReportOut, Sanitizable, TraceOut, format_of, write_trace
from acl_py.cli.comparing import compare_command
from acl_py.cli.converting import atc_command
from acl_py.cli.defaults import config_command, give_defaults
from acl_py.cli.devices import devices_command
from acl_py.cli.explaining import Explain, Shown, WhatIf, edits_of, explain_recording, say, write_page
from acl_py.cli.explanations import explain_error_command
from acl_py.cli.explore import explore_command
from acl_py.cli.names import names_command
from acl_py.cli.notebooks import notebooks_command
from acl_py.cli.optimising import optimise_command
from acl_py.cli.predicting import predict_command
from acl_py.cli.replays import replay_command
from acl_py.cli.reports import diff_command, report_command
from acl_py.cli.scripts import run_command
from acl_py.cli.shelling import shell_command
from acl_py.cli.sweeping import sweep_command
from acl_py.compat.acl.standins import commands
from device_model.compiled import CORE

_NO_CHOICE = re.compile(r"(?:Value error, )?'(?P<value>.*)' is not one of (?P<choices>.*)\.")  # as typer says it


class _Commands(typer.core.TyperGroup):
    """The commands; the name of a script in place of one is told apart, and of choices the nearest one is named."""

    def invoke(self, context: Any) -> Any:
        """Run the command that *context* has the words of.

        Raises:
            BadParameter: An option has a value that it does not take.
        """
        try:
            return super().invoke(context)
        except typer.BadParameter as error:
            no_choice = _NO_CHOICE.fullmatch(error.message)
            if no_choice is not None:
                choices = re.findall("'(.*?)'", no_choice["choices"])
                near = get_close_matches(no_choice["value"], choices, 1)
                meant = f"; did you mean {near[0]}?" if near else ""
                error.message = f"'{no_choice['value']}' is not one of {no_choice['choices']}{meant}"
            raise

    def resolve_command(self, context: Any, words: list[str]) -> Any:
        """Return the command that the first of *words* names.

        Raises:
            UsageError: There is none.
        """
        if words and words[0].endswith(".py"):
            context.fail(f"No command is called '{words[0]}': `acl-py run {words[0]}` runs a script.")
        return super().resolve_command(context, words)


app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, cls=_Commands)
app.add_typer(commands.app, name="model")
app.command("replay", cls=Sanitizable)(replay_command)
app.command("report")(report_command)
app.command("optimise")(optimise_command)
app.command("diff")(diff_command)
app.command("devices")(devices_command)
app.command("calibrate")(calibrate_command)
# Everything after the script is an argument of the script, even if it looks like an option.
app.command("run", cls=Sanitizable, context_settings={"allow_interspersed_args": False})(run_command)
app.command("shell", context_settings={"allow_interspersed_args": False})(shell_command)
app.command("predict", context_settings={"allow_interspersed_args": False})(predict_command)
app.command("explore", cls=Sanitizable)(explore_command)
app.command("compare")(compare_command)
app.command("sweep")(sweep_command)
app.command("explain-error")(explain_error_command)
app.command("names")(names_command)
app.command("notebooks")(notebooks_command)
app.command("config")(config_command)
app.command("atc", context_settings={"ignore_unknown_options": True})(atc_command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"acl-py {__version__} ({CORE})")
        raise typer.Exit


@app.callback()
def main(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001 - its callback prints it
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit.")
    ] = False,
) -> None:
    """Run streams, events and kernels of Ascend ACL and CUDA on a simulated device."""
    give_defaults(context)


class Demo(Enum):
    """The demos."""

    STREAMS = "streams"
    AICORE = "aicore"
    FLASH = "flash"


@app.command("demo")
def demo_command(
    what: Annotated[
        Demo,
        typer.Argument(
            help="streams: one job in four versions. aicore: one kernel, single- and double-buffered. flash: attention "
            "by blocks of threads, with one stage and with two."
        ),
    ] = Demo.STREAMS,
    trace_out: TraceOut = None,
    trace_format: Format = None,
    report: ReportOut = None,
    explain: Explain = False,
    what_if: WhatIf = None,
) -> None:
    """Run one job in several versions, and draw the timelines of the device, or of the units of a core.

    --trace writes the last version. --explain and --what-if are about the whole run of each version, with its
    preparations.
    """
    from acl_py.tools import demo, demo_aicore, demo_flash  # imported here, because few commands need their kernels

    edits = edits_of(what_if)
    form = format_of(trace_format, trace_out)
    page = {Demo.STREAMS: demo, Demo.AICORE: demo_aicore, Demo.FLASH: demo_flash}[what].main()
    fine = trace_out is None or write_trace(page.runs[-1].timeline, trace_out, form)
    shown = [*map(Shown, page.runs)]
    for run in page.runs if explain or edits else ():
        say(f"\n{run.title}")
        (_, *answers), asked = explain_recording(run.timeline, run.title, edits)
        shown += [answer.below(run.title) for answer in answers]
        fine &= asked
    if report is not None:
        fine &= write_page(shown, report, title=page.title)
    if not fine:
        raise typer.Exit(1)
