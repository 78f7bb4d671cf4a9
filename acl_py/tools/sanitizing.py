"""Sanitized runs: what the command line does with the findings of all simulations in a run."""

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from acl_py import __version__
from acl_py.findings import Finding
from acl_py.parts import parts_of
from acl_py.sanitizer import watch
from acl_py.sanitizer.reports import Report, ReportForm, judge
from acl_py.sanitizer.suppressions import find
from acl_py.whole_files import write_text

if TYPE_CHECKING:
    from acl_py.trace import Trace

FOUND = 4  # the exit code if there are findings
Fix = Callable[[Report, Sequence["Trace"]], Report]


class Sanitized:
    """A run whose simulations are sanitized with *parts*, from now to the end of the process or to `end`.

    Suppressions are those of the project that *folder* is in. The report goes to the standard error and, in another
    *form*, to the file *path*; "-" is the standard output. With *fix*, the report is what it returns: it gets the
    report with the recordings of all simulations of the run, and tries the fixes of the findings. If the report
    *is_brief*, it has two lines for each finding, and nothing is printed if there is none.

    Raises:
        SuppressionError: the suppressions cannot be used.
        ValueError: the sanitizer has no such parts.
    """

    def __init__(
        self,
        parts: str,
        folder: Path,
        path: Path | None = None,
        form: ReportForm = ReportForm.JSON,
        fix: Fix | None = None,
        *,
        is_brief: bool = False,
    ) -> None:
        self._suppressions = find(folder)
        self._path = path
        self._form = form
        self._fix = fix
        self.is_brief = is_brief
        self.watch = watch.begin(parts_of(parts), keeps_traces=fix is not None)

    def end(self) -> None:
        """Sanitize no more simulations."""
        watch.end(self.watch)

    def report(self, findings: Iterable[Finding] | None = None) -> Report:
        """Return what was found so far, leaks included: all simulations of the run count as ended. If *findings* are
        given, they stand for those of the simulations.
        """
        self.watch.finish()
        found = self.watch.findings if findings is None else findings
        return judge(found, self._suppressions, self.watch.notes)

    def show(self, findings: Iterable[Finding] | None = None) -> Report:
        """Print the report, write it to the file if there is one, and return it. *findings* are those of `report`.

        Raises:
            OSError: the file cannot be written.
        """
        report = self.report(findings)
        if self._fix is not None:
            report = self._fix(report, self.watch.traces or [])
        text = report.brief() if self.is_brief else report.text()
        if text:
            print(f"acl-py: {text}", file=sys.stderr)
        if self._path is not None:
            text = _formed(report, self._form)
            if str(self._path) == "-":
                sys.stdout.write(text)
            else:
                write_text(self._path, text)
        return report


def _formed(report: Report, form: ReportForm) -> str:
    here = Path.cwd()
    match form:
        case ReportForm.TEXT:
            return f"{report.text()}\n"
        case ReportForm.JSON:
            return report.json()
        case ReportForm.SARIF:
            return report.sarif(__version__, here)
        case ReportForm.GITHUB:
            return report.github(here)
