"""Pages with explanations: the findings and the critical path of each run."""

from collections.abc import Iterable

from acl_py.causes.findings import Finding, findings
from acl_py.causes.path import Part, critical_path
from acl_py.recorded import notes_of
from acl_py.trace import page
from acl_py.trace.page import Page, PathPart, Run


def explained(shown: Page) -> Page:
    """Return the page with findings, notes and the critical path of each run that has no critical path yet."""
    return Page([_explained(run) for run in shown.runs], shown.title, shown.mistakes)


def with_findings(run: Run, path: Iterable[Part], found: Iterable[Finding]) -> Run:
    """Return *run* with its critical path, and with findings and notes; findings come behind those that it has."""
    more = [on_page(each, each.edit) for each in found]
    notes = notes_of(run.timeline) if run.notes is None else run.notes
    return run._replace(findings=[*run.findings, *more], critical=parts_of(path), notes=notes)


def _explained(run: Run) -> Run:
    timeline = run.timeline
    return run if run.critical else with_findings(run, critical_path(timeline), findings(timeline))


def parts_of(path: Iterable[Part]) -> list[PathPart]:
    """Return *path* as a page shows it."""
    return [PathPart(part.begin_ns, part.end_ns, part.cause, part.op, part.call) for part in path]


def on_page(found: Finding, advice: str) -> page.Finding:
    """Return *found* as a page shows it, with *advice* below."""
    what = found.what if "(" in found.what.split()[0] else found.what[0].upper() + found.what[1:]  # not acl.rt.memset()
    text = f"{what}{found.often}\n{advice}"
    place = found.site, found.begin_ns, found.end_ns, found.ops, found.calls
    return page.Finding(text, *place, found.held_ns, waits=found.waits)
