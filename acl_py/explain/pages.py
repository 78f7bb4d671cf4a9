"""Pages with prices: what the edits of each finding would be worth, and what-if results beside the run."""

from collections.abc import Iterable, Sequence

from acl_py.causes.pages import on_page, parts_of
from acl_py.causes.path import Part
from acl_py.explain.prices import Priced
from acl_py.trace import page
from acl_py.trace.page import Run


def with_prices(run: Run, path: Iterable[Part], priced: Sequence[Priced], notes: Sequence[str]) -> Run:
    """Return *run* with its critical path, and with findings that have prices, behind those that it has; *notes* are
    those of the prices.
    """
    found = [*run.findings, *(_priced(each) for each in priced)]
    return run._replace(findings=found, critical=parts_of(path), notes=[*dict.fromkeys((*(run.notes or ()), *notes))])


def _priced(priced: Priced) -> page.Finding:
    found = on_page(priced.finding, "\n".join([f"{priced.finding.edit}. {priced.worth}", *priced.source]))
    return found if priced.answer is None else found._replace(worth_ns=priced.answer.gain_ns)
