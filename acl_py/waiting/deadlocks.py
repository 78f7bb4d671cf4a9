"""Deadlocks in words: who waits for what, what that waits for in turn, line by line, and what would break it."""

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from acl_py.errors import DeadlockError
from acl_py.waiting.tasks import meetings
from device_model.chains import Chains
from device_model.completions import Completion

# What the last link of a chain says, and what would help there.
_REMEDIES = (
    ("fault rule", "remove the fault rule, or ResetDevice()"),
    ("wait for Event", "record that event, in a stream that does not wait itself"),
    ("wait for Notify", "record that notify, in a stream that does not wait itself"),
    ("wait for the word", "write that word, from a stream that does not wait itself"),
    ("<callback", "let the stream's subscriber call ProcessReport()"),
    ("a callback is due", "queue one with LaunchCallback(), or let ProcessReport() wait no longer than it must"),
    ("ids is free", "destroy what is not needed any more, or let the work end that has the others"),
)


class Waiting:
    """Who waits for what: *what* says it in words; None is an `await` of the completion, whose words cost more to make
    than the wait.
    """

    __slots__ = ("completion", "site", "what", "who")

    def __init__(self, what: str | None, completion: Completion, site: object) -> None:
        self.what = what
        self.completion = completion
        self.site = site
        self.who = _caller()

    def __str__(self) -> str:
        what = f"waits for {self.completion!r}" if self.what is None else self.what
        return f"{self.who}: {what} at {self.site}"


# A poll that fails is one of thousands; only the last need say what it asked.
Poll = Callable[[], Waiting]


def _caller() -> str:
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    if task is not None:
        return f"task {task.get_name()}"
    thread = threading.current_thread()
    return "the program" if thread is threading.main_thread() else f"thread {thread.name}"


def describe(waiters: Mapping[Any, Waiting], chains: Chains, *, held: bool) -> str:
    """Who waits for what, with the chain of each; simulated time may be *held*."""
    why = (
        "simulated time is held, so what is scheduled on a device cannot come"
        if held
        else "nothing is scheduled on a device"
    )
    lines = [f"nobody can run, and {why}"]
    for waiting in waiters.values():
        lines += [f"  {waiting}", *(f"    {line}" for line in chains.of(waiting.completion))]
    lines += [f"  {meeting}" for meeting in meetings(waiters)]
    if len(lines) > 1:
        lines[0] += "; waiting are:"
    return "\n".join(lines)


def error(
    waiting: Waiting | Poll | None, waiters: Mapping[Any, Waiting], chains: Chains, *, held: bool
) -> DeadlockError:
    """The error for one waiter of a program that hangs, or for one who polls."""
    if callable(waiting):
        waiting = waiting()
    head = "this poll can never end" if waiting is None else f"{waiting} can never end"
    chain = [] if waiting is None else chains.of(waiting.completion)
    text = f"{head}\n{describe(waiters, chains, held=held)}\nto break it: {_remedy(chain, held=held)}"
    return DeadlockError(text, tuple(chain))


def _remedy(chain: Sequence[str], *, held: bool) -> str:
    if held:
        return "leave the hold() before anybody has to wait for the device"
    last = chain[-1] if chain else ""
    if last.endswith(Chains.ROUND):
        wait = next((line.removesuffix(Chains.UNTIL) for line in chain if line.endswith(Chains.UNTIL)), "one of these")
        return f"take out {wait}, or let what it waits for come once before all this"
    for sign, remedy in _REMEDIES:
        if sign in last:
            return remedy
    return "let one of them go on, or limit its wait (SynchronizeStreamWithTimeout, asyncio.timeout)"
