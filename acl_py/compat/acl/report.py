"""The summary of a session: its times, what is not simulated, what failed, and what was never given back."""

from collections.abc import Iterable

from acl_py.compat.acl.face.failed_calls import printable
from acl_py.compat.acl.face.handles import word_for
from acl_py.compat.acl.face.options import brought_in
from acl_py.compat.acl.face.session import OwnSession, Session
from acl_py.findings import Findings
from acl_py.runtime.leaks import Leaked
from acl_py.sanitizer.finding_texts import HANDLES
from acl_py.sanitizer.leaks import UNLISTED
from acl_py.trace.views.summary import SYNCHRONISATIONS, leak_lines, summarize
from acl_py.wording import reword
from device_model.contexts import Context
from device_model.errors import DeviceError
from device_model.faults import Rule
from device_model.memory import Physical
from device_model.streams import Stream

_WAITS = (*SYNCHRONISATIONS, "acl.")  # the functions that wait within their call
_LOST = "leaks are not listed, because a context was lost: nothing in it can be freed or destroyed"


def report(session: Session) -> str:
    """Return the summary of *session*: simulated time, engines, streams, waits, findings, code, failures, leaks.

    If a report of the sanitizer follows, it has the findings, and the leaks if the sanitizer looks for them.
    """
    found = session.runtime.state(Findings)
    mistakes = () if found.is_quiet else found
    lines = [reword(summarize(session.runtime, session.trace, mistakes, (), _WAITS), session.words)]
    lines += [f"  finding: {finding}" for finding in findings(session)]
    lines += [f"  code: {printable(line)}" for line in brought_in]
    lines += [f"  fault rule: {rule.text}: struck {rule.struck} of {rule.seen}" for rule in _rules(session)]
    lines += session.failures.lines()
    return "\n".join([*lines, *_leak_lines(session)])


def _rules(session: Session) -> Iterable[Rule]:
    return session.fault_rules if isinstance(session, OwnSession) else ()


def _leak_lines(session: Session) -> Iterable[str]:
    """Return the lines about leaks that the report of the sanitizer will not have; one line if nothing can be freed."""
    sanitizer = session.runtime.sanitizer
    in_findings = session.runtime.state(Findings).is_quiet and sanitizer is not None and sanitizer.leaks is not None
    found = _unwatched(session) if in_findings else leaks(session)
    if found and session.trace is not None and session.trace.error:
        return [] if in_findings else [f"  {UNLISTED}"]
    if found and _lost(session):
        return [f"  {_LOST}"]
    return leak_lines(found)


def _lost(session: Session) -> bool:
    """Whether the failure of an operation has lost a context."""
    return any(context.failed_op is not None for device in session.runtime.devices for context in device.contexts)


def findings(session: Session) -> list[str]:
    """Return a line for each finding: functions that are not simulated, and mistakes that a card would let pass."""
    return [
        *(f"{function} is not simulated: it returned {code}" for function, code in session.unsupported.items()),
        *session.warned,
    ]


def leaks(session: Session) -> list[str]:
    """Return a line for each kind of leak and each line of code that made it: memory, also memory that a reset had to
    free, and handles.
    """
    memory = session.runtime.memory
    leaked = Leaked()
    for allocation in (*memory.leaks(), *memory.left_to_reset):
        leaked.add_memory(allocation)
    return leaked.lines() + _handles(session.objects.values())


def _unwatched(session: Session) -> list[str]:
    """Return the lines of `leaks` for the objects that the sanitizer does not look at."""
    return _handles(thing for thing in session.objects.values() if not isinstance(thing, tuple(HANDLES)))


def _handles(things: Iterable[object]) -> list[str]:
    """Return a line for each kind of *things* that the script has to end and did not."""
    leaked = Leaked()
    for thing in things:
        if ending := _ending(thing):
            leaked.add(word_for(type(thing)), ending, getattr(thing, "made", None))
    return leaked.lines()


def _ending(thing: object) -> str | None:
    """Return the word for what the script still has to do with *thing*; None if there is nothing."""
    if getattr(thing, "destroyed", None) is not None:  # by a native verb, which does not end handles
        return None
    if isinstance(thing, Context):
        return None if thing.primary else "destroyed"
    if isinstance(thing, Stream):
        return None if thing is thing.context.default else "destroyed"
    if isinstance(thing, DeviceError):
        return None
    return "freed" if isinstance(thing, Physical) else getattr(thing, "ending", "destroyed")
