"""acl.rt: events. Argument orders are the binding's: record_event(event, stream), stream_wait_event(stream, event)."""

from typing import Any

import acl_py as native
from acl_py.compat.acl.binding import takes
from acl_py.compat.acl.lookups import asked, end, made, missing, run, stream_of, thing_of
from acl_py.compat.acl.session import NOT_SUPPORTED, SUCCESS, session
from device_model.events import CountedEvent, Event, FlagEvent, RecordedEvent
from device_model.rules import EventClass
from device_model.streams import Stream

_CLASSES = frozenset((Event, CountedEvent, RecordedEvent, FlagEvent))
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


@takes("k")
def destroy_event(handle: int) -> int:
    """Destroy an event; who waits for it goes on waiting."""
    return end(session(), native.DestroyEvent, handle, Event)


@takes("kk")
def record_event(event: int, stream: int) -> int:
    """Record an event in a stream."""
    here = session()
    thing: Any = here.objects.get(event)
    queue = here.objects.get(stream)
    if type(queue) is Stream and type(thing) in _CLASSES:
        return here.ret(native.RecordEvent(thing, queue))
    return run(here, native.RecordEvent, thing_of(here, event, Event), stream_of(here, stream))


@takes("kk")
def stream_wait_event(stream: int, event: int) -> int:
    """Let a stream wait for an event."""
    here = session()
    thing: Any = here.objects.get(event)
    queue = here.objects.get(stream)
    if type(queue) is Stream and type(thing) in _CLASSES:
        return here.ret(native.StreamWaitEvent(queue, thing))
    return run(here, native.StreamWaitEvent, stream_of(here, stream), thing_of(here, event, Event))


@takes("kk")
def reset_event(event: int, stream: int) -> int:
    """Clear an event's flag in a stream."""
    here = session()
    return run(here, native.ResetEvent, thing_of(here, event, Event), stream_of(here, stream))


def _status(verb: Any, handle: int, complete: int, not_ready: int) -> tuple[int, int]:
    status, ret = asked(session(), verb, handle, Event, None)
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


@takes("k")
def synchronize_event(handle: int) -> int:
    """Wait for the last record of an event."""
    here = session()
    return run(here, native.SynchronizeEvent, thing_of(here, handle, Event))


@takes("ki")
def synchronize_event_with_timeout(handle: int, timeout: int) -> int:
    """The same, for *timeout* milliseconds at the longest."""
    here = session()
    return run(here, native.SynchronizeEventWithTimeout, thing_of(here, handle, Event), timeout)


@takes("kk")
def event_elapsed_time(start: int, end: int) -> tuple[float, int]:
    """Milliseconds between two records."""
    here = session()
    events = thing_of(here, start, Event), thing_of(here, end, Event)
    code = missing(here, *events)
    if code:
        return 0.0, code
    value, ret = here.call(native.EventElapsedTime(*events))
    return (0.0 if ret else value), ret


@takes("k")
def event_get_timestamp(handle: int) -> tuple[int, int]:
    """When the last record took place, in microseconds."""
    return asked(session(), native.GetEventTimestamp, handle, Event)


@takes("k")
def get_event_id(handle: int) -> tuple[int, int]:
    """The number of an event."""
    here = session()
    event = thing_of(here, handle, Event)
    code = missing(here, event)
    return (0, code) if code else (event.id, SUCCESS)


@takes("")
def get_event_avail_num() -> tuple[int, int]:
    """How many more event ids the device has."""
    value, ret = session().call(native.GetEventAvailNum())
    return value or 0, ret
