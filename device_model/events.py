"""Events: a record remembers what its stream was given up to then; waiting, querying and timing look at that."""

from typing import TYPE_CHECKING

from device_model.scheduler import Completion, Nanoseconds

if TYPE_CHECKING:
    from device_model.contexts import Context
    from device_model.streams import Stream


class Event:
    """A snapshot event (CUDA's): the last record counts, and who waited before keeps what the event stood for then."""

    __slots__ = ("context", "destroyed", "home", "id", "made", "recorded_ns", "timing", "work")

    def __init__(self, context: "Context", id_: int, *, timing: bool, made: object) -> None:
        self.context = context
        self.home: Context | None = context  # where it can be used without further questions; None once it is destroyed
        self.id = id_
        self.timing = timing
        self.made = made
        self.destroyed: object = None  # the line that destroyed it
        self.work: Completion | None = None  # what the last record stands for
        self.recorded_ns: Nanoseconds = -1

    def __repr__(self) -> str:
        if self.destroyed is not None:
            state = f" destroyed at {self.destroyed}"
        elif self.work is None:
            state = " never recorded"
        else:
            state = "" if self.work.done else " pending"
        made = f" made at {self.made}" if self.made is not None else ""
        return f"<Event {self.id}{made}{state}>"

    @property
    def done(self) -> bool:
        """Is all that the last record stands for complete? So it is when there was no record."""
        return self.work is None or self.work.done

    def destroy(self, site: object) -> None:
        """It cannot be used any more; who waits for it goes on waiting."""
        self.destroyed = site
        self.home = None

    def record(self, stream: "Stream") -> Completion:
        """Stand for all that *stream* was given up to now."""
        self.work = stream.mark()
        self.recorded_ns = stream.scheduler.now
        return self.work

    def timestamp_ns(self) -> Nanoseconds:
        """When the record took place on the device: it was made, and what it stands for had completed."""
        assert self.work is not None, f"{self!r} has no time"
        assert self.work.done, f"{self!r} has no time yet"
        return max(self.recorded_ns, self.work.end_ns)
