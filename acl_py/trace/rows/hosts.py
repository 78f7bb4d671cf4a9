"""The hosts of a recording, and what they handed one another: rows of a `Timeline`, as those in timeline.py."""

from typing import NamedTuple


class Caller(NamedTuple):
    """The task or thread called *name*; *by* tells those of one name apart, as in `Call`."""

    name: str
    by: int


class Host(NamedTuple):
    """A host: a task, or several threads that count as one.

    The main thread and its first task are one host. A host whose *callers* are () has made no call.
    """

    callers: tuple[Caller, ...]


class Handover(NamedTuple):
    """One host handed over what it knew at *given_ns*, and another host took it at *at_ns*.

    *giver* and *taker* are places in `Timeline.hosts`. Without a *giver* it was the host function with index *after*,
    which handed over what was over when it ran; *after* is None if it has not ended.

    A giver hands over all that it has done and learned so far. Three numbers say how far that is: *given_behind* is its
    last call (as in `Access`), *given_since* the last access of the host's memory, and *given_taken* the last handover
    that any host had taken. Each is None if there was none. The taker had *behind* and *since* behind it.

    *seen* is false where a handover is assumed: threads can tell one another what no observer sees, so their calls
    count as ordered as they were made.

    Handovers are in the order in which they were taken. One that tells nothing new has no row.
    """

    given_ns: int
    given_behind: int | None
    given_since: int | None
    given_taken: int | None
    giver: int | None
    after: int | None
    at_ns: int
    behind: int | None
    since: int | None
    taker: int
    seen: bool = True
