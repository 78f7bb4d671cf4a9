"""Acts: what a call has done, as one small record for each kind of thing that a call can do.

A verb gives its act to the observers when it is over (`Runtime.called`), and a recording keeps it. So code that asks
what a call means matches on the class of its act, and not on the name of the verb.

H is what stands for a thing. Live, that is the object itself: a stream, an event, an allocation, the work of a copy. In
a recording it is the plain row (`Ref`, `Extent`, `Copied` ... of acl_py.trace.rows). The records are tuples, so they
are quick to make, can be keys, and are never changed. Times are no part of an act.
"""

from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, get_args

H = TypeVar("H")
_A = TypeVar("_A")


class Word(NamedTuple, Generic[H]):
    """Eight bytes of *memory*, from *offset* on, as a signal."""

    memory: H
    offset: int


class Queued(NamedTuple, Generic[H]):
    """*work* was queued in *stream*: a copy, a fill, a kernel, a prefetch or a host function.

    Most calls that queue have no act: `op_queued` tells observers of them. This one is of calls that do more, such as
    to stage pageable memory, and of calls that were captured. In a recording *work* is None where a row of an operation
    has the facts.
    """

    work: H | None
    stream: H


class Batched(NamedTuple, Generic[H]):
    """All of *work*, copies, was queued in *stream*, in this order; each copy has an operation of its own."""

    work: tuple[H, ...]
    stream: H


class Joined(NamedTuple, Generic[H]):
    """Ranks take part in collectives: each of *work*, a call of the rank that one of *communicators* is for, was queued
    in one of *streams*. Sends and Recvs of one rank in one stream are one operation.
    """

    work: tuple[H, ...]
    communicators: tuple[H, ...]
    streams: tuple[H, ...]


class Completed(NamedTuple, Generic[H]):
    """The host has made *work*, a copy or a fill, and waited for its end; None is a copy of no bytes."""

    work: H | None


class Recorded(NamedTuple, Generic[H]):
    """*event* was recorded in *stream*; an *external* record in a capture is made by each launch."""

    event: H
    stream: H
    external: int | None = None


class Waited(NamedTuple, Generic[H]):
    """*stream* was put behind *event*; an *external* wait in a capture is made by each launch."""

    event: H
    stream: H
    external: int | None = None


class Set(NamedTuple, Generic[H]):
    """*stream* sets *signal*: a notify, or a word of memory, which gets *value*."""

    signal: "H | Word[H]"
    value: int | None
    stream: H


class Cleared(NamedTuple, Generic[H]):
    """*stream* clears *signal*, the flag of an event."""

    signal: H
    stream: H


class Awaited(NamedTuple, Generic[H]):
    """*stream* waits for *signal*. That is a notify, which it takes, for *limit_s* at most (0: without a limit); or a
    word of memory that *compare*, a member of `Compare`, finds right against *value*.
    """

    signal: "H | Word[H]"
    value: int | None
    compare: int | None
    stream: H
    limit_s: int | None = None


class HandedOver(NamedTuple, Generic[H]):
    """*stream* hands a callback over to its subscriber; it waits for the end of the callback if that is to *block*."""

    stream: H
    block: int


class CallbackBegan(NamedTuple, Generic[H]):
    """The host has waited for a callback, *limit_ms* at most (-1: without a limit), and took one of *stream*; None if
    none came.
    """

    limit_ms: int
    stream: H | None = None


class CallbackEnded(NamedTuple, Generic[H]):
    """The callback that the host took from *stream* is over; *block* is that of `HandedOver`."""

    stream: H
    block: int


class Synchronised(NamedTuple, Generic[H]):
    """The host has waited for all work of *subject*, a stream, an event or a context, for *limit_ms* at most. None
    stands for no limit, and a subject of None for what the program awaited.
    """

    subject: H | None = None
    limit_ms: int | None = None


