"""Events: snapshots of a stream's work, to wait for, to ask about and to take times from."""

from enum import IntFlag
from sys import _getframe

from acl_py.errors import Kind
from acl_py.runtime.runtime import Limit
from acl_py.runtime.scopes import Scope, current, found, scope_var
from acl_py.sites import Site, site_of
from acl_py.verbs.streams import Status, StreamLike, answered, check_bound, check_event, limit_of, resolve
from acl_py.waiting.deadlocks import Waiting
from device_model.completions import NOTHING, Completion
from device_model.events import CountedEvent, FlagEvent
from device_model.events import Event as Event
from device_model.rules import EventClass
from device_model.streams import Stream


class EventFlag(IntFlag):
    """aclrtEvent's flags, with their values."""

    SYNC = 0x1  # streams can wait for it
    CAPTURE_STREAM_PROGRESS = 0x2
    TIME_LINE = 0x8  # it has times
    DEVICE_USE_ONLY = 0x10
    EXTERNAL = 0x20  # streams can wait for it, and no host: for graphs; of CreateEventWithFlag, and by itself
    IPC = 0x40  # by itself


_HERE = EventFlag.SYNC | EventFlag.CAPTURE_STREAM_PROGRESS | EventFlag.TIME_LINE | EventFlag.EXTERNAL


async def CreateEvent(*, timing: bool = True, blocking: bool = False) -> Event:
    """Create an event in the current context; without *timing* it cannot be used for EventElapsedTime.

    A host that has to wait in SynchronizeEvent for a *blocking* event sleeps, so it wakes later (cudaEventBlockingSync;
    measured: event-blocking-sync). Under CUDA's rules waiting for an event before any record has no effect; under ACL's
    that is refused.
    """
    scope = current()
    event = _create(scope, "CreateEvent", None, bool(timing), True, site_of(_getframe(1)))
    event.blocking = bool(blocking)
    return event


async def CreateEventWithFlag(flag: int) -> Event:
    """Create a level-flag event: a record sets it, ResetEvent clears it, and a wait lasts until it is set, be that by a
    record that is still to come. *flag* is EventFlag.SYNC, with TIME_LINE to have times. Only under ACL's rules.
    """
    return _create_with(current(), "CreateEventWithFlag", EventClass.FLAG, flag, site_of(_getframe(1)))


async def CreateEventExWithFlag(flag: int) -> Event:
    """Create a snapshot event, which behaves as CUDA's; *flag* as for CreateEventWithFlag. Only under ACL's rules."""
    return _create_with(current(), "CreateEventExWithFlag", EventClass.SNAPSHOT, flag, site_of(_getframe(1)))


def _create_with(scope: Scope, name: str, class_: EventClass, flag: int, site: Site) -> Event:
    runtime = scope.runtime
    if len(runtime.rules.events) == 1:
        raise runtime.error(
            Kind.NOT_SUPPORTED,
            f"{name}() under rules {runtime.rules.name}, which have one class of events",
            "use CreateEvent(), or rules='acl'",
        )
    if type(flag) is not int and not isinstance(flag, EventFlag):
        raise TypeError(f"flag must be an EventFlag, not {flag!r}")
    if not 0 < flag < 0x80 or flag & 0x4 or flag & EventFlag.DEVICE_USE_ONLY:
        raise runtime.error(
            Kind.INVALID_VALUE, f"{flag:#x} makes no event for a host", "use EventFlag.SYNC, with TIME_LINE for times"
        )
    if any(flag & alone and flag != alone for alone in (EventFlag.EXTERNAL, EventFlag.IPC)):
        raise runtime.error(Kind.INVALID_VALUE, f"{EventFlag(flag)!r}: EXTERNAL and IPC stand alone", "use one of them")
    if flag & EventFlag.EXTERNAL and class_ is EventClass.SNAPSHOT:
        raise runtime.error(
            Kind.INVALID_VALUE, f"{name}() makes no EXTERNAL events", "use CreateEventWithFlag(EventFlag.EXTERNAL)"
        )
    if flag & ~_HERE:
        raise runtime.error(
            Kind.NOT_SUPPORTED, f"{EventFlag(flag)!r} needs other processes", "use SYNC and TIME_LINE only"
        )
    waitable = bool(flag & (EventFlag.SYNC | EventFlag.EXTERNAL))
    event = _create(scope, name, class_, bool(flag & EventFlag.TIME_LINE), waitable, site)
    event.external = bool(flag & EventFlag.EXTERNAL)
    return event


