"""Steps: what a stream does itself in its turn, without an engine; levels that streams set and wait for; limits."""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from device_model.completions import Completion, Nanoseconds, Process

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
