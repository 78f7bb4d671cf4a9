"""What demos print, and the course of those that show one kernel in several versions on the cores of a device."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy.typing as npt
from rich.console import Console
from rich.table import Table
from rich.text import Text

from acl_py.simulation import Simulation
from acl_py.trace.page import Page, Run
from acl_py.trace.rows.timeline import CoreRun, Operation
from acl_py.trace.views.pipes import styled_lanes

WIDTH = 100


@dataclass(frozen=True)
class CoreOutcome:
    """The result of one version of a kernel."""

    sim: Simulation
    op: Operation
    cores: CoreRun
    result: npt.NDArray[Any]

    @property
    def us(self) -> str:
        """How long the launch took."""
        return f"{(self.op.end_ns - self.op.start_ns) / 1000:,.2f}"

    def span_ns(self, core: str) -> float:
        """Return how long *core*, which is in the chart, was busy."""
        rows = [row for row in self.sim.trace.instructions if row.core == core]
        return max(row.end_ns for row in rows) - min(row.start_ns for row in rows)


_Outcome = TypeVar("_Outcome", bound=CoreOutcome)


def screen() -> Console:
    """Return what demos print to."""
    console = Console(highlight=False)
    console.width = min(console.width, WIDTH) if console.is_terminal else WIDTH
    return console


def heading(number: int, title: str, us: str, width: int) -> Text:
    """Return the line above the chart of a version."""
    left = Text(f"{number}  {title}", style="bold")
    right = Text.assemble((f"{us} us", "bold"), ", same result as NumPy")
    return left + Text(" " * max(width - len(left) - len(right), 2)) + right


def show(
    title: str,
    task: str,
    versions: Mapping[int, str],
    do: Callable[[int], Coroutine[Any, Any, _Outcome]],
    is_right: Callable[[_Outcome], bool],
    core: str,
    table: Callable[[dict[int, _Outcome]], Table],
    why: Callable[[dict[int, _Outcome]], str],
) -> Page:
    """Do each of *versions*; draw the units of *core* in each, and explain the difference. Return them as a page."""
    console = screen()
    console.print(Text(title, style="bold"))
    console.print(task)
    outcomes = {version: asyncio.run(do(version)) for version in versions}
    span = max(outcome.span_ns(core) for outcome in outcomes.values())
    for version, outcome in outcomes.items():
        if not is_right(outcome):
            raise AssertionError(f"{versions[version]}: the result differs from NumPy's")
        console.print()
        console.print(heading(version, versions[version], outcome.us, console.width))
        console.print(styled_lanes(outcome.sim.trace, console.width, core=core, span_ns=span))
    console.print()
    console.print(table(outcomes))
    console.print()
    console.print(why(outcomes))
    runs = [
        Run(versions[version], outcome.sim.trace.timeline(), since_ns=outcome.op.start_ns, until_ns=outcome.op.end_ns)
        for version, outcome in outcomes.items()
    ]
    return Page(runs, title)