def _create(scope: Scope, name: str, class_: EventClass | None, timing: bool, waitable: bool, site: Site) -> Event:
    runtime, enter = scope.runtime, scope.runtime.host_ns
    ids = scope.context.device.event_ids
    if class_ is EventClass.FLAG and not ids.free:
        raise runtime.error(
            Kind.NO_EVENT_LEFT,
            f"all {ids.limit} events of {scope.context.device!r} are in use",
            "destroy those that are not needed, or wait for records that are pending",
        )
    runtime.pay(runtime.costs.create_event)
    event = scope.context.create_event(class_, timing=timing, waitable=waitable, made=site)
    runtime.called(name, enter, site)
    return event


async def DestroyEvent(event: Event) -> None:
    """Destroy *event*; streams that wait for it keep what it stood for (measured: destroy-event-busy)."""
    scope = current()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    check_event(scope, event)
    runtime.pay(runtime.costs.destroy_event)
    event.destroy(site)
    runtime.called("DestroyEvent", enter, site)


async def RecordEvent(event: Event, stream: StreamLike = None) -> Completion:
    """Let *event* stand for all that was queued in *stream* up to now, whatever it stood for before.

    Returns the completion of that work. On the legacy stream a record counts as work of the default stream.
    """
    scope = scope_var.get() or found()  # current(), written out: this is the hot path
    runtime = scope.runtime
    if scope.context.alert:
        runtime.check_call(scope.context, "RecordEvent")
    enter = runtime.host_ns
    site = site_of(_getframe(1))
    if type(stream) is not Stream or stream.home is not scope.context:
        stream = resolve(scope, stream)
    if type(event) is not Event or event.home is not scope.context:
        check_event(scope, event)
    if event.context.device is not stream.context.device:
        raise runtime.error(
            Kind.INVALID_HANDLE,
            f"{event!r} and {stream!r} are of different devices",
            "record an event on a stream of its own device",
        )
    if type(event) is not Event:
        await _get_ready(scope, event, stream, site)
    runtime.pay(runtime.costs.record)
    completion = event.record(stream, site)
    hooks = runtime.hooks
    if hooks.recorded is not None:
        hooks.recorded(event, stream)
    call = runtime.hooks.call
    if call is not None:
        call("RecordEvent", enter, runtime.host_ns, site)
    return completion


async def _get_ready(scope: Scope, event: Event, stream: Stream, site: Site) -> None:
    """The next record of *event* needs an id, which it has until it is over: wait until one is left."""
    check_bound(scope.runtime, stream, event)
    while isinstance(event, CountedEvent) and not event.ids.free:
        await scope.runtime.busy_until(event.ids.until_free(), f"RecordEvent({event!r}) waits for an event id", site)
        scope.runtime.check_stream(stream)
        check_event(scope, event)


async def ResetEvent(event: Event, stream: StreamLike = None) -> Completion:
    """Clear the flag of *event* when *stream* comes to it; use the stream that waits for it, behind the wait.

    With two waiters an early reset makes the other one wait for ever. Only for events of CreateEventWithFlag; for those
    of CreateEvent under ACL's rules the documentation leaves open what it does, and here it does nothing.
    """
    scope = current()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    found = resolve(scope, stream)
    check_event(scope, event)
    check_bound(runtime, found, event)
    if event.class_ is EventClass.SNAPSHOT or not event.waitable:
        raise runtime.error(
            Kind.NOT_SUPPORTED,
            f"{event!r} has no flag to clear",
            "events of CreateEventWithFlag(EventFlag.SYNC) have one, under rules='acl'",
        )
    runtime.pay(runtime.costs.record)
    completion = event.reset(found, site) if isinstance(event, FlagEvent) else found.turn()
    runtime.called("ResetEvent", enter, site)
    return completion


async def QueryEventWaitStatus(event: Event) -> Status:
    """Are all waits of streams for *event* over? Also when there was none. Not for snapshot events."""
    scope = current()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    _check_host(scope, event)
    if event.class_ is EventClass.SNAPSHOT:
        raise runtime.error(Kind.NOT_SUPPORTED, f"{event!r} does not count its waits", "ask QueryEventStatus()")
    runtime.pay(runtime.costs.query)
    done = not event.waits
    await answered(scope, NOTHING if done else None, lambda: Waiting(f"QueryEventWaitStatus({event!r})", NOTHING, site))
    runtime.called("QueryEventWaitStatus", enter, site)
    return Status.COMPLETE if done else Status.NOT_READY


