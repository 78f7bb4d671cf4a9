"""acl.rt: events. Argument orders are the binding's: record_event(event, stream), stream_wait_event(stream, event)."""

from typing import Any

import acl_py as native
from acl_py.compat.acl.binding import runs, takes
from acl_py.compat.acl.lookups import Running, asked, end, made
from acl_py.compat.acl.session import NOT_SUPPORTED, SUCCESS, Session, session
from device_model.events import Event
from device_model.rules import EventClass

_COMPLETE, _NOT_READY = 0, 1
_RECORDED, _NOT_RECORDED = 1, 0  # of query_event_status: the other way round


@takes("")
def create_event() -> tuple[int, int]:
    """Create an event for which nobody can wait before it is recorded."""
    here = session()
    return made(here, native.CreateEvent())


@takes("u")
def create_event_with_flag(flag: int) -> tuple[int, int]:
    """Create a level-flag event."""
    here = session()
    return made(here, native.CreateEventWithFlag(flag))


@takes("u")
def create_event_ex_with_flag(flag: int) -> tuple[int, int]:
    """Create a snapshot event."""
    here = session()
    return made(here, native.CreateEventExWithFlag(flag))


@runs("k")
def destroy_event(here: Session, handle: int) -> Running:
    """Destroy an event; who waits for it goes on waiting."""
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


def _status(verb: Any, handle: int, complete: int, not_ready: int) -> tuple[int, int]:
    here = session()
    status, ret = asked(here, verb, here.events, handle, None)
    if ret:
        return 0, ret
    return (complete if status is native.Status.COMPLETE else not_ready), ret


@takes("k")
def query_event(handle: int) -> tuple[int, int]:
    """Has the last record taken place? 0 yes, or there was none, 1 no; not for snapshot events."""
    here = session()
    event = here.find(handle, Event)
    if event is not None and event.class_ is EventClass.SNAPSHOT and len(here.runtime.rules.events) > 1:
        return 0, here.refuse(NOT_SUPPORTED, "query_event is not for events of create_event_ex_with_flag")
    if event is not None and event.work is None and event.destroyed is None:
        return _COMPLETE, SUCCESS
    return _status(native.QueryEventStatus, handle, _COMPLETE, _NOT_READY)


@takes("k")
def query_event_status(handle: int) -> tuple[int, int]:
    """Has the last record taken place? 1 yes, 0 no: the other way round than query_event."""
    return _status(native.QueryEventStatus, handle, _RECORDED, _NOT_RECORDED)


@takes("k")
def query_event_wait_status(handle: int) -> tuple[int, int]:
    """Are all waits for an event over? 0 yes, 1 no."""
    return _status(native.QueryEventWaitStatus, handle, _COMPLETE, _NOT_READY)


@runs("k")
def synchronize_event(here: Session, handle: int) -> Running:
    """Wait for the last record of an event."""
    return native.SynchronizeEvent(here.events[handle])


@runs("ki")
def synchronize_event_with_timeout(here: Session, handle: int, timeout: int) -> Running:
    """The same, for *timeout* milliseconds at the longest."""
    return native.SynchronizeEventWithTimeout(here.events[handle], timeout)


@takes("kk")
def event_elapsed_time(start: int, end: int) -> tuple[float, int]:
    """Milliseconds between two records."""
    here = session()

    async def elapsed() -> float:
        return await native.EventElapsedTime(here.events[start], here.events[end])

    value, ret = here.call(elapsed())
    return (0.0 if ret else value), ret


@takes("k")
def event_get_timestamp(handle: int) -> tuple[int, int]:
    """When the last record took place, in microseconds."""
    here = session()
    return asked(here, native.GetEventTimestamp, here.events, handle)


@takes("k")
def get_event_id(handle: int) -> tuple[int, int]:
    """The number of an event."""
    here = session()
    try:
        return here.events[handle].id, SUCCESS
    except native.AclError as error:
        return 0, here.failed(error)


@takes("")
def get_event_avail_num() -> tuple[int, int]:
    """How many more event ids the device has."""
    value, ret = session().call(native.GetEventAvailNum())
    return value or 0, ret
