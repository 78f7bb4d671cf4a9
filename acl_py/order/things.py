"""The things of a recording as the relation knows them: what stands for streams, events and contexts that are gone."""

from dataclasses import dataclass

from acl_py.order.clocks import PlainPoint
from device_model.rules import EventClass


@dataclass(eq=False, slots=True)
class RecordedContext:
    """A context on the *device* with this number, with its *legacy* stream if it has one."""

    device: int
    legacy: "RecordedStream | None" = None
    destroyed: None = None


@dataclass(eq=False, slots=True)
class RecordedStream:
    """A stream of *context*; if it *is_blocking* it is under the default-stream rule."""

    context: RecordedContext
    is_blocking: bool = False
    bound: None = None


@dataclass(eq=False, slots=True)
class RecordedEvent:
    """An event of a class; *stamp* is what its last record stands for."""

    class_: EventClass
    stamp: PlainPoint | None = None


@dataclass(frozen=True, slots=True)
class RecordedCommunicator:
    """The communicator of rank *index* of *size* ranks; *number* tells them from those of others."""

    index: int
    size: int
    number: int
