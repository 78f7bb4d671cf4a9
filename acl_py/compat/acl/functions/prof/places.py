"""Places in the work of streams: the times at which it reaches them, for marks and ranges.

A place takes no room in the stream and no time. It is where the work that was queued before ends.
"""

from dataclasses import dataclass

from acl_py.runtime.runtime import Runtime
from acl_py.sites import Site
from device_model.completions import Completion, Nanoseconds, Then
from device_model.streams import Stream


@dataclass(slots=True)
class Place:
    """The end of the work that *stream* has now."""

    stream: Stream
    behind: Completion
    made_ns: Nanoseconds

    @classmethod
    def here(cls, runtime: Runtime, stream: Stream) -> "Place":
        """Return the place behind all work that *stream* has now."""
        return cls(stream, stream.turn(), runtime.host_ns)

    @property
    def at_ns(self) -> Nanoseconds:
        """When the work reached it; only known when it has."""
        assert self.behind.done, f"{self!r} was not reached"
        return max(self.made_ns, self.behind.end_ns)


def tell(runtime: Runtime, name: str, begin: Place, end: Place, site: Site) -> None:
    """Tell of the time from *begin* to *end* as *name*, when the work of the stream has reached the end."""

    def reached() -> None:
        if runtime.hooks.marked is not None:
            runtime.hooks.marked(name, begin.at_ns, end.at_ns, site, begin.stream)

    if end.behind.done:
        reached()
    else:
        end.behind.add_waiter(Then(lambda _: reached()))
