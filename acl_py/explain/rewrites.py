"""Rewrites: fixes that are no edge: a write ahead of a read of unwritten bytes, a free behind a later use, and a second
free that is taken out.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from acl_py.calls.acts import Completed
from acl_py.calls.steps import HOST_ACCESS, Name
from acl_py.explain.cases import Case, EditError, made_like
from acl_py.findings import Finding, Kind
from acl_py.programs.format import Step

REWRITTEN = (Kind.UNINITIALISED, Kind.USE_AFTER_FREE, Kind.DOUBLE_FREE)  # the kinds that a rewrite can mend


def rewritten(case: Case, findings: Iterable[Finding], places: Mapping[str, int]) -> Case:
    """Return *case* with the fixes of *findings*; *places* has the index of the step at each of their lines.

    Raises:
        EditError: the memory was not made or freed by a step.
    """
    ahead: defaultdict[int, list[Step]] = defaultdict(list)
    moved: dict[int, int] = {}  # steps, and those behind which they come
    needless: set[int] = set()
    for finding in findings:
        first, last = (places[access.site] for access in finding.accesses)
        if finding.kind is Kind.UNINITIALISED:
            ahead[last] += _writes(case.program.steps[first], case.program.steps[last], finding)
        elif finding.kind is Kind.DOUBLE_FREE:
            needless.add(last)
        else:
            moved[first] = max(last, moved.get(first, last))

    def change(step: Step) -> list[Step]:
        if step.index in moved or step.index in needless:
            return []
        behind = [case.program.steps[first] for first, last in moved.items() if last == step.index]
        return [*ahead[step.index], step, *behind]

    return case.with_steps(change)


def _writes(birth: Step, reader: Step, finding: Finding) -> list[Step]:
    """Return the steps that write the unwritten bytes of the memory that *birth* makes, just before *reader*."""
    name = birth.fields.get("name")
    if birth.makes_in == "pinned":
        extents = [[name, span.start, span.stop] for span in finding.spans]
        return [made_like(reader, HOST_ACCESS, reads=(), writes=extents)]
    if birth.makes_in != "device":
        raise EditError(f"step {birth.index} ({birth.op}) makes memory that is not known")
    return [
        made_like(reader, Completed(Name("fill")), dst=name, bytes=span.stop - span.start, dst_off=span.start)
        for span in finding.spans
    ]
