"""`--fix`: the fixes of findings are tried, and the program without the findings is written."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from acl_py.cli.common import OF_MISTAKES, complain, is_written
from acl_py.errors import DeadlockError
from acl_py.explain.cases import Case, EditError
from acl_py.explain.fixes import FIXED, Fixer, try_fixes
from acl_py.explain.optimiser import write_program
from acl_py.explain.recordings import case_of
from acl_py.programs.format import Program, ProgramError
from acl_py.sanitizer.reports import Report
from acl_py.trace import Trace

Fix = Annotated[
    str | None,
    typer.Option(
        metavar="[=OUT.json]",
        help="With --sanitize: try the fix of each finding, and say what it costs; write a stream program with the "
        "fixes that are needed to OUT.json.",
        rich_help_panel=OF_MISTAKES,
    ),
]

_NO_ACCESSES = (
    "a recorded program has no accesses of the host, so races with these are not found in it: what the host reads and "
    "writes through views is recorded if the run is sanitized"
)


class Fixes:
    """Tries the fixes of findings, for a report.

    The programs of the runs are *cases*, or if there are none those of the recordings. The program without findings is
    written to *path*; "" is no file.
    """

    def __init__(self, path: str, cases: Iterable[Case] | None = None) -> None:
        self._path = path
        self._cases = cases
        self.is_written = True  # until the program cannot be written

    def __call__(self, report: Report, traces: Sequence[Trace]) -> Report:
        """Return *report*, whose findings have their trials, with a note of what mends all of them together."""
        findings = report.findings
        fixers = [*self._fixers(traces)] if findings else []
        tried = tuple(try_fixes(fixers, findings))
        in_no_order = [each for each in findings if each.kind in FIXED]
        mended = [fixer.mend(found) for fixer in fixers if (found := [each for each in in_no_order if fixer.has(each)])]
        if self._path:
            self._write([each.program for each in mended])
        blind = self._cases is not None and any(fixer.lacks_host for fixer in fixers)
        notes = (*report.notes, *([_NO_ACCESSES] if blind else []), *(each.text for each in mended))
        return replace(report, findings=tried, notes=notes)

    def _fixers(self, traces: Sequence[Trace]) -> Iterable[Fixer]:
        try:
            cases = [case_of(trace.timeline(), "run") for trace in traces] if self._cases is None else self._cases
            for case in cases:
                yield Fixer(case)
        except (EditError, ProgramError, DeadlockError) as error:
            complain(f"fixes are not tried: {error}")

    def _write(self, programs: Sequence[Program]) -> None:
        if len(programs) != 1:
            complain(f"--fix={self._path} writes one program, but fixes were tried in {len(programs)}")
            self.is_written = False
            return
        path = Path(self._path)
        self.is_written = is_written(lambda: write_program(programs[0], path), path)