async def GetEventTimestamp(event: Event) -> int:
    """When the last record of *event* took place, in whole microseconds of simulated time."""
    scope = current()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    check_event(scope, event)
    runtime.pay(runtime.costs.elapsed)
    try:
        _check_time(scope, event)
    finally:
        runtime.called("GetEventTimestamp", enter, site)
    return event.timestamp_ns() // 1000


async def GetEventAvailNum() -> int:
    """How many more event ids the current device has."""
    scope = current()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    runtime.pay(runtime.costs.other)
    runtime.called("GetEventAvailNum", enter, site)
    return scope.context.device.event_ids.free


async def QueryEventStatus(event: Event) -> Status:
    """Has the last record of *event* completed? If there was none: yes, but no for the classes of events whose waits
    need one.
    """
    scope = current()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    _check_host(scope, event)
    runtime.pay(runtime.costs.query)
    done = event.done and (event.work is not None or event.class_ is EventClass.SNAPSHOT)
    work = event.work or NOTHING
    await answered(scope, work if done else None, lambda: Waiting(f"QueryEventStatus({event!r})", work, site))
    runtime.called("QueryEventStatus", enter, site)
    if event.context.error is not None:
        raise runtime.lost(event.context)
    return Status.COMPLETE if done else Status.NOT_READY


async def SynchronizeEvent(event: Event) -> None:
    """Wait until the last record of *event* has completed; if there was none, for nothing."""
    await _synchronize(current(), "SynchronizeEvent", event, None, site_of(_getframe(1)))


async def SynchronizeEventWithTimeout(event: Event, timeout: int) -> None:
    """SynchronizeEvent for *timeout* milliseconds of simulated time at the longest, or for ever if that is -1; see
    SynchronizeStreamWithTimeout.
    """
    scope = current()
    limit = limit_of(scope.runtime, timeout, Kind.EVENT_TIMEOUT)
    await _synchronize(scope, "SynchronizeEventWithTimeout", event, limit, site_of(_getframe(1)))


async def _synchronize(scope: Scope, name: str, event: Event, limit: Limit | None, site: Site) -> None:
    _check_host(scope, event)
    streams = () if event.stream is None else (event.stream,)
    what = f"{name}({event!r})"
    runtime = scope.runtime
    asleep_ns = runtime.costs.wake_asleep if event.blocking else 0
    await runtime.synchronize(name, event.work or NOTHING, what, site, event.context, streams, limit, asleep_ns)


def _check_host(scope: Scope, event: Event) -> None:
    """Refuse events that a host can neither wait for nor ask."""
    check_event(scope, event)
    if event.external:
        raise scope.runtime.error(
            Kind.NOT_SUPPORTED, f"{event!r} was created with EXTERNAL", "synchronise with its stream instead"
        )


async def EventElapsedTime(start: Event, end: Event) -> float:
    """Milliseconds from the record of *start* to that of *end*, negative if they came the other way round.

    Raises:
        AclError: one was never recorded, was created without timing, or has not completed.
    """
    scope = current()
    runtime, site, enter = scope.runtime, site_of(_getframe(1)), scope.runtime.host_ns
    for event in (start, end):
        check_event(scope, event)
    if start.context.device is not end.context.device:
        raise runtime.error(
            Kind.INVALID_HANDLE,
            f"{start!r} and {end!r} are of different devices, whose clocks have nothing to do with one another",
            "take both times on one device",
        )
    runtime.pay(runtime.costs.elapsed)
    try:
        for event in (start, end):
            _check_time(scope, event)
    finally:
        runtime.called("EventElapsedTime", enter, site)
    return (end.timestamp_ns() - start.timestamp_ns()) / 1e6


def _check_time(scope: Scope, event: Event) -> None:
    if not event.timing:
        raise scope.runtime.error(
            Kind.NO_TIMING,
            f"{event!r} was created without timing",
            "create it with CreateEvent(timing=True), or EventFlag.TIME_LINE",
        )
    if event.work is None:
        raise scope.runtime.error(
            Kind.NOT_RECORDED, f"{event!r} has no time", "record it on a stream with RecordEvent() first"
        )
    if not event.work.done:
        raise scope.runtime.error(Kind.NO_TIME_YET, f"{event!r} has no time yet", "synchronise with it before asking")


EventRecord = RecordEvent
EventQuery = QueryEventStatus
EventSynchronize = SynchronizeEvent
