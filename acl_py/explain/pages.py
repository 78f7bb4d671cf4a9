"""Pages with explanations: the findings and the critical path of each run."""

from acl_py.explain.findings import Finding as Explained
from acl_py.explain.findings import findings
from acl_py.explain.path import critical_path
from acl_py.trace.page import Finding, Page, PathPart, Run
from acl_py.trace.rows import Timeline


def explained(page: Page) -> Page:
    """Return *page* with the findings and the critical path of each of its runs, beside those that they have."""
    return Page([_explained(run) for run in page.runs], page.title)


def _explained(run: Run) -> Run:
    path = [
        PathPart(part.begin_ns, part.end_ns, part.cause, part.op, part.call) for part in critical_path(run.timeline)
    ]
    return run._replace(findings=[*run.findings, *_findings(run.timeline)], critical=path)


def _findings(timeline: Timeline) -> list[Finding]:
    return [
        Finding(_text(each), each.site, each.begin_ns, each.end_ns, each.ops, each.calls, each.held_ns)
        for each in findings(timeline)
    ]


def _text(finding: Explained) -> str:
    times = len(finding.calls) or len(finding.ops)
    often = "" if times == 1 else f", {times:,} times"
    return f"{finding.what[0].upper()}{finding.what[1:]}{often}\n{finding.edit}"
