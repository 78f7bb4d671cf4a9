"""acl.rt: events. Argument orders are the binding's: record_event(event, stream), stream_wait_event(stream, event)."""

import acl_py as native
from acl_py.compat.acl.face.binding import gives, runs
from acl_py.compat.acl.face.lookups import Running, end
from acl_py.compat.acl.face.session import NOT_SUPPORTED, Session
from device_model.rules import EventClass

_COMPLETE, _NOT_READY = 0, 1
_RECORDED, _NOT_RECORDED = 1, 0  # of query_event_status, which swaps the two


@gives("")
def create_event(here: Session) -> int:
    """Create an event; a stream can wait for it once it has been recorded."""
    return here.handle(here.run(native.CreateEvent()))


@gives("u")
def create_event_with_flag(here: Session, flag: int) -> int:
    """Create a level-flag event."""
    return here.handle(here.run(native.CreateEventWithFlag(flag)))


@gives("u")
def create_event_ex_with_flag(here: Session, flag: int) -> int:
    """Create a snapshot event."""
    return here.handle(here.run(native.CreateEventExWithFlag(flag)))


@runs("k")
def destroy_event(here: Session, handle: int) -> Running:
    """Destroy an event; streams that wait for it go on waiting."""
    return end(here, native.DestroyEvent, here.events, handle)


@runs("kk")
def record_event(here: Session, event: int, stream: int) -> Running:
    """Record an event in a stream."""
    return native.RecordEvent(here.events[event], here.streams[stream])


@runs("kk")
def stream_wait_event(here: Session, stream: int, event: int) -> Running:
    """Let a stream wait for an event."""
    return native.StreamWaitEvent(here.streams[stream], here.events[event])


@runs("kk")
def reset_event(here: Session, event: int, stream: int) -> Running:
    """Clear an event's flag in a stream."""
    return native.ResetEvent(here.events[event], here.streams[stream])


@gives("k")
def query_event(here: Session, handle: int) -> int:
    """Return whether the last record has taken place: 0 yes, or there was none; 1 no. Not for snapshot events."""
    event = here.events[handle]
    if event.class_ is EventClass.SNAPSHOT and len(here.runtime.rules.events) > 1:
        raise here.error(NOT_SUPPORTED, "query_event is not for events of create_event_ex_with_flag")
    if event.work is None and event.destroyed is None:
        return _COMPLETE
    return _COMPLETE if here.run(native.QueryEventStatus(event)) is native.Status.COMPLETE else _NOT_READY


@gives("k")
def query_event_status(here: Session, handle: int) -> int:
    """Return whether the last record has taken place: 1 yes, 0 no (query_event returns the opposite)."""
    status = here.run(native.QueryEventStatus(here.events[handle]))
    return _RECORDED if status is native.Status.COMPLETE else _NOT_RECORDED


@gives("k")
def query_event_wait_status(here: Session, handle: int) -> int:
    """Return whether all waits for an event have ended: 0 yes, 1 no."""
    status = here.run(native.QueryEventWaitStatus(here.events[handle]))
    return _COMPLETE if status is native.Status.COMPLETE else _NOT_READY


@runs("k")
def synchronize_event(here: Session, handle: int) -> Running:
    """Wait for the last record of an event."""
    return native.SynchronizeEvent(here.events[handle])


@runs("ki")
def synchronize_event_with_timeout(here: Session, handle: int, timeout: int) -> Running:
    """Wait for the last record of an event for at most *timeout* milliseconds."""
    return native.SynchronizeEventWithTimeout(here.events[handle], timeout)


@gives("kk", failure=0.0)
def event_elapsed_time(here: Session, start: int, end: int) -> float:
    """Return the milliseconds between the records of two events."""
    elapsed: float = here.run(native.EventElapsedTime(here.events[start], here.events[end]))
    return elapsed


@gives("k")
def event_get_timestamp(here: Session, handle: int) -> int:
    """Return the time of the last record, in microseconds."""
    time: int = here.run(native.GetEventTimestamp(here.events[handle]))
    return time


@gives("k")
def get_event_id(here: Session, handle: int) -> int:
    """Return the number of an event."""
    return here.events[handle].id


@gives("")
def get_event_avail_num(here: Session) -> int:
    """Return how many event ids the device has left."""
    available: int = here.run(native.GetEventAvailNum())
    return available
