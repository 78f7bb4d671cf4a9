"""Steps: entries in a stream that take no engine; level flags that streams set and wait for; waits with a limit.

A `Step` starts when all earlier work of its stream is done, and the work queued after it waits for its end. So a flag
that is set, a wait for a flag and a callback that is handed to its subscriber keep their order with the operations of
the stream, and take no time on any engine. What a step does is a generator of the completions that it waits for:

    stream.step(StepKind.RECORD, "event 3", "record of event 3", site, level.raising(scheduler))

The generators in this module are made for `Stream.step`.
"""

from collections.abc import Callable, Generator, Iterator
from enum import Enum
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from device_model.completions import Completion, FirstOf, Nanoseconds, Process
from device_model.errors import DeviceError, Kind
from device_model.scheduler import Scheduler

if TYPE_CHECKING:
    from device_model.streams import Stream


class StepKind(Enum):
    """What a step does; the values are the kinds of `StreamStep` in a trace."""

    RECORD = "record"
    WAIT = "wait"
    RESET = "reset"
    NOTIFY = "notify"
    NOTIFY_WAIT = "notify_wait"
    VALUE = "value"
    VALUE_WAIT = "value_wait"
    CALLBACK = "callback"
    UPDATE = "update"


class Step(Process):
    """An entry in a stream that takes no engine: it sets a flag, waits for one, hands over a callback, changes a graph.

    *kind* is what it does, and *name* that of its event, notify, allocation, function or task group.
    """

    __slots__ = ("hope", "kind", "name", "queued_ns", "remedy", "site", "stream", "what")

    stream: "Stream"

    def __init__(
        self,
        stream: "Stream",
        kind: StepKind,
        name: str,
        what: str,
        site: object,
        generator: Iterator[Completion],
        hope: Callable[[], Completion | None] | None,
        remedy: str,
    ) -> None:
        self.remedy = remedy
        self.stream = stream
        self.hope = hope
        self.kind = kind
        self.name = name
        self.what = what
        self.site = site
        self.queued_ns = stream.scheduler.now
        super().__init__(stream.scheduler, chain((stream.turn(),), generator))

    def __repr__(self) -> str:
        at = f" submitted at {self.site}" if self.site is not None else ""
        return f"<{self.what} on {self.stream.name}{at}>"

    def complete(self, now: Nanoseconds) -> None:
        """Mark this as done, and take it off the list of its stream."""
        self.stream.steps.pop(self, None)
        super().complete(now)


class Turn(NamedTuple):
    """The turn of a *step*: all work before it in its stream is done."""

    step: Step


class Level:
    """A flag that stays set until it is cleared."""

    __slots__ = ("_raised", "is_set")

    def __init__(self) -> None:
        self.is_set = False
        self._raised = Completion()  # done when the flag is set next

    def raising(self, scheduler: Scheduler) -> Iterator[Completion]:
        """Set the flag, and release the steps that wait for it."""
        self.is_set = True
        raised, self._raised = self._raised, Completion()
        raised.complete(scheduler.now)
        yield from ()

    def clearing(self) -> Iterator[Completion]:
        """Clear the flag."""
        self.is_set = False
        yield from ()

    def until_set(self, stream: "Stream", limit_ns: Nanoseconds, what: str) -> Generator[Completion, None, bool]:
        """Wait until the flag is set, in the way of `until`."""
        return until(lambda: self.is_set, lambda: self._raised, stream, limit_ns, what)


def until(
    is_so: Callable[[], bool],
    changed: Callable[[], Completion],
    stream: "Stream",
    limit_ns: Nanoseconds,
    what: str,
) -> Generator[Completion, None, bool]:
    """Wait until *is_so* returns true, and look again each time that the completion *changed()* is done.

    After *limit_ns* (0: no limit) the wait ends: *stream* has failed, and goes on with its next work. *what* names the
    awaited thing in the error. Returns whether *is_so* became true.
    """
    scheduler = stream.scheduler
    end_ns = scheduler.now + limit_ns
    while not is_so():
        if not limit_ns:
            yield changed()
        elif scheduler.now >= end_ns:
            return False
        else:
            yield from within(stream, changed(), end_ns - scheduler.now, what)
    return True


def within(stream: "Stream", completion: Completion, limit_ns: Nanoseconds, what: str) -> Iterator[Completion]:
    """Wait for *completion*. After *limit_ns* the wait ends: *stream* has failed, and goes on with its next work."""
    timer = stream.scheduler.timer(stream.scheduler.now + limit_ns)
    either = FirstOf((completion, timer))
    try:
        yield either
    finally:
        # Also if the stream is aborted: simulated time must not go on only to reach this timer.
        stream.scheduler.cancel(timer)
    if either.first is not completion:
        error = DeviceError(
            Kind.OP_WAIT_TIMEOUT,
            f"{stream!r} has waited {limit_ns / 1e9:g} s for {what}",
            "make sure that it is signalled in time, or allow more time with SetOpWaitTimeOut()",
        )
        stream.context.note_failure(stream, error)
        # The steps of a stream take turns, so the step that waits here is the first of those that are not over.
        device = stream.context.device
        device.call_hook(device.hooks.wait_timed_out, next(iter(stream.steps)), error)


def recording(name: str) -> str:
    """Return what breaks a deadlock at a wait for *name*, an event or a notify."""
    return f"record {name}, in a stream that does not wait itself"
