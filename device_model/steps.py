"""Steps: what a stream does itself in its turn, without an engine; levels that streams set and wait for; limits."""

from collections.abc import Callable, Generator, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from device_model.completions import Completion, FirstOf, Nanoseconds, Process
from device_model.errors import DeviceError, Kind
from device_model.scheduler import Scheduler

if TYPE_CHECKING:
    from device_model.streams import Stream


class Step(Process):
    """What a stream does itself in its turn: set a flag, wait until one is set, hand a callback to its subscriber."""

    __slots__ = ("hope", "site", "stream", "what")

    stream: "Stream"

    def __init__(
        self,
        stream: "Stream",
        what: str,
        site: object,
        course: Iterator[Completion],
        hope: Callable[[], Completion | None] | None,
    ) -> None:
        self.stream = stream
        self.hope = hope
        self.what = what
        self.site = site
        super().__init__(stream.scheduler, chain((stream.turn(),), course))

    def __repr__(self) -> str:
        at = f" submitted at {self.site}" if self.site is not None else ""
        return f"<{self.what} on {self.stream.name}{at}>"

    def complete(self, now: Nanoseconds) -> None:
        """It has had its turn."""
        self.stream.steps.pop(self, None)
        super().complete(now)


# Levels: flags that streams set, clear and wait for in their turn; and waits that have a limit.
#
# The courses of events here are for `Stream.step`.


class Level:
    """A flag that is set or not."""

    __slots__ = ("_raised", "is_set")

    def __init__(self) -> None:
        self.is_set = False
        self._raised = Completion()  # done when it is set next

    def raising(self, scheduler: Scheduler) -> Iterator[Completion]:
        """Set it: who waits may look."""
        self.is_set = True
        raised, self._raised = self._raised, Completion()
        raised.complete(scheduler.now)
        yield from ()

    def clearing(self) -> Iterator[Completion]:
        """Clear it."""
        self.is_set = False
        yield from ()

    def until_set(self, stream: "Stream", limit_ns: Nanoseconds, what: str) -> Generator[Completion, None, bool]:
        """Wait until it is set, as `until` does."""
        return until(lambda: self.is_set, lambda: self._raised, stream, limit_ns, what)


def until(
    is_so: Callable[[], bool],
    changed: Callable[[], Completion],
    stream: "Stream",
    limit_ns: Nanoseconds,
    what: str,
) -> Generator[Completion, None, bool]:
    """Wait until *is_so*, looking again at each *changed*; *limit_ns* at the longest (0: for ever), beyond which
    *stream* has failed and goes on. Returns whether it is so.
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
    """Wait for *completion*, *limit_ns* at the longest; then it is a failure of *stream*, which goes on."""
    timer = stream.scheduler.timer(stream.scheduler.now + limit_ns)
    either = FirstOf((completion, timer))
    try:
        yield either
    finally:
        stream.scheduler.cancel(timer)  # also if the stream is aborted: time is not to go on for its sake
    if either.first is not completion:
        error = DeviceError(
            Kind.OP_WAIT_TIMEOUT,
            f"{stream!r} has waited {limit_ns / 1e9:g} s for {what}",
            "see that what it waits for is done, or allow more with SetOpWaitTimeOut()",
        )
        stream.context.note_failure(stream, error)
        # The steps of a stream take turns, so the step that waits here is the first of those that are not over.
        device = stream.context.device
        device.call_hook(device.hooks.wait_timed_out, next(iter(stream.steps)), error)
