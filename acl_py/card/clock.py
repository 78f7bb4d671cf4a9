"""The clock of a run on a card: real time, in nanoseconds since the run began."""

from time import perf_counter_ns

from device_model.completions import Completion, Nanoseconds
from device_model.scheduler import Scheduler


class CardClock(Scheduler):
    """Real time since *began_ns* of Python's clock, with the timers of waits that have a limit."""

    __slots__ = ("began_ns",)

    def __init__(self, began_ns: Nanoseconds) -> None:
        self.began_ns = began_ns
        super().__init__()

    @property
    def now(self) -> Nanoseconds:
        """The time since the run began."""
        return perf_counter_ns() - self.began_ns

    @now.setter
    def now(self, _: Nanoseconds) -> None:
        """Real time is not set."""

    def _ring(self, timer: Completion) -> None:
        timer.complete(self.now)  # this clock's, not the time for which the timer was set

    def advance(self, until: Nanoseconds) -> None:  # noqa: ARG002 - it is now
        """Ring the timers whose time has come, and raise what a function of the user has raised meanwhile."""
        while self.heap and self.heap[0][0] <= self.now:
            self.step()
        if self.dirty:
            self.settle()
