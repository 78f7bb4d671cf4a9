"""The hosts of a recording, and what they handed one another: rows of a `Timeline`, as those in timeline.py."""

from typing import NamedTuple


class Caller(NamedTuple):
    """The task or thread called *name*; *by* tells those of one name apart, as in `Call`."""

    name: str
    by: int


class Host(NamedTuple):
    """A host: a task that knows what it was handed or has waited for, or threads that count as one, and know the same.

    The main thread and its first task are one host. One whose *callers* are () has made no call.
    """

    callers: tuple[Caller, ...]


class Handover(NamedTuple):
    """What one host knew, and had done, came to another one: it was given *given_ns*, and taken at *at_ns*.

    *giver* and *taker* are places in `Timeline.hosts`. If *giver* is None, the host function with index *after* has
    given what was over when it ran; None for one that has not ended. What was given is all that its giver did and knew
    by then: behind the call *given_behind*, as in `Access`, the access *given_since*, which is the last one by then,
    and the handover *given_taken*, which is the last one that any host had taken; None if there was none. It was taken
    behind *behind* and *since*. If it is not *seen*, it is taken for granted: what threads tell one another is not
    seen, so their calls count as ordered as they were made.

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
