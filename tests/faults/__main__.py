"""Run the fault campaign and print what came of it: `WORKERS=2 python -m tests.faults [PROGRAM ...]`."""

import sys
from time import perf_counter

from rich.console import Console
from rich.table import Table

from tests import campaigns

from .campaign import run
from .programs import PROGRAMS

ENDS = ("error", "hang", "wrong", "late", "not struck", "FAULTY")


def main():
    console = Console(width=140)
    table = Table("program", "rules", "calls", "operations", "runs", *ENDS)
    chosen = [program for program in PROGRAMS if program.name in (sys.argv[1:] or [each.name for each in PROGRAMS])]
    begin, outcomes = perf_counter(), []
    with campaigns.crew() as crew:
        for program in chosen:
            outcome = run(program, say=lambda text: console.print(text, markup=False), crew=crew)
            outcomes.append(outcome)
            numbers = (outcome.calls, outcome.ops, outcome.runs, *(outcome.ends[end] for end in ENDS))
            table.add_row(program.name, program.rules, *map(str, numbers))
    console.print(table)
    console.print(f"{sum(each.runs for each in outcomes):,} runs in {perf_counter() - begin:.0f} s")
    sys.exit(any(outcome.faults for outcome in outcomes))


if __name__ == "__main__":
    main()
