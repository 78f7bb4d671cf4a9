"""Tasks with a host each: a call takes time of its own host only, and meanwhile the others go on.

A call takes its time in the middle of a verb, which is an ordinary function there and cannot await. So the coroutine of
such a task runs in a greenlet, which the task resumes. Where the call has to let time pass, the greenlet goes back to
its task, and this awaits the end of the call.

No host needs a clock of its own. The host that runs is always at the time of the loop's clock: all that others do
before that time is done, and nothing that they do later. A call lets the clock go on at once if nothing else can happen
up to its end, and otherwise waits for its end as for a device.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import copy_context
from types import CoroutineType, coroutine
from typing import Any, TypeVar

from acl_py.sites import hosted
from device_model.completions import Completion
from device_model.kernel.greenlets import getcurrent, greenlet

T = TypeVar("T")
Step = tuple[Callable[[Any], Any], Any]  # how a coroutine goes on, and with what


class OwnHost(greenlet):
    """Runs *program*, all that one host does."""

    def __init__(self, program: Coroutine[Any, Any, Any]) -> None:
        super().__init__(self._run)
        self.gr_context = copy_context()
        self._program = program

    def __repr__(self) -> str:
        return f"<OwnHost of {self._program!r}>"

    def _run(self) -> Any:
        return self._drive(self._program)

    def _drive(self, program: Coroutine[Any, Any, T]) -> T:
        """Run *program* to its end; the task awaits all that it awaits."""
        go_on, sent = program.send, None
        while True:
            try:
                awaited = go_on(sent)
            except StopIteration as end:
                result: T = end.value
                return result
            go_on, sent = self._suspend(program, awaited)

    def _suspend(self, program: Coroutine[Any, Any, Any], awaited: object) -> Step:
        assert self.parent is not None, f"{self!r} has no task to go back to"
        try:
            return program.send, self.parent.switch(awaited)
        except BaseException as error:  # what the task gets, its coroutine gets
            return program.throw, error

    def let_pass(self, end: Completion, wait: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Let others go on up to the *end* of a call; *wait* makes the coroutine that waits for it.

        A call goes on to its end. A task that is cancelled meanwhile learns of it when it next awaits something.
        """
        cancelled: asyncio.CancelledError | None = None
        while not end.done:
            try:
                self._drive(wait())
            except asyncio.CancelledError as error:
                cancelled = error
        task = asyncio.current_task()
        if cancelled is not None and task is not None:
            task.uncancel()
            task.cancel(*cancelled.args)


def current_host() -> OwnHost | None:
    """Return the host of the calling task, if it has one of its own."""
    here = getcurrent()
    return here if isinstance(here, OwnHost) else None


@coroutine
def on_own_host(program: Coroutine[Any, Any, T], swap: Callable[[], None]) -> Generator[Any, Any, T]:
    """Run *program* on a host of its own. *swap* is called when the host goes on, and when others do: it changes what
    this host remembers for what is remembered while another one runs.
    """
    host = OwnHost(program)
    task = asyncio.current_task()
    if task is not None and isinstance(program, CoroutineType):
        hosted[task] = program
    result: Any = _resume(host, swap, host.switch)
    while not host.dead:
        try:
            sent = yield result
        except BaseException as error:
            result = _resume(host, swap, host.throw, error)
        else:
            result = _resume(host, swap, host.switch, sent)
    returned: T = result
    return returned


def _resume(host: OwnHost, swap: Callable[[], None], go_on: Callable[..., Any], *args: Any) -> Any:
    """Let *host* go on; it comes back here when it awaits something, and at its end."""
    host.parent = getcurrent()
    swap()
    try:
        return go_on(*args)
    finally:
        swap()
