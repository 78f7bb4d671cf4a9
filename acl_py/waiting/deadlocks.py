"""Deadlocks in words: what each task or thread waits for, what that waits for in turn, and what would break it.

`device_model.chains` says what waits for what, as data; the sentences are made here, for a DeadlockError, for the
warning before one, and for a wait that has reached its limit. A line of a chain has one place: where the operation, the
record or the wait was queued.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from acl_py.callers import Callers, current_caller
from acl_py.errors import DeadlockError
from acl_py.waiting.tasks import meetings
from device_model.chains import Chains, Link, Relation
from device_model.collectives import words
from device_model.completions import Completion, Need
from device_model.ops import Op
from device_model.steps import Step

# What stands behind the subject of a link; the next line is its cause.
_TEXTS = {
    Relation.WAITS: " waits for",
    Relation.SET_BY: " lasts until",
    Relation.NEEDS: ", but only after",
    Relation.MEETS: " has its turn, and waits for the other rank's part,",
    Relation.ALONE: " has its turn, and waits for ranks that will never take part",
    Relation.RUNS: " is running",
    Relation.NEXT: " is next in its hardware queue and waits for its engine",
    Relation.NEVER: ": nothing queued or running can end this wait",
    Relation.CLOSES: ", which closes the circle",
}


class Waiting:
    """Who waits for what: *what* says it in words; None is an `await` of the completion, whose words cost more to make
    than the wait. *callers* has the name of the calling task or thread.
    """

    __slots__ = ("caller", "callers", "completion", "site", "what")

    def __init__(self, callers: Callers, what: str | None, completion: Completion, site: object) -> None:
        self.callers = callers
        self.caller = current_caller()
        self.what = what
        self.completion = completion
        self.site = site

    def __str__(self) -> str:
        what = f"waits for {_subject(self.completion)}" if self.what is None else self.what
        at = f" at {self.site}" if self.site is not None else ""
        return f"{self.callers.name(self.caller)}: {what}{at}"


# A poll that fails is one of thousands; only the last need say what it asked.
Poll = Callable[[], Waiting]


def lines(links: Sequence[Link]) -> list[str]:
    """Return a line for each of *links*: what waits, and how; the next line says for what."""
    return [_line(link) for link in links]


def _line(link: Link) -> str:
    subject = link.subject
    name = _subject(subject)
    if link.relation is Relation.CUT:
        return "... and so on"
    if link.relation is Relation.BEHIND:
        assert isinstance(subject, Op), f"{link!r} is in no hardware queue"
        return f"{name} stands behind another stream's work in hardware queue {subject.queue.index}"
    if link.skipped:
        return f"{name} waits, with {link.skipped} more of its stream, for"
    return name + _TEXTS[link.relation]


def _subject(completion: Completion) -> str:
    """Name *completion*: what it is, its stream, and the line that queued it."""
    if isinstance(completion, Need):
        return completion.what
    if not isinstance(completion, Op | Step):
        return repr(completion).removeprefix("<").removesuffix(">")
    what = completion.what if isinstance(completion, Step) else str(completion.work.label)
    place = f" ({completion.site})" if completion.site is not None else ""
    return f"{what} on {completion.stream.name}{place}"


def describe(waiters: Mapping[Any, Waiting], chains: Chains, callers: Callers, *, held: bool) -> str:
    """Say what each of *waiters* waits for, with its chain; *held* if simulated time is held.

    *callers* has the names of tasks.
    """
    why = (
        "simulated time is held, so that nothing scheduled on a device can happen"
        if held
        else "nothing is scheduled on a device"
    )
    report = [f"no task or thread can run, and {why}"]
    for waiting in waiters.values():
        report += [f"  {waiting}", *(f"    {line}" for line in lines(chains.of(waiting.completion)))]
    for clique in chains.cliques:
        report += [f"  {line}" for line in words.lines(clique)]
    report += [f"  {meeting}" for meeting in meetings(waiters, callers)]
    if len(report) > 1:
        report[0] += "; these wait:"
    return "\n".join(report)


def error(
    waiting: Waiting | Poll | None, waiters: Mapping[Any, Waiting], chains: Chains, callers: Callers, *, held: bool
) -> DeadlockError:
    """Return the error for one of *waiters* in a program that hangs, or for a poll that can never end."""
    if callable(waiting):
        waiting = waiting()
    head = "this poll can never end" if waiting is None else f"{waiting} can never end"
    links = [] if waiting is None else chains.of(waiting.completion)
    remedy = words.remedy(chains.cliques) or _remedy(links, held=held)
    text = f"{head}\n{describe(waiters, chains, callers, held=held)}\nto break it: {remedy}"
    made = DeadlockError(text, tuple(lines(links)))
    made.links = tuple(links)
    return made


def describe_tasks(callers: Callers) -> str:
    """Say what each task waits for in a program in which none waits for a device; "" if no line of the user waits."""
    return _report(tuple(meetings((), callers)))


def of_tasks(callers: Callers) -> DeadlockError:
    """Return the error for a program whose tasks all wait for one another, and for no device."""
    waits = tuple(meetings((), callers))
    return DeadlockError(f"{_report(waits)}\nto break it: {_remedy((), held=False)}", waits)


def _report(waits: Sequence[str]) -> str:
    head = "no task or thread can run, no timer is set, and nothing is scheduled on a device; these wait:"
    return "\n".join([head, *(f"  {wait}" for wait in waits)]) if waits else ""


def _remedy(links: Sequence[Link], *, held: bool) -> str:
    if held:
        return "leave the hold() before a task has to wait for the device"
    last = links[-1] if links else None
    if last is not None and last.relation is Relation.CLOSES:
        waits = (f"the {_subject(link.subject)}" for link in links if link.relation is Relation.SET_BY)
        return f"take out {next(waits, 'one of these')}, or let what it waits for happen once before it is queued"
    if last is not None and last.subject.remedy:
        return last.subject.remedy
    return "let one of them go on, or limit its wait (SynchronizeStreamWithTimeout, asyncio.timeout)"
