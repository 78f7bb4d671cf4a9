"""Texts that notebooks print: reports, prices of waits, findings of the sanitizer, verdicts on exercises."""

from acl_py.explain.cases import EditError
from acl_py.explain.prices import prices
from acl_py.explain.recordings import asker_of
from acl_py.findings import drop
from acl_py.sanitizer.reports import details
from acl_py.simulation import Simulation
from acl_py.tools.explanation import Explanation, View
from acl_py.trace import Trace


def price(trace: Trace) -> None:
    """Print each implicit wait of a run that has ended: its line, how long it lasted, and what its edit is worth.

    The worth is the time of the same program, run again with this one edit. What a wait held up is often less, because
    other work may hide it.
    """
    timeline = trace.timeline()
    try:
        priced = prices(asker_of(timeline, "the run"), timeline)
    except EditError as error:
        print(f"no price: {error}")
        return
    for each in priced:
        print(each.text)
    if not priced:
        print("Nothing waited without being asked to.")


def report(trace: Trace, *, top: int = 5) -> None:
    """Print what `acl-py report` says of a run that has ended: its critical path by line, which of its waits are not
    needed, and what else it could do without, each with its price. At most *top* lines of each.

    Advice about waits needs a run with `sanitize="all"`, because only then does the trace have what the host touches.
    """
    timeline = trace.timeline()
    try:
        asker = asker_of(timeline, "the run")
    except EditError as error:
        print(f"no prices: {error}")
        asker = None
    print(Explanation(timeline, asker, View(most=top)).text)


def findings(sim: Simulation) -> None:
    """Print what the sanitizer found in *sim*, each with its lines, the missing order and the fix.

    A notebook shows findings that were not printed behind the cell that made them.
    """
    found = sim.findings
    for finding in found:
        print(*details(finding), sep="\n")
    drop(found)
    if not found:
        print("The sanitizer found nothing.")


def exercise(solved: bool, text: str) -> None:
    """Print the verdict on an exercise, with *text*: what came out."""
    global _is_solved
    _is_solved = bool(solved)
    print(f"{'solved' if solved else 'not yet'}: {text}")


def is_solved() -> bool:
    """Return the verdict on the exercise that was checked last; False if there is none."""
    return _is_solved


_is_solved = False