class Asked(NamedTuple, Generic[H]):
    """The host has asked about *subject*; *answer* is whether its work was done, None for other questions.

    *of_waits* is 1 for a question about the waits for an event, which says nothing of its record.
    """

    subject: H
    answer: int | None = None
    of_waits: int | None = None


class Began(NamedTuple, Generic[H]):
    """The life of *memory* began: at once, or behind the work of *stream*."""

    memory: H
    stream: H | None = None


class Ended(NamedTuple, Generic[H]):
    """The life of *memory* ended: at once, or behind the work of *stream*."""

    memory: H
    stream: H | None = None


class Made(NamedTuple, Generic[H]):
    """*thing* was made: a stream, an event, a notify, a context, a graph, an executable or a communicator.

    *source* is the graph that it was made from, *parts* are the graphs of the IF nodes that came with it, or the
    communicators of further ranks.
    """

    source: H | None
    thing: H
    parts: tuple[H, ...] = ()
    flags: int | None = None


class Destroyed(NamedTuple, Generic[H]):
    """*thing* was destroyed, of a device all that it had; what was queued in it was dropped if that was *forced*."""

    thing: H
    forced: int | None = None


class NodeAdded(NamedTuple, Generic[H]):
    """*graph* got a node behind those with the numbers *behind*: an empty one; one that does what *child* does; or an
    IF node, whose condition is *default* at first. *bodies* are the graphs that came with it.
    """

    graph: H
    child: H | None
    default: int | None
    bodies: tuple[H, ...]
    behind: tuple[int, ...]


class CaptureBegan(NamedTuple, Generic[H]):
    """*stream* captures into *graph* from now on, behind the nodes with the numbers *behind*."""

    stream: H
    mode: int
    graph: H
    behind: tuple[int, ...]


class CaptureEnded(NamedTuple, Generic[H]):
    """The capture that began on *stream* is over, and *graph* is whole."""

    stream: H
    graph: H


class GraphLaunched(NamedTuple, Generic[H]):
    """All work of *executable* was queued in *stream*."""

    executable: H
    stream: H


class GraphUpdated(NamedTuple, Generic[H]):
    """*executable* does the work of *graph* from its next launch on."""

    executable: H
    graph: H


class Slept(NamedTuple):
    """The calling task or thread rested, or was busy, for a time."""


class Plain(NamedTuple, Generic[H]):
    """The call did nothing that orders, makes or ends anything; *about* is what it named."""

    about: tuple[H, ...] = ()


Act: TypeAlias = (
    Queued[H] | Batched[H] | Joined[H] | Completed[H] | Recorded[H] | Waited[H] | Set[H] | Cleared[H] | Awaited[H]
    | HandedOver[H] | CallbackBegan[H] | CallbackEnded[H] | Synchronised[H] | Asked[H] | Began[H] | Ended[H] | Made[H]
    | Destroyed[H] | NodeAdded[H] | CaptureBegan[H] | CaptureEnded[H] | GraphLaunched[H] | GraphUpdated[H] | Slept
    | Plain[H]
)  # fmt: skip

KINDS: dict[str, Any] = {kind.__name__: kind for kind in (getattr(each, "__origin__", each) for each in get_args(Act))}
SLEPT = Slept()
PLAIN: Plain[Any] = Plain()


def leaves(act: "Act[Any] | tuple[Any, ...]") -> Iterator[Any]:
    """Yield what *act* names, in the order of its fields, without those that are None."""
    for each in act:
        if type(each) is tuple or type(each) is Word:
            yield from leaves(each)
        elif each is not None:
            yield each


def mapped(act: _A, function: Callable[[Any], Any]) -> _A:
    """Return *act* with what *function* gives for each thing that it names."""
    fields: Any = act
    values = [mapped(each, function) if type(each) in (tuple, Word) else function(each) for each in fields]
    return tuple(values) if type(act) is tuple else fields._make(values)  # type: ignore[return-value]
